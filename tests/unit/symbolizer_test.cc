#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <set>

#include "report/analysis/flat_table.h"
#include "report/names/elf/demangle.h"
#include "report/names/elf/symbol_ranges.h"
#include "report/names/symbolize/earlier_names.h"
#include "report/names/symbolize/elf_addresses.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "report/profile/typed_records.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using testing::Command;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Folder;
using testing::GoTop;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadWhole;
using testing::Rows;

// The library of this program that has the function.
std::string LibraryWith(const char* function) {
  Dl_info info;
  return dladdr(dlsym(RTLD_DEFAULT, function), &info) != 0 ? info.dli_fname : "";
}
const std::string kLibc = LibraryWith("gnu_get_libc_version");
const std::string kLibstdcxx = LibraryWith("_ZNSo5flushEv");

std::string SelfPath() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string BuildIdOf(const std::string& file) {
  const std::string text = Command("readelf -n " + file).output;
  std::smatch match;
  return std::regex_search(text, match, std::regex("Build ID: ([0-9a-f]+)")) ? std::string(match[1]) : "";
}

DebugFileFinder::Options DebugFilesIn(const std::string& root) { return {.roots = {root}}; }
DebugFileFinder::Options NoDebugFiles() { return {.roots = {}}; }

// What nm says of a file's functions.
struct NmSymbol {
  uint64_t address, size;
  std::string name;
};
std::vector<NmSymbol> Nm(const std::string& options, const std::string& file) {
  std::vector<NmSymbol> symbols;
  std::istringstream lines(Command("nm -S " + options + " " + file).output);
  static const std::regex row("^([0-9a-f]+) ([0-9a-f]+) ([tTwWi]) (.*)$");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    std::string name = match[4];
    if (const size_t version = name.find('@'); version != std::string::npos) name.resize(version);
    symbols.push_back({std::stoull(match[1], nullptr, 16), std::stoull(match[2], nullptr, 16), name});
  }
  return symbols;
}

// At each symbol of nm the symbolizer gives one of the names that nm has there, at its first and last byte.
void ExpectNamesOfNm(const std::string& options, const std::string& file, ModuleSymbolizer* symbolizer,
                     size_t at_least) {
  auto module = symbolizer->Find(file, BuildIdOf(file));
  ASSERT_TRUE(module.ok()) << file << ": " << module.status();
  const auto symbols = Nm(options, file);
  std::map<uint64_t, std::set<std::string>> names;
  for (const NmSymbol& symbol : symbols) names[symbol.address].insert(symbol.name);
  size_t compared = 0;
  for (const NmSymbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    EXPECT_THAT(names[symbol.address], Contains((*module)->NameAt(symbol.address).name)) << std::hex << symbol.address;
    ++compared;
  }
  EXPECT_GE(compared, at_least);
}

__attribute__((noinline)) void SomeFunction(const std::string& text) { asm volatile("" : : "r"(&text) : "memory"); }

// A profile with one location for each address, in the mapping of `file` that has no bias (as read from a file).
Profile ProfileAt(const std::string& file, const std::string& build_id, uint64_t bias,
                  std::vector<uint64_t> elf_addresses) {
  Profile p;
  p.sample_types.push_back({p.strings.Intern("inuse_space"), p.strings.Intern("bytes")});
  p.mappings.push_back({.start = bias,
                        .limit = bias + 0x10000000,
                        .offset = 0,
                        .file = p.strings.Intern(file),
                        .build_id = p.strings.Intern(build_id),
                        .bias = bias,
                        .has_bias = true});
  for (const uint64_t address : elf_addresses) {
    const auto frame = static_cast<uint32_t>(p.locations.size());
    p.locations.push_back({.address = bias + address, .mapping = 0});
    const int64_t value = 1 + frame;
    p.AddSample({&frame, 1}, {&value, 1}, {});
  }
  return p;
}

