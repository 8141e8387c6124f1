// `holdfast symbolize`, and what the exporter writes, as they ship: real programs, decoded files.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "fmt/format.h"
#include "report/names/symbolize/mapping_layout.h"
#include "report/names/symbolize/perf_map.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "tests/symbols/oracle.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTool = HOLDFAST_TOOL;

class SymbolizeCommand : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("DEBUGINFOD_URLS"); }

  // The heap profile of one run with every allocation sampled.
  std::string Run(const std::string& program, const std::string& out = "out") {
    const CommandResult result = Command(
        fmt::format("{} run -q -o {} --heap-interval 1 --lock-interval 0 -- {}", kTool, folder_.File(out), program));
    EXPECT_EQ(result.status, 0) << result.output;
    std::string newest;  // another one is from before the exit handlers
    for (const auto& entry : std::filesystem::directory_iterator(folder_.File(out))) {
      if (entry.path().string().ends_with(".heap.pb.gz")) newest = std::max(newest, entry.path().string());
    }
    EXPECT_NE(newest, "") << "no profile";
    return newest;
  }
  CommandResult Symbolize(const std::string& arguments) { return Command(kTool + " symbolize " + arguments); }
  static Profile Read(const std::string& file) {
    auto profile = ReadPprofFile(file);
    EXPECT_TRUE(profile.ok()) << profile.status();
    return profile.ok() ? *std::move(profile) : Profile();
  }
  static std::string Raw(const std::string& file) {
    const std::string text = GoPprof("-raw", file).output;
    return text.substr(text.find("\nSamples:"));
  }

  // Every frame of a file with ELF addresses is what llvm-symbolizer says of that address; how many were compared.
  static size_t ExpectSameAsLlvm(const Profile& profile, const std::string& only) {
    std::map<uint32_t, std::vector<uint32_t>> by_mapping;
    for (uint32_t i = 0; i < profile.locations.size(); ++i) {
      if (profile.locations[i].mapping != Profile::kNone) by_mapping[profile.locations[i].mapping].push_back(i);
    }
    size_t compared = 0;
    for (const auto& [mapping, locations] : by_mapping) {
      const std::string file(profile.strings[profile.mappings[mapping].file]);
      if (!file.starts_with(only)) continue;
      std::vector<uint64_t> addresses;
      std::vector<OracleFrames> ours;
      for (const uint32_t i : locations) {
        addresses.push_back(profile.locations[i].address);
        OracleFrames frames;
        for (const Profile::Line& line : profile.LinesOf(profile.locations[i])) {
          const Profile::Function& function = profile.functions[line.function];
          const StringId linked = function.system_name != 0 ? function.system_name : function.name;
          std::string name(profile.strings[linked]);
          if (name.find("!0x") != std::string::npos) name.clear();  // code without a name is called by its place
          frames.push_back({name, std::string(profile.strings[function.filename]), static_cast<uint32_t>(line.line)});
        }
        ours.push_back(frames);
      }
      const Comparison result = Compare(file, addresses, AskLlvm(file, addresses), ours);
      EXPECT_EQ(result.different, 0u) << file << "\n" << result.first_differences;
      compared += addresses.size();
    }
    return compared;
  }

  Folder folder_;
};

TEST_F(SymbolizeCommand, TheExporterWritesLinesAndInlinedFunctions) {
  // Lines have a time to be found in, which a busy machine may take away.
  const auto is_late = [](const Profile& profile) {
    return std::any_of(profile.comments.begin(), profile.comments.end(), [&profile](StringId comment) {
      return profile.strings[comment].find("/gcc-5-pie/sample: not in time") != std::string_view::npos;
    });
  };
  Profile profile = Read(Run(HOLDFAST_SAMPLES "/gcc-5-pie/sample"));
  for (int i = 0; i < 10 && is_late(profile); ++i) {
    profile = Read(Run(HOLDFAST_SAMPLES "/gcc-5-pie/sample", fmt::format("again{}", i)));
  }
  if (is_late(profile)) GTEST_SKIP() << "this machine is too busy: lines were not found in time in 11 runs";
  ASSERT_FALSE(profile.mappings.empty());
  const Profile::Mapping& main = profile.mappings[0];
  EXPECT_TRUE(main.has_functions && main.has_filenames && main.has_line_numbers && main.has_inline_frames);
  size_t inlined = 0, lines = 0;
  for (const Profile::Location& location : profile.locations) {
    if (location.mapping != 0) continue;
    inlined += location.lines > 1;
    lines += profile.LinesOf(location)[0].line != 0;
  }
  EXPECT_GT(inlined, 50u);
  EXPECT_GT(lines, 100u);
}

