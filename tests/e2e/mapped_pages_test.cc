// The resident part of mappings, by stack: the kind `resident` contains them beside the live blocks, each byte once.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct KnownMapping {
  std::string label;
  double mappings = 0, bytes = 0, resident = 0;
};
struct Truth {
  std::map<std::string, KnownMapping> functions;
  double huge = 0, swapped = 0;
};

Truth TruthOf(const std::string& output) {
  Truth truth;
  std::istringstream lines(output);
  for (std::string word, function; lines >> word;) {
    if (word == "huge") lines >> truth.huge;
    if (word == "swapped") lines >> truth.swapped;
    if (word != "resident") continue;
    lines >> function;
    KnownMapping& of = truth.functions[function];
    lines >> of.label >> of.mappings >> of.bytes >> of.resident;
  }
  return truth;
}

double Of(const Values& values, const std::string& type) {
  return values.contains(type) ? static_cast<double>(values.at(type)) : 0;
}

uint64_t PageTableKib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  uint64_t kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPTE:")) std::istringstream(line.substr(6)) >> kib;
  }
  return kib;
}

class MappedPages : public Profiled {
 protected:
  RunResult Run(const std::string& interval, std::vector<std::string> arguments, int seed = 1,
                const std::string& lock_interval = "1s") {
    arguments.insert(arguments.begin(), "known_resident_maps");
    return RunAs(Launch::kRun, arguments,
                 {{"heap-interval", interval},
                  {"seed", std::to_string(seed)},
                  {"snapshot-every", "0"},
                  {"lock-interval", lock_interval},
                  {"resident", "yes"}});
  }
  // The file of the process that has `function`.
  Decoded FileOf(const std::string& function) {
    for (Decoded& each : Newest(out(), "resident")) {
      EXPECT_EQ(each.error, "");
      if (each.Names(function)) return std::move(each);
    }
    ADD_FAILURE() << "no resident file names " << function << "\n" << AllSummaries();
    return {};
  }
  static void ExpectIs(const Decoded& profile, const std::string& function, const KnownMapping& of) {
    SCOPED_TRACE(function);
    const Values values =
        of.label == "-" ? profile.SumAny(function) : profile.SumLeafWhere(function, "mapping", of.label);
    EXPECT_EQ(Of(values, "inuse_objects"), of.mappings);
    EXPECT_EQ(Of(values, "inuse_space"), of.bytes);
    EXPECT_EQ(Of(values, "resident_space"), of.resident);
    EXPECT_EQ(Of(profile.SumAny(function), "inuse_space"), of.bytes) << "nothing under another label";
  }
};

TEST_F(MappedPages, AreExactToThePage) {
  for (const char* mode : {"plain", "fork"}) {
    SCOPED_TRACE(mode);
    std::filesystem::remove_all(out());
    const RunResult r = Run("1", {"12", mode});
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    Truth truth = TruthOf(r.out);
    ASSERT_GE(truth.functions.size(), 14u) << r.out;
    const auto in_child = truth.functions.extract("in_child");
    const Decoded profile = FileOf("touched_in_part");
    for (const auto& [function, of] : truth.functions) ExpectIs(profile, function, of);
    EXPECT_EQ(profile.VarianceOf("resident_space"), 0);
    if (profile.Comment("huge_bytes").value_or("").starts_with("not known")) {
      GTEST_LOG_(INFO) << "this kernel does not tell which pages are huge (Linux 6.7)";
    } else {
      EXPECT_EQ(profile.CommentNumber("huge_bytes"), truth.huge);
    }
    // What is resident in all: no byte twice.
    double sum = 0;
    for (const auto& [function, of] : truth.functions) sum += of.resident;
    const double beside = Of(profile.Total(), "resident_space") - sum;
    EXPECT_GE(beside, 0);
    EXPECT_LE(beside, 1 << 20) << "libc's heap, which has next to nothing";
    EXPECT_LE(Of(profile.Total(), "resident_space"), profile.CommentNumber("resident_bytes"));
    if (in_child.empty()) continue;
    const Decoded child = FileOf("in_child");
    ExpectIs(child, "in_child", in_child.mapped());
    EXPECT_FALSE(child.Names("touched_in_part")) << "of its parent's it has none";
  }
}

// At the default interval blocks of the pool are estimated, and what they leave of it with them; everything else is exact.
TEST_F(MappedPages, AreExactAtTheDefaultToo) {
  for (int seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    std::filesystem::remove_all(out());
    const RunResult r = Run("64KiB", {"3"}, seed);
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    Truth truth = TruthOf(r.out);
    const Decoded profile = FileOf("touched_in_part");
    const KnownMapping pool = truth.functions.extract("pool").mapped();
    const KnownMapping blocks = truth.functions.extract("take_from_pool").mapped();
    for (const auto& [function, of] : truth.functions) ExpectIs(profile, function, of);
    const double of_blocks = Of(profile.SumAny("take_from_pool"), "resident_space");
    const double of_pool = Of(profile.SumLeaf("pool"), "resident_space");
    EXPECT_EQ(of_pool, std::max(0.0, pool.resident + blocks.resident - of_blocks)) << "each byte once";
    const double p = 1 - std::exp(-8192.0 / (64 << 10));
    EXPECT_NEAR(of_blocks, blocks.resident, 5 * 8192 * std::sqrt(50 * (1 - p) / p) + 1);
    EXPECT_GT(profile.VarianceOf("resident_space"), 0);
  }
}