const Profile::Function& FunctionOf(const Profile& p, size_t location) {
  return p.functions[p.LinesOf(p.locations[location])[0].function];
}
std::string NameOf(const Profile& p, size_t location) { return std::string(p.strings[FunctionOf(p, location).name]); }

std::string Copy(const Folder& folder, const std::string& file, const std::string& name) {
  std::filesystem::copy_file(file, folder.File(name));
  return folder.File(name);
}

// ---- Names ----

TEST(Demangle, CppAndRustNames) {
  EXPECT_EQ(Demangle("_ZN3foo3barEi"), "foo::bar(int)");
  EXPECT_EQ(Demangle("_Z3foov.cold"), "foo() [clone .cold]");
  EXPECT_EQ(Demangle("_ZNSt6vectorIiSaIiEE9push_backERKi"),
            "std::vector<int, std::allocator<int> >::push_back(int const&)");
  EXPECT_EQ(Demangle("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
  EXPECT_EQ(
      Demangle("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE"),
      "<Test + 'static as foo::Bar<Test>>::bar");
  EXPECT_EQ(Demangle("_RNvCs15kBYyAo9fc_7mycrate7example"), "mycrate::example");
}

TEST(Demangle, AnUnmangledNameHasNoOtherName) {
  for (const char* name : {"", "main", "_Z", "_R", "_Zgarbage", "_start", "__libc_start_main"})
    EXPECT_EQ(Demangle(name), "") << name;
}

TEST(Demangle, ANameThatExpandsBeyondMemoryStaysMangled) {
  std::string bomb = "_Z1f1PIiiE";  // P<int,int>, P<P<int,int>,P<int,int>>, … doubling 30 times
  const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (int i = 0; i < 30; ++i) {
    const std::string last = std::string("S") + digits[i] + "_";
    bomb += "S_I" + last + last + "E";
  }
  EXPECT_EQ(Demangle(bomb), "");
  EXPECT_EQ(Demangle("_Z" + std::string(1 << 20, 'P')), "");
}

TEST(Demangle, RandomNamesDoNotCrash) {
  std::mt19937 random(5);
  const std::string alphabet = "_ZRNSTIEKPC0123456789abisvxyF$.";
  int readable = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string name = random() % 2 ? "_Z" : "_R";
    for (unsigned n = random() % 40; n > 0; --n) name += alphabet[random() % alphabet.size()];
    const std::string demangled = Demangle(name);
    ASSERT_LE(demangled.size(), kMaxDemangled) << name;
    readable += !demangled.empty();
  }
  EXPECT_GT(readable, 0);
}

// ---- Ranges ----

std::vector<std::tuple<uint64_t, uint64_t, uint32_t>> Flat(std::vector<SymbolRanges::Symbol> symbols) {
  SymbolRanges ranges;
  for (const auto& symbol : symbols) ranges.Add(symbol);
  std::vector<std::tuple<uint64_t, uint64_t, uint32_t>> flat;
  for (const auto& range : ranges.Flatten()) flat.emplace_back(range.start, range.end, range.name);
  return flat;
}

TEST(SymbolRanges, TheInnermostSymbolHoldsAnAddress) {
  EXPECT_THAT(Flat({{0, 0x60, 0x100, 1, 0, "outer"}, {0x10, 0x10, 0x100, 2, 0, "inner"}}),
              ElementsAre(std::tuple(0, 0x10, 1), std::tuple(0x10, 0x20, 2), std::tuple(0x20, 0x60, 1)));
}

TEST(SymbolRanges, GlobalComesBeforeLocalBeforeWeakAtOneAddress) {
  EXPECT_THAT(Flat({{0, 8, 8, 1, 2, "weak"}, {0, 8, 8, 2, 1, "local"}, {0, 8, 8, 3, 0, "global_name"}}),
              ElementsAre(std::tuple(0, 8, 3)));
  EXPECT_THAT(Flat({{0, 8, 8, 1, 0, "__malloc"}, {0, 8, 8, 2, 0, "malloc"}}), ElementsAre(std::tuple(0, 8, 2)));
  EXPECT_THAT(Flat({{0, 8, 8, 1, 0, "b"}, {0, 8, 8, 2, 0, "a"}}), ElementsAre(std::tuple(0, 8, 2)));
}

TEST(SymbolRanges, AWorseNameHoldsWhatTheBetterDoesNotCover) {
  EXPECT_THAT(Flat({{0, 0x20, 0x40, 1, 2, "weak"}, {0, 0x10, 0x40, 2, 0, "global"}}),
              ElementsAre(std::tuple(0, 0x10, 2), std::tuple(0x10, 0x20, 1)));
}

TEST(SymbolRanges, ALabelWithoutASizeHoldsWhatNothingElseDoes) {
  EXPECT_THAT(Flat({{0, 0x10, 0x80, 1, 0, "sized"},
                    {0x8, 0, 0x80, 2, 0, "inside"},
                    {0x20, 0, 0x80, 3, 0, "label"},
                    {0x30, 0, 0x80, 4, 0, "last"},
                    {0x60, 0x10, 0x80, 5, 0, "sized2"}}),
              ElementsAre(std::tuple(0, 0x10, 1), std::tuple(0x20, 0x30, 3), std::tuple(0x30, 0x60, 4),
                          std::tuple(0x60, 0x70, 5)));
  EXPECT_THAT(Flat({{0x10, 0, 0x18, 1, 0, "bounded by its section"}}), ElementsAre(std::tuple(0x10, 0x18, 1)));
}

TEST(SymbolRanges, AreDisjointAndAgreeWithTheRulesForRandomSymbols) {
  std::mt19937 random(11);
  const char* names[] = {"a", "_b", "ccc", "d", "__e"};
  for (int round = 0; round < 2000; ++round) {
    std::vector<SymbolRanges::Symbol> symbols;
    for (unsigned n = random() % 12; n > 0; --n) {
      const uint64_t start = random() % 40;
      symbols.push_back({start, random() % 12, 60, n, static_cast<int>(random() % 3), names[random() % 5]});
    }
    const auto flat = Flat(symbols);
    std::map<uint64_t, uint32_t> held;
    uint64_t end = 0;
    for (const auto& [start, stop, name] : flat) {
      EXPECT_LT(start, stop);
      EXPECT_GE(start, end);
      end = stop;
      for (uint64_t a = start; a < stop; ++a) held[a] = name;
    }
    for (uint64_t a = 0; a < 60; ++a) {
      // The last start that covers `a` wins.
      uint64_t best = 0;
      std::set<uint32_t> allowed;
      for (const auto& symbol : symbols) {
        if (symbol.size == 0 || a < symbol.start || a >= symbol.start + symbol.size || symbol.start < best) continue;
        if (symbol.start > best) allowed.clear();
        best = symbol.start;
        allowed.insert(symbol.name);
      }
      if (allowed.empty()) continue;
      EXPECT_TRUE(allowed.contains(held[a])) << a;
    }
  }
}

// ---- Files, compared with nm ----

TEST(Symbolizer, LibcHasTheNamesThatNmGives) {
  ModuleSymbolizer without_debug_files(NoDebugFiles());
  ExpectNamesOfNm("-DC", kLibc, &without_debug_files, 2000);
}

TEST(Symbolizer, ThisTestHasTheNamesThatNmGives) {
  ModuleSymbolizer symbolizer;
  ExpectNamesOfNm("-C", SelfPath(), &symbolizer, 2000);
}

// Symbols and lines are the same for all processors, so a copy with another processor in its header is enough.
TEST(Symbolizer, AFileOfArm64HasItsNames) {
  Folder folder;
  const std::string file = Copy(folder, SelfPath(), "app");
  {
    const Elf64_Half arm64 = EM_AARCH64;
    std::fstream header(file, std::ios::in | std::ios::out | std::ios::binary);
    header.seekp(offsetof(Elf64_Ehdr, e_machine));
    header.write(reinterpret_cast<const char*>(&arm64), sizeof arm64);
  }
  const auto symbols = Nm("-C", SelfPath());
  const auto found = std::find_if(symbols.begin(), symbols.end(),
                                  [](const NmSymbol& s) { return s.name.find("::SomeFunction(") != s.name.npos; });
  ASSERT_NE(found, symbols.end());
  ModuleSymbolizer symbolizer(NoDebugFiles());
  auto module = symbolizer.Find(file, BuildIdOf(SelfPath()));
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ((*module)->NameAt(found->address).name, found->name);
}

TEST(Symbolizer, AStrippedLibraryHasItsDynamicNames) {
  Folder folder;
  const std::string library = Copy(folder, kLibstdcxx, "libstripped.so");
  Command("strip " + library);
  ModuleSymbolizer symbolizer(NoDebugFiles());
  ExpectNamesOfNm("-DC", library, &symbolizer, 3000);
}

// As musl's memset, which is followed by the hidden function in which threads sleep.
TEST(Symbolizer, AFunctionWithoutASizeDoesNotNameHiddenOnesOfAStrippedFile) {
  Folder folder;
  const std::string source = folder.Write("a.s",
                                          ".text\n.globl known\n.type known,@function\nknown:\n.zero 100\nret\n"
                                          "hidden:\n.zero 400\nret\n");
  const std::string library = folder.File("liba.so");
  const auto built = Command("gcc -shared -Wl,--build-id -o " + library + " " + source);
  ASSERT_EQ(built.status, 0) << built.output;
  std::smatch match;
  const std::string symbols = Command("readelf -sW " + library).output;
  ASSERT_TRUE(std::regex_search(symbols, match, std::regex("([0-9a-f]{16}) +0 FUNC .* known")));
  const uint64_t known = std::stoull(match[1], nullptr, 16);
  const auto name_at = [&](uint64_t address) {
    ModuleSymbolizer symbolizer(NoDebugFiles());
    return (*symbolizer.Find(library, BuildIdOf(library)))->NameAt(address).name;
  };
  EXPECT_EQ(name_at(known + 50), "known");
  EXPECT_EQ(name_at(known + 450), "hidden");
  ASSERT_EQ(Command("strip " + library).status, 0);
  EXPECT_EQ(name_at(known + 50), "known");
  EXPECT_THAT(name_at(known + 450), Not(HasSubstr("known")));
}

TEST(Symbolizer, AStrippedFileIsCompletedFromItsDebugFile) {
  Folder folder;
  const std::string id = BuildIdOf(SelfPath());
  ASSERT_GT(id.size(), 4u);
  const std::string stripped = Copy(folder, SelfPath(), "app");
  const std::string debug = folder.File(".build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug");
  std::filesystem::create_directories(std::filesystem::path(debug).parent_path());
  ASSERT_EQ(Command("objcopy --only-keep-debug " + stripped + " " + debug).status, 0);
  ASSERT_EQ(Command("strip " + stripped).status, 0);
  ModuleSymbolizer with(DebugFilesIn(folder.path())), without(NoDebugFiles());
  const auto address = reinterpret_cast<uint64_t>(&SomeFunction);
  struct link_map* map = nullptr;
  Dl_info info;
  ASSERT_NE(dladdr1(reinterpret_cast<void*>(&SomeFunction), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP), 0);
  const uint64_t elf_address = address - map->l_addr;
  EXPECT_THAT((*with.Find(stripped, id))->NameAt(elf_address).name, HasSubstr("SomeFunction(std::"));
  EXPECT_THAT((*without.Find(stripped, id))->NameAt(elf_address).name, Not(HasSubstr("SomeFunction")));
  SomeFunction("");
}

TEST(Symbolizer, VersionsAreNoPartOfNames) {
  Folder folder;
  const std::string source = folder.Write("v.c", "void named_v1(void) {} __asm__(\".symver named_v1, named@@V1\");");
  const std::string versions = folder.Write("v.map", "V1 { global: named; local: *; };");
  const std::string library = folder.File("libv.so");
  const auto built =
      Command("gcc -shared -fPIC -Wl,--build-id,--version-script=" + versions + " -o " + library + " " + source);
  ASSERT_EQ(built.status, 0) << built.output;
  const std::string symbols = Command("readelf -sW " + library).output;
  std::smatch match;
  ASSERT_TRUE(std::regex_search(symbols, match, std::regex("([0-9a-f]{16}) .* named@@V1")));
  ModuleSymbolizer symbolizer(NoDebugFiles());
  const auto module = symbolizer.Find(library, BuildIdOf(library));
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ((*module)->NameAt(std::stoull(match[1], nullptr, 16)).name, "named");
}

TEST(Symbolizer, ADebugFileOfAnotherBuildIsNotUsed) {
  Folder folder;
  const std::string id = BuildIdOf(SelfPath());
  const std::string stripped = Copy(folder, SelfPath(), "app");
  ASSERT_EQ(Command("strip " + stripped).status, 0);
  const std::string debug = folder.File(".build-id/" + id.substr(0, 2) + "/" + id.substr(2) + ".debug");
  std::filesystem::create_directories(std::filesystem::path(debug).parent_path());
  std::filesystem::copy_file(kLibc, debug);
  ModuleSymbolizer symbolizer(DebugFilesIn(folder.path()));
  const auto module = symbolizer.Find(stripped, id);
  ASSERT_TRUE(module.ok());
  EXPECT_FALSE((*module)->elf().has_symtab());
}

TEST(Symbolizer, KeepsFilesAcrossProfiles) {
  ModuleSymbolizer symbolizer(NoDebugFiles());
  const std::string id = BuildIdOf(kLibc);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(symbolizer.Find(kLibc, id).ok());
  EXPECT_EQ(symbolizer.files_read(), 1u);
}

TEST(Symbolizer, ReadsAFileAgainOnceItHasChanged) {
  Folder folder;
  ModuleSymbolizer symbolizer(NoDebugFiles());
  const std::string library = Copy(folder, kLibc, "lib.so");
  const std::string id = BuildIdOf(library);
  ASSERT_TRUE(symbolizer.Find(library, id).ok());
  std::filesystem::last_write_time(library, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  ASSERT_TRUE(symbolizer.Find(library, id).ok());
  EXPECT_EQ(symbolizer.files_read(), 2u);
}

TEST(Symbolizer, RefusesWhatIsNoRegularElfFile) {
  Folder folder;
  ModuleSymbolizer symbolizer(NoDebugFiles());
  const auto error = [&](const std::string& path, const std::string& id) {
    return std::string(symbolizer.Find(path, id).status().message());
  };
  EXPECT_EQ(error("/no/such.so", "aa"), "No such file or directory");
  EXPECT_EQ(error(folder.Write("text", "hello"), "aa"), "not an ELF file");
  EXPECT_EQ(error("/tmp", "aa"), "not a regular file");
  ASSERT_EQ(mkfifo(folder.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(error(folder.File("pipe"), "aa"), "not a regular file");  // and does not wait for a writer
  EXPECT_EQ(error("libc.so.6", "aa"), "not a file");
  EXPECT_THAT(error(kLibc, "aabb"),
              HasSubstr("another build id (" + BuildIdOf(kLibc) + ") than the program had loaded (aabb)"));
}

// ---- Profiles ----

TEST(Symbolize, GivesDemangledNamesAndKeepsTheMangledOnes) {
  const auto symbols = Nm("-D", kLibstdcxx);
  const auto cpp =
      std::find_if(symbols.begin(), symbols.end(), [](const NmSymbol& s) { return s.name == "_ZNSo5flushEv"; });
  ASSERT_NE(cpp, symbols.end());
  const std::string file = std::filesystem::canonical(kLibstdcxx);
  Profile p = ProfileAt(file, BuildIdOf(file), 0x7f1200000000, {cpp->address + 1});
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&p, symbolizer);
  EXPECT_EQ(NameOf(p, 0), "std::ostream::flush()");
  EXPECT_EQ(p.strings[FunctionOf(p, 0).system_name], "_ZNSo5flushEv");
  EXPECT_TRUE(p.mappings[0].has_functions);
}

// A name that an earlier profile of the process has is not lost when the file is gone.
TEST(Symbolize, TakesNamesOfAnEarlierProfile) {
  const auto symbols = Nm("-D", kLibc);
  Profile earlier = ProfileAt(kLibc, BuildIdOf(kLibc), 0x7f1200000000, {symbols[0].address, symbols[1].address});
  Profile later = ProfileAt(kLibc, "0123456789", 0x7f1200000000, {symbols[0].address, symbols[1].address});
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&earlier, symbolizer);
  Symbolize(&later, symbolizer);  // another build by now
  const auto no_names = [&] {
    return std::count_if(later.comments.begin(), later.comments.end(),
                         [&](StringId comment) { return later.strings[comment].starts_with("no names: "); });
  };
  ASSERT_EQ(no_names(), 1);
  EXPECT_EQ(TakeNamesFrom(earlier, &later), 0u) << "of another module";
  for (Profile::Mapping& mapping : later.mappings) mapping.build_id = later.strings.Intern(BuildIdOf(kLibc));
  EXPECT_EQ(TakeNamesFrom(earlier, &later), 2u);
  EXPECT_EQ(NameOf(later, 0), NameOf(earlier, 0));
  EXPECT_EQ(NameOf(later, 1), NameOf(earlier, 1));
  EXPECT_EQ(no_names(), 0);
}

TEST(Symbolize, NameAndSystemNameAlwaysDiffer) {
  const auto symbols = Nm("-D", kLibc);
  std::vector<uint64_t> addresses;
  for (size_t i = 0; i < 300; ++i) addresses.push_back(symbols[i].address);
  Profile p = ProfileAt(kLibc, BuildIdOf(kLibc), 0x7f1200000000, addresses);
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&p, symbolizer);
  for (const auto& function : p.functions) EXPECT_NE(function.name, function.system_name);
}

TEST(Symbolize, UnnamedCodeGetsItsElfAddress) {
  Profile p = ProfileAt("/no/such/libfoo.so.1", "aabb", 0x7f1200000000, {0x1234});
  p.mappings.push_back({.start = 0x7fff00000000,
                        .limit = 0x7fff00001000,
                        .offset = 0,
                        .file = p.strings.Intern("[vdso]"),
                        .build_id = 0,
                        .bias = 0x7fff00000000,
                        .has_bias = true});
  p.locations.push_back({.address = 0x7fff00000abc, .mapping = 1});
  p.locations.push_back({.address = 0x123456789});
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&p, symbolizer);
  EXPECT_EQ(NameOf(p, 0), "libfoo.so.1!0x1234");
  EXPECT_EQ(NameOf(p, 1), "[vdso]!0xabc");
  EXPECT_EQ(NameOf(p, 2), "[unknown]!0x123456789");
  for (const auto& mapping : p.mappings) EXPECT_TRUE(mapping.has_functions);  // every location has a line
  ASSERT_EQ(p.comments.size(), 1u);
  EXPECT_EQ(p.strings[p.comments[0]], "no names: /no/such/libfoo.so.1: No such file or directory");
}