TEST_F(SymbolizeCommand, EveryFrameOfAProgramIsWhatLlvmSymbolizerSays) {
  if (LlvmSymbolizer().empty()) GTEST_SKIP() << "llvm-symbolizer is not installed";
  for (const char* sample : {"gcc-5-pie", "gcc-4-no-pie", "clang-5", "rust-v0"}) {
    const std::string program = std::string(HOLDFAST_SAMPLES "/") + sample + "/sample";
    if (!std::filesystem::exists(program)) continue;
    const std::string file = Run(program, sample), elf = folder_.File("elf.pb.gz");
    ASSERT_EQ(Symbolize("--addresses elf -o " + elf + " " + file).status, 0);
    EXPECT_GT(ExpectSameAsLlvm(Read(elf), program), 30u) << sample;
  }
}

TEST_F(SymbolizeCommand, ObjectsThatWereOpenedAndClosedAreNamedLikeAllOthers) {
  if (LlvmSymbolizer().empty()) GTEST_SKIP() << "llvm-symbolizer is not installed";
  const std::string programs = HOLDFAST_PROGRAMS "/";
  const std::string file =
      Run(fmt::format("{0}loads_plugins {0}first_plugin.so {0}second_plugin.so", programs), "plugins");
  const std::string elf = folder_.File("elf.pb.gz");
  ASSERT_EQ(Symbolize("--addresses elf -o " + elf + " " + file).status, 0);
  const Profile profile = Read(elf);
  EXPECT_GT(ExpectSameAsLlvm(profile, programs), 3u);
  std::string functions;
  for (const auto& function : profile.functions) functions += std::string(profile.strings[function.name]) + "\n";
  EXPECT_THAT(functions, HasSubstr("first_plugin_allocates"));
  EXPECT_THAT(functions, HasSubstr("second_plugin_allocates"));
}

// As if each instruction of it had been seen: the mapping is that of a library which was opened, called and closed.
TEST_F(SymbolizeCommand, TenThousandAddressesOfALibraryThatWasClosed) {
  if (LlvmSymbolizer().empty()) GTEST_SKIP() << "llvm-symbolizer is not installed";
  const std::string library = HOLDFAST_SAMPLES "/gcc-5-shared/sample";
  Profile profile = Read(Run(fmt::format("{}/loads_plugins {}", HOLDFAST_PROGRAMS, library), "closed"));
  uint32_t mapping = 0;
  while (mapping < profile.mappings.size() && profile.strings[profile.mappings[mapping].file] != library) ++mapping;
  ASSERT_LT(mapping, profile.mappings.size());
  const std::vector<int64_t> one_of_each(profile.sample_types.size(), 1);
  for (const uint64_t address : CodeAddresses(library, 10000)) {
    const Profile::Mapping& of = profile.mappings[mapping];
    // The linker places code at the offset that it has in the file.
    profile.locations.push_back({.address = of.start - of.offset + address, .mapping = mapping});
    const auto location = static_cast<uint32_t>(profile.locations.size() - 1);
    profile.AddSample({&location, 1}, one_of_each, {});
  }
  const std::string seen = folder_.Write("seen.pb.gz", EncodePprof(profile)), elf = folder_.File("elf.pb.gz");
  ASSERT_EQ(Symbolize("--addresses elf -o " + elf + " " + seen).status, 0);
  EXPECT_GE(ExpectSameAsLlvm(Read(elf), library), 10000u);
}

