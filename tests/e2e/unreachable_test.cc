// What keeps memory alive, and what nothing reaches: `holdfast holders` and `holdfast leaks --unreachable` on programs
// with a known truth (tests/programs/held_memory.cc).
#include <elf.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Holders : public Profiled {
 protected:
  std::unique_ptr<Running> Start(std::vector<std::string> arguments, Launch launch = Launch::kBare,
                                 const Options& options = {}) {
    arguments.insert(arguments.begin(), "held_memory");
    return Start(CommandFor(launch, std::move(arguments), options));
  }
  static std::unique_ptr<Running> Start(const Command& command) {
    auto program = std::make_unique<Running>(command);
    EXPECT_TRUE(program->WaitForOutput("ready"));
    return program;
  }
  RunResult Ask(const char* command, const Running& program, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {command, "--tables", tables(), std::to_string(program.pid())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return RunTool(arguments);
  }
  static void RemoveEmptySegments(const std::string& core) {
    std::fstream file(core, std::ios::in | std::ios::out | std::ios::binary);
    Elf64_Ehdr head;
    file.read(reinterpret_cast<char*>(&head), sizeof head);
    for (uint16_t i = 0; i < head.e_phnum; ++i) {
      const auto at = static_cast<std::streamoff>(head.e_phoff + i * sizeof(Elf64_Phdr));
      Elf64_Phdr header;
      file.seekg(at).read(reinterpret_cast<char*>(&header), sizeof header);
      if (header.p_type != PT_LOAD || header.p_filesz > 0) continue;
      header.p_type = PT_NULL;
      file.seekp(at).write(reinterpret_cast<const char*>(&header), sizeof header);
    }
  }
  // The value of a key in a row of --format csv that begins with `label`; -1: there is no such row.
  static double CsvValue(const std::string& csv, const std::string& label, size_t column) {
    const std::string start = "\"" + label;
    size_t at = csv.rfind(start, 0) == 0 ? 0 : csv.find("\n" + start);
    if (at == std::string::npos) return -1;
    at = csv.find("\",", at) + 2;
    for (; column > 0; --column) at = csv.find(',', at) + 1;
    return atof(csv.c_str() + at);
  }
};

// Everything is recorded.
const Options kAll = {{"heap-interval", "1"}, {"snapshot-every", "0"}};