TEST(Symbolize, AnotherBuildGivesNoNamesAndSaysSo) {
  const auto symbols = Nm("-D", kLibc);
  Profile p = ProfileAt(kLibc, "aabbcc", 0x7f1200000000, {symbols[100].address});
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&p, symbolizer);
  EXPECT_THAT(NameOf(p, 0), ::testing::StartsWith("libc.so.6!0x"));
  ASSERT_EQ(p.comments.size(), 1u);
  EXPECT_THAT(std::string(p.strings[p.comments[0]]), HasSubstr("no names: " + kLibc + ": another build id"));
}

TEST(Symbolize, LinesThatAreThereStay) {
  Profile p = testing::SmallProfile();
  ModuleSymbolizer symbolizer(NoDebugFiles());
  const size_t functions = p.functions.size();
  Symbolize(&p, symbolizer);
  EXPECT_EQ(p.functions.size(), functions);
  EXPECT_EQ(p.LinesOf(p.locations[1]).size(), 2u);
}

TEST(Symbolize, AProfileThatWasReadFromAFileFindsTheElfAddressByTheHeaders) {
  const auto symbols = Nm("-D", kLibc);
  const auto found =
      std::find_if(symbols.begin(), symbols.end(), [](const NmSymbol& s) { return s.name == "qsort_r"; });
  ASSERT_NE(found, symbols.end());
  // libc's code segment as the kernel maps it: start and file offset, no bias.
  std::smatch match;
  const std::string headers = Command("readelf -lW " + kLibc).output;
  ASSERT_TRUE(std::regex_search(
      headers, match, std::regex("LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ R E")));
  const uint64_t offset = std::stoull(match[1], nullptr, 16), address = std::stoull(match[2], nullptr, 16);
  Profile p = ProfileAt(kLibc, BuildIdOf(kLibc), 0x7f1200000000, {found->address + 2});
  p.mappings[0].has_bias = false;
  p.mappings[0].start = 0x7f1200000000 + address;
  p.mappings[0].offset = offset;
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&p, symbolizer);
  EXPECT_EQ(NameOf(p, 0), "qsort_r");
}