TEST_F(SymbolizeCommand, AFileWithElfAddressesIsEqualFromRunToRun) {
  const std::string program = HOLDFAST_SAMPLES "/gcc-5-pie/sample";
  std::vector<std::string> raws;
  for (const char* name : {"one", "two"}) {
    const std::string file = Run(program, name), elf = folder_.File(std::string(name) + ".pb.gz");
    ASSERT_EQ(Symbolize("--addresses elf -o " + elf + " " + file).status, 0);
    raws.push_back(Raw(elf));
    EXPECT_NE(Raw(file), raws.back());
  }
  EXPECT_EQ(raws[0], raws[1]);
  EXPECT_GT(raws[0].size(), 10000u);
}

TEST_F(SymbolizeCommand, RemovedNamesComeBack) {
  const std::string file = Run(HOLDFAST_SAMPLES "/gcc-5-pie/sample");
  ASSERT_EQ(Symbolize(file).status, 0);
  const std::string before = Raw(file);
  const std::string none = folder_.File("none.pb.gz"), names = folder_.File("names.pb.gz");
  ASSERT_EQ(Symbolize("--symbols none -o " + none + " " + file).status, 0);
  EXPECT_THAT(Raw(none), Not(HasSubstr("Fill<0>")));
  for (const auto& mapping : Read(none).mappings) EXPECT_FALSE(mapping.has_functions || mapping.has_line_numbers);
  ASSERT_EQ(Symbolize("--symbols symtab -o " + names + " " + file).status, 0);
  EXPECT_THAT(Raw(names), HasSubstr("Fill<0>"));
  EXPECT_THAT(Raw(names), Not(HasSubstr("heavy_inlining.cc:")));
  for (const auto& location : Read(names).locations) EXPECT_LE(location.lines, 1u);
  for (const std::string& stripped : {none, names}) {
    ASSERT_EQ(Symbolize(stripped).status, 0);
    EXPECT_EQ(Raw(stripped), before);
  }
}

TEST_F(SymbolizeCommand, NameAndSystemNameAlwaysDifferAndAddressesAreUnique) {
  const std::string file = Run(HOLDFAST_SAMPLES "/gcc-5-pie/sample");
  ASSERT_EQ(Symbolize(file).status, 0);
  const Profile profile = Read(file);
  std::set<uint64_t> addresses;
  for (const auto& function : profile.functions) EXPECT_NE(function.name, function.system_name);
  for (const auto& location : profile.locations) EXPECT_TRUE(addresses.insert(location.address).second);
}

TEST_F(SymbolizeCommand, SaysWhichFilesAreMissing) {
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-5-pie/sample", folder_.File("app"));
  const std::string file = Run(folder_.File("app"));
  std::filesystem::remove(folder_.File("app"));
  const std::string none = folder_.File("none.pb.gz");
  ASSERT_EQ(Symbolize("-q --symbols none -o " + none + " " + file).status, 0);
  const CommandResult result = Symbolize(none);
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("no names: app (No such file or directory)"));
  EXPECT_THAT(Command(kTool + " info " + none).output,
              HasSubstr("no names: " + folder_.File("app") + ": No such file or directory"));
  // Another program in its place gives no wrong name.
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-4-no-pie/sample", folder_.File("app"));
  EXPECT_THAT(Symbolize(none).output, HasSubstr("no names: app (another build id"));
  EXPECT_THAT(Raw(none), HasSubstr("app!0x"));
  // And with the right one everything is there, and the comments are gone.
  std::filesystem::create_directory(folder_.File("copies"));
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-5-pie/sample", folder_.File("copies/app"));
  EXPECT_THAT(Symbolize("--debug-dir " + folder_.File("copies") + " " + none).output, Not(HasSubstr("no names")));
  EXPECT_THAT(Command(kTool + " info " + none).output, Not(HasSubstr("no names")));
}