TEST_F(Holders, NamesTheVariablesThatHoldWhatAFunctionAllocated) {
  const auto program = Start({"plant"}, Launch::kPreload, kAll);
  const RunResult containers = Ask("holders", *program, {"--of", "kept_containers", "--format", "csv"});
  ASSERT_TRUE(containers.exited(0)) << containers.Describe();
  double bytes = 0;
  for (const char* variable : {"kept_map", "kept_list", "kept_table"}) {
    const double held =
        CsvValue(containers.out, std::string("(anonymous namespace)::") + variable + " (held_memory)", 0);
    EXPECT_GT(held, 20'000) << containers.out;  // a pointer left in a reused block may hold a part of the list as well
    bytes += held;
  }
  EXPECT_GT(bytes, 300'000) << containers.out;
  EXPECT_THAT(containers.out, Not(HasSubstr("no pointer found")));
  const RunResult interior = Ask("holders", *program, {"--of", "kept_by_interior_pointers", "--format", "csv"});
  EXPECT_GE(CsvValue(interior.out, "(anonymous namespace)::kept_by_middle (held_memory)", 0), 290'000) << interior.out;
  EXPECT_THAT(interior.out, HasSubstr("kept_by_second_base")) << interior.out;
  EXPECT_THAT(interior.out, Not(HasSubstr("no pointer found")));
  const RunResult mapping = Ask("holders", *program, {"--of", "kept_in_a_mapping", "--format", "csv"});
  EXPECT_EQ(CsvValue(mapping.out, "mapping at 0x", 2), 1000) << mapping.out;

  const RunResult tree = Ask("holders", *program, {"--format", "csv"});
  EXPECT_GE(CsvValue(tree.out, "kept_large (held_memory)", 0), 1 << 20) << tree.out;
  EXPECT_THAT(tree.out, HasSubstr("Derived"));
  EXPECT_THAT(Ask("holders", *program, {"--json"}).out, HasSubstr("\"approximate\":false"));
}

// Also what `leaks` or `top` of any other tool can group by.
TEST_F(Holders, LabelsBlocksByHolderAndByClass) {
  const auto program = Start({"plant"}, Launch::kPreload, kAll);
  const std::string pid = std::to_string(program->pid());
  const RunResult held = RunTool({"top", "--by", "held", "--metric", "inuse_objects", "--format", "csv", pid});
  ASSERT_TRUE(held.exited(0)) << held.Describe();
  EXPECT_THAT(held.out, AllOf(HasSubstr("kept_large (held_memory)"), HasSubstr("[no pointer found]")))
      << held.Describe();
  EXPECT_THAT(held.out, HasSubstr("kept_by_second_base"));
  const RunResult classes = RunTool({"top", "--by", "class", "--metric", "inuse_objects", "--format", "csv", pid});
  EXPECT_TRUE(std::regex_search(classes.out, std::regex("1000,[^\n]*Derived"))) << classes.Describe();
  // Nothing is counted twice.
  const RunResult plain = RunTool({"top", "--metric", "inuse_space", "--format", "json", pid});
  EXPECT_TRUE(plain.exited(0)) << plain.Describe();
}

TEST_F(Holders, LabelsEachSnapshotOnRequest) {
  Options options = kAll;
  options.insert({"snapshot-holders", "yes"});
  const auto program = Start({"plant"}, Launch::kPreload, options);
  const RunResult dump = RunTool({"dump", "--tables", tables(), std::to_string(program->pid())});
  ASSERT_TRUE(dump.exited(0)) << dump.Describe();
  std::smatch heap;
  ASSERT_TRUE(std::regex_search(dump.out, heap, std::regex("[^\n]*\\.heap\\.pb\\.gz"))) << dump.Describe();
  const RunResult held = RunTool({"top", "--by", "held", "--metric", "inuse_objects", "--format", "csv", heap[0]});
  EXPECT_THAT(held.out, HasSubstr("kept_large (held_memory)")) << held.Describe();
}

TEST_F(Holders, ShowsThePathToABlock) {
  const auto program = Start({"plant"});
  const RunResult all = Ask("holders", *program, {"--address", "0x1"});
  EXPECT_THAT(all.out, HasSubstr("0x1 is in no block that "));
  const RunResult bad = Ask("holders", *program, {"--address", "zzz"});
  EXPECT_TRUE(bad.exited(2)) << bad.Describe();
  EXPECT_THAT(bad.err, HasSubstr("--address zzz: not an address"));
}

TEST_F(Holders, FindsEveryPlantedLeakAndNothingElse) {
  const auto program = Start({"plant"}, Launch::kPreload, kAll);
  const RunResult answer = Ask("leaks", *program, {"--unreachable", "--format", "csv"});
  ASSERT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_EQ(CsvValue(answer.out, "lost_blocks", 2), 1000) << answer.out;
  EXPECT_EQ(CsvValue(answer.out, "lost_list", 2), 1000) << answer.out;
  EXPECT_EQ(CsvValue(answer.out, "lost_list", 3), 1) << answer.out;
  EXPECT_EQ(CsvValue(answer.out, "new_ring", 2), 1000) << answer.out;
  EXPECT_EQ(CsvValue(answer.out, "new_ring", 3), 100) << answer.out;
  EXPECT_EQ(CsvValue(answer.out, "lost_large", 2), 20) << answer.out;
  EXPECT_THAT(answer.out, AllOf(HasSubstr("lost_map"), Not(HasSubstr("kept_"))));
}

// Blocks with mappings of their own.
TEST_F(Holders, FindsLargeBlocksOfAProgramThatIsNotProfiled) {
  const auto program = Start(CommandFor(Launch::kBare, {"held_memory", "plant"}));
  const RunResult answer = Ask("leaks", *program, {"--unreachable", "--format", "csv"});
  ASSERT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_EQ(CsvValue(answer.out, "blocks of up to 2MiB", 2), 20) << answer.out;
}

TEST_F(Holders, RandomGraphsAgreeWithTheOracleInTheProgram) {
  for (int seed = 1; seed <= 3; ++seed) {
    const auto program = Start({"graph", std::to_string(seed)});
    program->WaitForOutput("ready");
    const RunResult answer = Ask("leaks", *program, {"--unreachable", "--format", "json"});
    program->CloseInput();
    const RunResult ended = program->Wait();
    std::smatch lost, found;
    ASSERT_TRUE(std::regex_search(ended.out, lost, std::regex("lost ([0-9]+) blocks ([0-9]+) bytes"))) << ended.out;
    ASSERT_TRUE(std::regex_search(answer.out, found, std::regex("\"blocks\":([0-9]+),\"bytes\":([0-9]+),\"all_")))
        << answer.Describe();
    EXPECT_EQ(found[1], lost[1]) << "seed " << seed;
    EXPECT_EQ(found[2], lost[2]) << "seed " << seed;
  }
}

TEST_F(Holders, PointersThatMoveAllTheTimeAreNoLeaks) {
  const auto program = Start({"churn"});
  const RunResult answer = Ask("leaks", *program, {"--unreachable"});
  // Either the answer is settled and names none, or it says that it is not settled. Registers of the running thread may
  // hold a block.
  if (!answer.exited(0)) {
    EXPECT_THAT(answer.out, AnyOf(HasSubstr("not settled"), HasSubstr("uncertain"))) << answer.Describe();
  }
  const RunResult stopped = Ask("leaks", *program, {"--unreachable", "--stop"});
  EXPECT_TRUE(stopped.exited(0)) << stopped.Describe();
  EXPECT_THAT(stopped.out, HasSubstr("one copy, stopped for "));
}

TEST_F(Holders, AProcessWithoutUnreachableBlocksIsFine) {
  const auto program = Start({"idle"});
  const RunResult answer = Ask("leaks", *program, {"--unreachable", "--stop"});
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("has a pointer to it"));
}

// Its heaps are larger than its mappings were when they were read.
TEST_F(Holders, AProgramWhoseHeapsGrowMeanwhileGetsNoAllClear) {
  const auto program = Start(CommandFor(Launch::kBare, {"leaks_fast"}));
  for (int i = 0; i < 3; ++i) {
    const RunResult answer = Ask("leaks", *program, {"--unreachable"});
    EXPECT_TRUE(answer.exited(1) || answer.exited(4)) << answer.Describe();
    EXPECT_THAT(answer.out,
                AnyOf(HasSubstr("no pointer found to"), HasSubstr("cannot tell: the program changes its heap")))
        << answer.Describe();
  }
}

TEST_F(Holders, SaysWhyItCannotAnswer) {
  const RunResult gone = RunTool({"holders", "999999999"});
  EXPECT_TRUE(gone.exited(3) || gone.exited(2)) << gone.Describe();
  const auto program = Start({"idle"});
  const RunResult of = Ask("holders", *program, {"--of", "main"});
  EXPECT_TRUE(of.exited(3)) << of.Describe();
  EXPECT_THAT(of.err, HasSubstr("--of needs allocation stacks, and this process is not profiled"));
  const RunResult little = Ask("holders", *program, {"--scan-memory", "1KiB"});
  EXPECT_TRUE(little.exited(3)) << little.Describe();
  EXPECT_THAT(little.err, HasSubstr("Allow more with --scan-memory"));
}

// Blocks that are held in unusual places are no leaks.
TEST_F(Holders, UnusualPlacesHoldBlocks) {
  for (const char* place : {"ended_main", "coroutine", "read_only", "code", "epoll", "timer"}) {
    const auto program = Start(CommandFor(Launch::kBare, {"held_elsewhere", place}));
    for (const std::vector<std::string>& options : {std::vector<std::string>{}, {"--stop"}}) {
      std::vector<std::string> all = {"--unreachable"};
      all.insert(all.end(), options.begin(), options.end());
      const RunResult answer = Ask("leaks", *program, all);
      EXPECT_TRUE(answer.exited(0)) << place << " " << options.size() << answer.Describe();
    }
  }
}

TEST_F(Holders, VectorRegistersHoldBlocks) {
#if defined(__x86_64__)
  const auto program = Start(CommandFor(Launch::kBare, {"held_elsewhere", "vector"}));
  const RunResult answer = Ask("leaks", *program, {"--unreachable", "--stop"});
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  const RunResult tree = Ask("holders", *program, {"--stop", "--json"});
  ASSERT_TRUE(tree.exited(0)) << tree.Describe();
  EXPECT_THAT(tree.out, HasSubstr("\"unreached_blocks\":0,"));
  EXPECT_THAT(tree.out, Not(HasSubstr("\"stopped_ns\":0,")));
#endif
}

TEST_F(Holders, MemoryFromTheCachesOfEndedThreadsIsUnderstood) {
  using Words = std::vector<std::string>;
  for (const Words& command : {Words{"inherited_cache"}, Words{"inherited_cache", "one arena"}}) {
    const auto program = Start(CommandFor(Launch::kBare, command));
    for (const Words& options : {Words{"--unreachable"}, Words{"--unreachable", "--stop"}}) {
      const RunResult answer = Ask("leaks", *program, options);
      EXPECT_TRUE(answer.exited(0)) << answer.Describe();
    }
  }
}

TEST_F(Holders, QuotesInNamesAreDoubledInCsv) {
  const auto program = Start(CommandFor(Launch::kPreload, {"held_elsewhere", "quoted"}, kAll));
  const RunResult answer = Ask("leaks", *program, {"--unreachable", "--format", "csv"});
  ASSERT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("operator\"\"\"\"")) << answer.out;
}

// tcmalloc takes its first memory from sbrk, too.
TEST_F(Holders, AnotherAllocatorsHeapIsNotTakenForGlibcs) {
  const char* allocator = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
  if (!std::filesystem::exists(allocator)) GTEST_SKIP() << "no tcmalloc here";
  Command command = CommandFor(Launch::kBare, {"held_memory", "plant"});
  command.env["LD_PRELOAD"] = allocator;
  const auto program = Start(command);
  const RunResult answer = Ask("leaks", *program, {"--unreachable"});
  EXPECT_TRUE(answer.exited(4)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("the allocator is not understood"));
  EXPECT_THAT(Ask("holders", *program).out, HasSubstr("approximate: block sizes are guessed"));
}

// A tenth of the blocks is sampled; the others may be of the suppressed stacks.
TEST_F(Holders, SuppressedStacksAreNoFinding) {
  const auto program =
      Start({"plant"}, Launch::kPreload, {{"heap-interval", "16KiB"}, {"snapshot-every", "0"}, {"seed", "1"}});
  WriteFile(folder() + "/known", "leak:lost_\nleak:new_ring\n");
  const RunResult some = Ask("leaks", *program, {"--unreachable"});
  EXPECT_TRUE(some.exited(1)) << some.Describe();
  const RunResult none = Ask("leaks", *program, {"--unreachable", "--suppressions", folder() + "/known"});
  EXPECT_TRUE(none.exited(0) || none.exited(4)) << none.Describe();
  EXPECT_THAT(none.out, HasSubstr("suppressed"));
}

TEST_F(Holders, OptionsWithoutAnEffectAreRefused) {
  const RunResult limit = RunTool({"leaks", "--unreachable", "--limit", "1GiB", "1"});
  EXPECT_TRUE(limit.exited(2)) << limit.Describe();
  EXPECT_THAT(limit.err, HasSubstr("--limit: does not apply to --unreachable"));
  const RunResult two = RunTool({"leaks", "--unreachable", "1", "2"});
  EXPECT_TRUE(two.exited(2)) << two.Describe();
}

TEST_F(Holders, MoreMemoryThanThereIsIsRefused) {
  const auto program = Start({"idle"});
  const RunResult much = Ask("leaks", *program, {"--unreachable", "--scan-memory", "1000000GiB"});
  EXPECT_TRUE(much.exited(3)) << much.Describe();
  EXPECT_THAT(much.err, HasSubstr("of memory are free here"));
  const RunResult little = Ask("leaks", *program, {"--unreachable", "--scan-memory", "1KiB"});
  EXPECT_TRUE(little.exited(3)) << little.Describe();
  EXPECT_THAT(little.err, HasSubstr("Allow more with --scan-memory"));
}

TEST_F(Holders, ACoreFileAnswersAsTheProcessDid) {
  if (ReadFile("/proc/sys/kernel/core_pattern") != "core\n") GTEST_SKIP() << "core files go elsewhere here";
  Command command = CommandFor(Launch::kBare, {"held_memory", "crash"});
  command.cwd = folder();
  const auto program = Start(command);
  const RunResult alive = Ask("leaks", *program, {"--unreachable", "--stop", "--format", "json"});
  ASSERT_TRUE(alive.exited(1)) << alive.Describe();
  program->CloseInput();
  program->Wait();
  std::string core;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().filename().string().rfind("core", 0) == 0) core = entry.path();
  }
  ASSERT_NE(core, "");
  const RunResult dead = RunTool({"leaks", "--unreachable", "--format", "json", core});
  ASSERT_TRUE(dead.exited(1)) << dead.Describe();
  const std::regex blocks("\"blocks\":([0-9]+),\"bytes\":([0-9]+),\"all_");
  std::smatch before, after;
  ASSERT_TRUE(std::regex_search(alive.out, before, blocks)) << alive.out;
  ASSERT_TRUE(std::regex_search(dead.out, after, blocks)) << dead.out;
  EXPECT_EQ(before[0], after[0]);
  const RunResult tree = RunTool({"holders", "--format", "csv", core});
  EXPECT_GE(CsvValue(tree.out, "kept_large (held_memory)", 0), 1 << 20) << tree.Describe();
  EXPECT_THAT(tree.out, HasSubstr("Derived"));
  for (const char* command : {"holders", "leaks"}) {
    std::vector<std::string> arguments = {command, "--stop", core};
    if (command == std::string("leaks")) arguments.insert(arguments.begin() + 1, "--unreachable");
    const RunResult stopped = RunTool(arguments);
    EXPECT_TRUE(stopped.exited(2)) << stopped.Describe();
    EXPECT_THAT(stopped.err, HasSubstr("--stop needs a running process"));
  }

  // gcore writes no program headers for mappings of files that the process did not write.
  RemoveEmptySegments(core);
  const RunResult of_gcore = RunTool({"leaks", "--unreachable", "--format", "json", core});
  ASSERT_TRUE(of_gcore.exited(1)) << of_gcore.Describe();
  ASSERT_TRUE(std::regex_search(of_gcore.out, after, blocks)) << of_gcore.out;
  EXPECT_EQ(before[0], after[0]);

  std::filesystem::resize_file(core, std::filesystem::file_size(core) / 2);
  const RunResult half = RunTool({"leaks", "--unreachable", core});
  EXPECT_TRUE(half.exited(4)) << half.Describe();
  EXPECT_THAT(half.out, HasSubstr("missing in the core file"));
  EXPECT_THAT(RunTool({"holders", core}).out, HasSubstr("missing in the core file"));
}

}  // namespace
}  // namespace holdfast::testing