TEST(Symbolize, WithoutABuildIdTheLayoutMustFit) {
  Folder folder;
  const std::string library = Copy(folder, kLibc, "lib.so");
  ASSERT_EQ(Command("objcopy --remove-section .note.gnu.build-id " + library).status, 0);
  ASSERT_EQ(BuildIdOf(library), "");
  const auto symbols = Nm("-D", library);
  Profile fits = ProfileAt(library, "", 0x7f1200000000, {symbols[100].address});
  std::smatch match;
  const std::string headers = Command("readelf -lW " + library).output;
  ASSERT_TRUE(std::regex_search(
      headers, match, std::regex("LOAD +0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x[0-9a-f]+ 0x[0-9a-f]+ R E")));
  fits.mappings[0].offset = std::stoull(match[1], nullptr, 16);
  fits.mappings[0].start = fits.mappings[0].bias + std::stoull(match[2], nullptr, 16);
  Profile differs = ProfileAt(library, "", 0x7f1200000000, {symbols[100].address});
  differs.mappings[0].offset = fits.mappings[0].offset;
  differs.mappings[0].start = fits.mappings[0].start + 0x1000;
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&fits, symbolizer);
  Symbolize(&differs, symbolizer);
  EXPECT_THAT(NameOf(fits, 0), Not(HasSubstr("!0x")));
  EXPECT_THAT(NameOf(differs, 0), HasSubstr("lib.so!0x"));
  EXPECT_THAT(std::string(differs.strings[differs.comments[0]]), HasSubstr("another file than the program had loaded"));
}