TEST_F(SymbolizeCommand, AFileIsFoundByItsBuildIdWhateverItsName) {
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-5-pie/sample", folder_.File("app"));
  const std::string file = Run(folder_.File("app")), none = folder_.File("none.pb.gz");
  std::filesystem::remove(folder_.File("app"));
  ASSERT_EQ(Symbolize("-q --symbols none -o " + none + " " + file).status, 0);
  std::filesystem::create_directories(folder_.File("builds/yesterday"));
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-4-no-pie/sample", folder_.File("builds/app"));  // another build
  EXPECT_THAT(Symbolize("--debug-dir " + folder_.File("builds") + " " + none).output, HasSubstr("no names: app"));
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-5-pie/sample", folder_.File("builds/yesterday/server-1.2"));
  EXPECT_THAT(Symbolize("--debug-dir " + folder_.File("builds") + " " + none).output,
              ::testing::AllOf(Not(HasSubstr("no names")), Not(HasSubstr("no lines: app"))));
}

TEST_F(SymbolizeCommand, AFolderMeansTheProfilesInIt) {
  Run(HOLDFAST_SAMPLES "/gcc-5-pie/sample");
  const std::string out = folder_.File("out"), copies = folder_.File("copies");
  ASSERT_EQ(Symbolize("-q --symbols none " + out).status, 0);
  std::filesystem::create_directory(copies);
  ASSERT_EQ(Symbolize("-q -o " + copies + " " + out).status, 0);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    if (!entry.path().string().ends_with(".pb.gz")) continue;
    ++files;
    const Profile completed = Read(copies + "/" + entry.path().filename().string());
    EXPECT_GT(completed.functions.size(), Read(entry.path()).functions.size());
  }
  EXPECT_GE(files, 1u);
  // One name twice: neither overwrites the other.
  const CommandResult twice = Symbolize("-q -o " + copies + " " + out + " " + out);
  EXPECT_EQ(twice.status, 3);
  EXPECT_THAT(twice.output, HasSubstr("already contains a file with this name"));
  EXPECT_EQ(Symbolize("-q " + copies + "/nothing").status, 3);
  EXPECT_EQ(Symbolize("-q -o /dev/null " + out).status, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

// As the exporter names them: a global without a symbol by its place in the file.
TEST_F(SymbolizeCommand, LocksOfAStrippedProgramAreCalledByTheirPlaceAndNamedLater) {
  std::filesystem::copy_file(HOLDFAST_PROGRAMS "/named_locks", folder_.File("whole"));
  ASSERT_EQ(Command("strip -o " + folder_.File("app") + " " + folder_.File("whole")).status, 0);
  std::vector<std::string> lists;
  for (const char* out : {"one", "two"}) {
    ASSERT_EQ(Command(fmt::format("{} run -q -o {} --heap-interval 0 --lock-interval 1ns -- {}", kTool,
                                  folder_.File(out), folder_.File("app")))
                  .status,
              0);
    const std::string list = Command(kTool + " locks --format csv " + folder_.File(out)).output;
    std::smatch place;
    ASSERT_TRUE(std::regex_search(list, place, std::regex("app!0x[0-9a-f]+"))) << list;
    lists.push_back(place[0]);
  }
  EXPECT_EQ(lists[0], lists[1]);  // though the program lay elsewhere
  const CommandResult nothing = Symbolize(folder_.File("one"));
  ASSERT_EQ(nothing.status, 0) << nothing.output;
  EXPECT_THAT(Command(kTool + " locks " + folder_.File("one")).output, HasSubstr(lists[0]));
  const CommandResult named = Symbolize("--debug-dir " + folder_.path() + " " + folder_.File("one"));
  ASSERT_EQ(named.status, 0) << named.output;
  const std::string list = Command(kTool + " locks " + folder_.File("one")).output;
  EXPECT_THAT(list, HasSubstr("global_queue_mutex (app)"));
  EXPECT_THAT(list, Not(HasSubstr(lists[0])));
}

TEST_F(SymbolizeCommand, ReadsStandardInputAndWritesStandardOutput) {
  const std::string file = Run(HOLDFAST_SAMPLES "/gcc-5-pie/sample"), out = folder_.File("piped.pb.gz");
  ASSERT_EQ(Command(kTool + " symbolize -q - < " + file + " > " + out).status, 0);
  EXPECT_GT(Read(out).functions.size(), 50u);
}

TEST_F(SymbolizeCommand, WrongUseIsReported) {
  EXPECT_EQ(Symbolize("").status, 2);
  EXPECT_EQ(Symbolize("--symbols much x.pb.gz").status, 2);
  EXPECT_EQ(Symbolize("-o " + folder_.File("nothing") + " a.pb.gz b.pb.gz").status, 2);
  EXPECT_EQ(Symbolize(folder_.Write("x.pb.gz", "no profile")).status, 3);
  EXPECT_EQ(ReadWhole(folder_.File("x.pb.gz")), "no profile");
  EXPECT_THAT(Symbolize("/no/such.pb.gz").output, HasSubstr("/no/such.pb.gz"));
}

// ---- JIT code ----

TEST(PerfMap, TheLaterEntryHoldsAnAddress) {
  const PerfMap map("1000 100 first\n1080 20 second one\nbad line\n2000 0 empty\n0x3000 0x10 third\n10f0 20 fourth\n");
  EXPECT_EQ(map.Find(0xfff), "");
  EXPECT_EQ(map.Find(0x1000), "first");
  EXPECT_EQ(map.Find(0x107f), "first");
  EXPECT_EQ(map.Find(0x1080), "second one");
  EXPECT_EQ(map.Find(0x10a0), "first");
  EXPECT_EQ(map.Find(0x10ef), "first");
  EXPECT_EQ(map.Find(0x10f0), "fourth");
  EXPECT_EQ(map.Find(0x1110), "");
  EXPECT_EQ(map.Find(0x2000), "");
  EXPECT_EQ(map.Find(0x300f), "third");
}

TEST(PerfMap, AFunctionOfV8HasOneNameInAllTiers) {
  for (const char* name : {"JS:~load /srv/a.js:3:1", "JS:^load /srv/a.js:3:1", "JS:*load /srv/a.js:3:1"})
    EXPECT_EQ(WithoutTier(name), "JS:load /srv/a.js:3:1");
  EXPECT_EQ(WithoutTier("py::load:/srv/a.py"), "py::load:/srv/a.py");
  EXPECT_EQ(WithoutTier("void A.cache(int)"), "void A.cache(int)");
}

TEST(PerfMap, NamesCodeInNoFileOfThisProcessOnly) {
  Profile profile;
  profile.sample_types.push_back({profile.strings.Intern("inuse_space"), profile.strings.Intern("bytes")});
  profile.locations.push_back({.address = 0x7000'1000});
  profile.locations.push_back({.address = 0x7000'2000});
  const uint32_t frames[] = {0, 1};
  const int64_t value = 1;
  profile.AddSample(frames, {&value, 1}, {});
  const int pid = 4'000'000 + getpid();  // no process has it
  profile.mutable_process()->pid = pid;
  profile.mutable_process()->started_ns = 1'577'836'800'000'000'000;
  const std::string path = fmt::format("/tmp/perf-{}.map", pid);
  std::ofstream(path) << "70001000 10 LazyCompile:~main /app/index.js:1\n";
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
  Symbolize(&profile, symbolizer, {.perf_map = true});
  std::filesystem::remove(path);
  const auto name = [&](size_t i) {
    return std::string(profile.strings[profile.functions[profile.LinesOf(profile.locations[i])[0].function].name]);
  };
  EXPECT_EQ(name(0), "LazyCompile:main /app/index.js:1") << "in all tiers";
  EXPECT_EQ(name(1), "[unknown]!0x70002000");
}

}  // namespace
}  // namespace holdfast::testing