TEST_F(MappedPages, NoneOfManyMappingsIsForgotten) {
  Running program(CommandFor(Launch::kPreload, {"known_resident_maps", "1", "many", "wait"},
                             {{"heap-interval", "512KiB"}, {"snapshot-every", "0"}, {"resident", "yes"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const std::string pid = std::to_string(program.pid());
  const uint64_t before = PageTableKib(program.pid());
  const RunResult dump = RunTool({"dump", "--tables", tables(), pid});
  ASSERT_TRUE(dump.exited(0)) << dump.Describe();
  // To look for glibc's arenas in the TiB that is reserved must not make the page tables for it: of 64 MiB once.
  EXPECT_LE(PageTableKib(program.pid()), before + 1024);
  program.Signal(SIGKILL);
  const Truth truth = TruthOf(program.Wait().out);
  EXPECT_TRUE(Settled());
  ExpectIs(FileOf("one_of_many"), "one_of_many", truth.functions.at("one_of_many"));
}

TEST_F(MappedPages, AreRecordedEvenIfNoBlockIsSampled) {
  const RunResult r = Run("0", {"3"});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("--resident: covers only mappings, because --heap-interval is 0"));
  Truth truth = TruthOf(r.out);
  truth.functions.erase("pool");
  truth.functions.erase("take_from_pool");
  const Decoded profile = FileOf("touched_in_part");
  for (const auto& [function, of] : truth.functions) ExpectIs(profile, function, of);
  EXPECT_EQ(Of(profile.SumLeafWhere("pool", "mapping", "anonymous"), "resident_space"), 256 * 4096);
  EXPECT_THAT(Run("0", {"3"}, 1, "0").err, HasSubstr("--resident: no profile will be written, because"));
}

TEST_F(MappedPages, StacksOfThreadsBelongToTheCreator) {
  const RunResult r = Run("1", {"2", "stacks"});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const Truth truth = TruthOf(r.out);
  ASSERT_TRUE(truth.functions.contains("start_threads")) << r.out;
  const Decoded profile = FileOf("touched_in_part");
  EXPECT_FALSE(profile.Comment("stacks left out").has_value());
  const Values values = profile.SumLeafWhere("start_threads", "mapping", "stack");
  EXPECT_EQ(Of(values, "inuse_objects"), truth.functions.at("start_threads").mappings);
  EXPECT_EQ(Of(values, "inuse_space"), truth.functions.at("start_threads").bytes);
  EXPECT_EQ(Of(values, "resident_space"), truth.functions.at("start_threads").resident);
  for (const auto& [function, of] : truth.functions) {
    if (function != "start_threads") ExpectIs(profile, function, of);
  }
}

// Only where there is a swap device.
TEST_F(MappedPages, SwappedPagesAreDistinguishedFromResidentOnes) {
  std::ifstream swaps("/proc/swaps");
  std::string line;
  if (!std::getline(swaps, line) || !std::getline(swaps, line)) GTEST_SKIP() << "no swap device is in use";
  const RunResult r = Run("1", {"3", "swap"});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const Truth truth = TruthOf(r.out);
  const Decoded profile = FileOf("put_away");
  ExpectIs(profile, "put_away", truth.functions.at("put_away"));
  EXPECT_EQ(Of(profile.SumLeaf("put_away"), "swapped_space"), truth.swapped);
  EXPECT_GE(profile.CommentNumber("swapped_bytes"), truth.swapped);
}

// Nobody looks at what is gone, and nobody waits for it.
TEST_F(MappedPages, AKilledProcessLeavesACompleteFileOrNone) {
  const RunResult r = Run("1", {"3", "vanish"});
  for (const Decoded& each : Newest(out(), "resident")) {
    EXPECT_EQ(each.error, "");
    EXPECT_LE(Of(each.Total(), "resident_space"), Of(each.Total(), "inuse_space"));
  }
}

TEST_F(MappedPages, AreKeptApartInViews) {
  const RunResult r = Run("16KiB", {"5"});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const RunResult files =
      RunTool({"top", "--metric", "resident_space", "--tagfocus", "mapping=file", "--error", out()});
  ASSERT_TRUE(files.exited(0)) << files.Describe();
  EXPECT_THAT(files.out, HasSubstr("read_file"));
  EXPECT_THAT(files.out, Not(HasSubstr("touched_in_part")));
  EXPECT_THAT(files.out, ::testing::ContainsRegex("selected .* ± 0 "));
  const RunResult arenas = RunTool({"top", "--metric", "resident_space", "--tagfocus", "mapping=arena", out()});
  EXPECT_THAT(arenas.out, HasSubstr("pool")) << arenas.Describe();
  const RunResult swapped = RunTool({"top", "--metric", "swapped_space", out()});
  EXPECT_THAT(swapped.out, HasSubstr("swapped_space (resident)")) << swapped.Describe();
  EXPECT_THAT(swapped.out, ::testing::ContainsRegex("\npages +0 swapped, [^\n]* on huge pages")) << swapped.Describe();
  const RunResult info = RunTool({"info", FileOf("pool").path});
  EXPECT_THAT(info.out, HasSubstr("huge_bytes: "));
  EXPECT_THAT(info.out, HasSubstr("swapped_bytes: "));
}

}  // namespace
}  // namespace holdfast::testing