TEST(Symbolize, GoShowsTheNamesUnchanged) {
  Folder folder;
  const std::string file = std::filesystem::canonical(kLibstdcxx);
  std::vector<uint64_t> addresses;
  for (const NmSymbol& symbol : Nm("-D", file)) {
    if (symbol.size != 0) addresses.push_back(symbol.address);
  }
  Profile p = ProfileAt(file, BuildIdOf(file), 0x7f1200000000, addresses);
  ModuleSymbolizer symbolizer(NoDebugFiles());
  Symbolize(&p, symbolizer);
  const std::string saved = folder.Write("p.pb.gz", EncodePprof(p));
  const auto stacks = FilteredStacks::Build(std::make_shared<Profile>(std::move(p)), {0}, {});
  const FlatTable flat(*stacks);
  Rows ours;
  for (const uint32_t node : flat.Sorted(false)) ours[stacks->nodes()[node].name] = {flat.Self(node), flat.Total(node)};
  EXPECT_GT(ours.size(), 3000u);
  EXPECT_EQ(ours, GoTop(saved, "inuse_space", "bytes"));
}

// ---- Hostile files: an error or names, no crash (the asan preset watches) ----

TEST(SymbolizerHostile, DamagedFiles) {
  Folder folder;
  const std::string source =
      folder.Write("a.c", "int used(int x) { return x + 1; } int other(void) { return used(2); }");
  ASSERT_EQ(Command("gcc -shared -fPIC -Wl,--build-id -o " + folder.File("a.so") + " " + source).status, 0);
  const std::string whole = ReadWhole(folder.File("a.so")), id = BuildIdOf(folder.File("a.so"));
  std::mt19937 random(3);
  size_t named = 0;
  const auto probe = [&](const std::string& bytes) {
    const std::string file = folder.Write("damaged.so", bytes);
    const int fd = open(file.c_str(), O_RDONLY);
    const auto elf = ElfSymbols::Load(fd, id);
    close(fd);
    if (!elf.ok()) return;
    for (uint64_t address = 0; address < 0x4000; address += 0x10) named += !(*elf)->Find(address).empty();
    (void)(*elf)->AddressOfOffset(0x1000);
  };
  probe(whole);
  EXPECT_GT(named, 0u);
  for (size_t i = 0; i < whole.size(); i += 1 + whole.size() / 400) probe(whole.substr(0, i));
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = whole;
    // Half of them where it hurts: the headers at the start, the section headers at the end.
    for (unsigned flips = 1 + random() % 6; flips > 0; --flips) {
      const size_t at = random() % 4 == 0   ? random() % 1024
                        : random() % 2 == 0 ? damaged.size() - 1 - random() % 2048
                                            : random() % damaged.size();
      damaged[at] = static_cast<char>(random());
    }
    probe(damaged);
  }
}

// Samples are sorted and merged, and each keeps its own course.
TEST(ElfAddressesTest, EachSampleKeepsItsCourse) {
  Profile profile;
  profile.sample_types.push_back({profile.strings.Intern("inuse_space"), profile.strings.Intern("bytes")});
  for (const uint64_t address : {0x3000, 0x2000, 0x1000}) profile.locations.push_back({.address = address});
  using Frames = std::vector<uint32_t>;
  using Values = std::vector<int64_t>;
  profile.AddSample(Frames{0}, Values{3}, {});
  profile.AddSample(Frames{2}, Values{1}, {});
  profile.AddSample(Frames{1}, Values{2}, {});
  profile.AddSample(Frames{2}, Values{10}, {});
  record::Course& course = profile.mutable_records()->course.emplace();
  course.elapsed_ns = {40, 80};
  course.sample = {{.number = 1, .allocated_bytes = {3}},
                   {.number = 2, .allocated_bytes = {0, 1}, .freed_objects = {1}},
                   {.number = 4, .allocated_bytes = {10}},
                   {.number = 9, .allocated_bytes = {90}}};
  ModuleSymbolizer symbolizer(NoDebugFiles());
  const Profile sorted = UseElfAddresses(profile, symbolizer).profile;
  ASSERT_EQ(sorted.samples.size(), 3u);
  EXPECT_EQ(sorted.ValuesOf(0)[0], 11);
  EXPECT_EQ(sorted.ValuesOf(2)[0], 3);
  const std::vector<record::SampleCourse> own = {{.number = 1, .allocated_bytes = {10, 1}, .freed_objects = {1}},
                                                 {.number = 3, .allocated_bytes = {3}}};
  EXPECT_EQ(sorted.records().course->sample, own);
  EXPECT_EQ(sorted.records().course->elapsed_ns, course.elapsed_ns);
}

}  // namespace
}  // namespace holdfast
