// The library's costs that can be counted instead of timed: shared memory, system calls, instructions,
// memory.
#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "sampler/contract/table_share.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Costs : public Profiled {
 protected:
  static bool Has(const char* program) {
    return Execute({.argv = {"sh", "-c", std::string("command -v ") + program + " >/dev/null"}}).exited(0);
  }
  // The instructions that a program executes, with `options` of the library if there are any.
  double InstructionsOf(const std::string& program, Launch launch, const Options& options) {
    Command command = CommandFor(launch, {program}, options);
    command.env["HOLDFAST_EXPORTER"] = "no";
    command.env["HOLDFAST_SEED"] = "1";  // else one run in ten has a sample, 23,000 instructions
    command.argv.insert(command.argv.begin(),
                        {"valgrind", "--tool=callgrind", "--smc-check=all", "--callgrind-out-file=/dev/null"});
    command.timeout_seconds = 60;
    const RunResult r = Execute(command);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    const double total = NumberAfter(r.err, "Collected : ");
    EXPECT_GT(total, 10'000) << r.err;
    return total;
  }
  // What a program executes more with --entries auto than with no.
  double InstructionsOfEntries(const std::string& program) {
    return InstructionsOf(program, Launch::kPreload, {{"entries", "auto"}}) -
           InstructionsOf(program, Launch::kPreload, {{"entries", "no"}});
  }
  // What a program executes more than without the library.
  double InstructionsOfStart(const std::string& program) {
    const double more = InstructionsOf(program, Launch::kPreload, {}) - InstructionsOf(program, Launch::kBare, {});
    EXPECT_GT(more, 10'000) << program << ": is it preloaded at all?";
    return more;
  }
  // Runs a program at interval 1, without an exporter. strace writes its calls to TraceFile(), with -ff to a file for each
  // process. Skips the test where it cannot.
  void Trace(const std::vector<std::string>& words, const std::vector<std::string>& follow = {}) {
    if (!Has("strace")) GTEST_SKIP() << "needs strace";
    Command command = CommandFor(Launch::kPreload, words, {{"heap-interval", "1"}});
    command.env["HOLDFAST_EXPORTER"] = "no";
    command.env.erase("LD_PRELOAD");
    std::vector<std::string> strace = {"strace", "-o", TraceFile(), "-E", "LD_PRELOAD=" + Library()};
    strace.insert(strace.end(), follow.begin(), follow.end());
    command.argv.insert(command.argv.begin(), strace.begin(), strace.end());
    const RunResult r = Execute(command);
    if (r.err.find("Operation not permitted") != std::string::npos) GTEST_SKIP() << "strace may not trace here";
    ASSERT_TRUE(r.exited(0)) << r.Describe();
  }
  std::string TraceFile() const { return folder() + "/trace"; }
  // The number behind `word` in `text`, −1 if there is none.
  static double NumberAfter(const std::string& text, const std::string& word) {
    const size_t at = text.find(word);
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + word.size());
  }
  // Returns the resident KiB of our mappings: the library, its .bss after it, the table, the filter. `small`: adds up the KiB of those
  // that never get huge pages. `lazy`: the KiB of all memory without a name that never gets any and is not reserved.
  static long OwnResidentKiB(pid_t pid, long* small = nullptr, long* lazy = nullptr) {
    std::ifstream smaps("/proc/" + std::to_string(pid) + "/smaps");
    std::string line, range, name;
    bool ours = false, nameless = false, library_ended = false;
    unsigned long last_end = 0, start, end;
    long total = 0, rss, size = 0;
    while (std::getline(smaps, line)) {
      char rights[8];
      if (std::sscanf(line.c_str(), "%lx-%lx %7s", &start, &end, rights) == 3) {
        const bool of_library = line.find("libholdfast.so") != std::string::npos;
        nameless = line.find('/') == std::string::npos && line.find('[') == std::string::npos;
        // The memory after the table is the program's: stacks of its threads, which glibc 2.43 does not separate by guard pages.
        const bool zeroed = nameless && library_ended && start == last_end;
        ours =
            of_library || line.find(".table") != std::string::npos || zeroed || (nameless && end - start == (4 << 20));
        library_ended = of_library;
        last_end = end;
      } else if (ours && std::sscanf(line.c_str(), "Rss: %ld", &rss) == 1) {
        total += rss;
      } else if (std::sscanf(line.c_str(), "Size: %ld", &size) == 1) {
      } else if (line.starts_with("VmFlags:") && line.find(" nh") != std::string::npos) {
        if (ours && small != nullptr) *small += size;
        if (nameless && lazy != nullptr && line.find(" nr") != std::string::npos) *lazy += size;
      }
    }
    return total;
  }
};

// Cost per operation cannot grow with the number of threads when they write nothing that others read or write.
TEST_F(Costs, NoPathWithoutASampleWritesMemoryThatThreadsShare) {
  // Threads are all counted: each that begins writes.
  const RunResult r = RunAs(Launch::kPreload, {"unsampled_writes", "libholdfast.so"},
                            {{"heap-interval", "64MiB"}, {"seed", "1"}, {"profiles", "heap,mutex,block"}});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_GE(NumberAfter(r.out, "watched "), 3) << "the table, the library's data, the filter: " << r.out;
}

TEST_F(Costs, AWriteToSharedMemoryIsSeen) {
  Command command = CommandFor(Launch::kPreload, {"unsampled_writes", "libholdfast.so", "planted_counter.so"},
                               {{"heap-interval", "64MiB"}, {"seed", "1"}});
  command.env["LD_PRELOAD"] = ProgramPath("planted_counter.so") + ":" + Library();
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(1)) << r.Describe();
  EXPECT_THAT(r.out, ::testing::HasSubstr("planted_counter.so"));
}

// 10,000 samples on as many stacks: no system call but one or two for each step of the table, and memory for the index by which they
// are found, each time that it doubles.
TEST_F(Costs, SamplesMakeNoSystemCallsButForTheTablesSteps) {
  Trace({"diverse_samples"});
  if (IsSkipped() || HasFatalFailure()) return;
  // Between the last two calls of getppid.
  std::vector<std::map<std::string, int>> parts(1);
  int64_t all_steps = 0, all_probes = 0;
  std::istringstream lines(ReadFile(TraceFile()));
  for (std::string line; std::getline(lines, line);) {
    const bool asks_for_small_pages = line.find("MADV_NOHUGEPAGE") != std::string::npos;
    const std::string name = asks_for_small_pages ? "MADV_NOHUGEPAGE" : line.substr(0, line.find('('));
    if (name == "getppid")
      parts.emplace_back();
    else
      ++parts.back()[name];
    all_steps += line.find("MADV_POPULATE_WRITE") != std::string::npos;
    all_probes += name == "rt_sigprocmask" && line.find("EINVAL") != std::string::npos;
  }
  ASSERT_GE(parts.size(), 3u);
  std::map<std::string, int>& calls = parts[parts.size() - 2];
  const int steps = calls["madvise"], looks = calls["statfs"];
  EXPECT_GT(steps, 4) << "10,000 new stacks need room";
  EXPECT_LT(steps, 80);
  EXPECT_LE(looks, steps / 16 + 2);
  // A look reads the folder: how much do the tables there take?
  EXPECT_LE(calls["openat"], looks);
  // From 4,096 slots on; stacks and nodes have one each.
  EXPECT_GT(calls["mmap"], 0);
  EXPECT_LE(calls["mmap"], 2 * 4);
  for (const char* name : {"mprotect", "munlock", "MADV_NOHUGEPAGE"}) EXPECT_EQ(calls[name], calls["mmap"]);
  for (const char* name : {"mmap", "mprotect", "munlock", "MADV_NOHUGEPAGE", "madvise", "statfs", "openat",
                           "getdents64", "newfstatat", "close"})
    calls.erase(name);
  EXPECT_THAT(calls, ::testing::IsEmpty());
  // The profile tells them: all but the few from before there was a table.
  ASSERT_TRUE(RunTool({"collect", out(), "--tables", tables()}).exited(0));
  const Decoded profile = NewestHeap().at(0);
  EXPECT_LE(profile.CommentNumber("own table_steps"), all_steps);
  EXPECT_GE(profile.CommentNumber("own table_steps"), std::max<int64_t>(steps, all_steps - 4));
  EXPECT_LE(profile.CommentNumber("own memory_probes"), all_probes);
  EXPECT_GE(profile.CommentNumber("own memory_probes"), std::max<int64_t>(1, all_probes - 8));
}

// A parent that has asked whether there is plenty of room lets no child take it at once.
TEST_F(Costs, AForkedChildBeginsWithASmallTable) {
  Command command = CommandFor(Launch::kPreload, {"forked_siblings", "1", "64", "fork"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_EXPORTER"] = "no";
  const RunResult r = Execute(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<std::string> made = Tables();
  ASSERT_EQ(made.size(), 2u);
  for (const std::string& table : made) {
    struct stat info;
    ASSERT_EQ(stat((tables() + "/" + table).c_str(), &info), 0);
    EXPECT_LE(static_cast<uint64_t>(info.st_blocks) * 512, kFirstTableBytes + kGrowStepBytes / 4) << table;
  }
}

TEST_F(Costs, TheProgramsOwnPathIsNotSearchedInTheMemoryMap) {
  Trace({"forked_siblings", "1", "64", "fork"}, {"-f"});
  if (IsSkipped() || HasFatalFailure()) return;
  const std::string calls = ReadFile(TraceFile());
  EXPECT_NE(calls.find("\"/proc/self/exe\""), std::string::npos);
  EXPECT_EQ(calls.find("\"/proc/self/maps\""), std::string::npos);
}

TEST_F(Costs, AForkedChildThatRecordsNothingEndsAtOnce) {
  Trace({"forked_siblings", "1", "0", "fork"}, {"-ff"});
  if (IsSkipped() || HasFatalFailure()) return;
  // libc's fork, and which process this is by now.
  std::vector<std::string> expected = {"set_robust_list", "getpid", "exit_group", "+++ exited with 0 +++"};
  int minor = 0;
  if (sscanf(gnu_get_libc_version(), "2.%d", &minor) == 1 && minor >= 43) expected.emplace_back("rt_sigprocmask");
  // One file for each process; the child executes nothing.
  int children = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder())) {
    const std::string text = ReadFile(file.path());
    if (!file.path().filename().string().starts_with("trace.") || text.find("execve(") != std::string::npos) continue;
    ++children;
    std::istringstream lines(text);
    std::set<std::string> calls;
    for (std::string line; std::getline(lines, line);) calls.insert(line.substr(0, line.find('(')));
    EXPECT_THAT(calls, ::testing::IsSubsetOf(expected)) << text;
  }
  EXPECT_EQ(children, 1);
}

// What is not even imported cannot be called; what is imported for the start is not called by samples.
TEST_F(Costs, SamplesCallNoLockNoAllocatorAndNoLoader) {
  const std::string imports =
      Execute({.argv = {"nm", "-D", "--undefined-only", "--without-symbol-versions", Library()}}).out;
  ASSERT_THAT(imports, ::testing::HasSubstr("getauxval"));
  for (const char* name : {" malloc", " calloc", " realloc", " free", "pthread_mutex_lock", "pthread_rwlock_rdlock",
                           "pthread_rwlock_wrlock", "pthread_once", "pthread_key", "sem_wait", "dl_iterate_phdr",
                           "__tls_get_addr", "_Unwind_", " dl", " clock_gettime"}) {
    EXPECT_THAT(imports, ::testing::Not(::testing::HasSubstr(name)));
  }
  Command command = CommandFor(Launch::kPreload, {"diverse_samples"}, {{"heap-interval", "1"}});
  command.env["LD_PRELOAD"] = Library() + ":" + ProgramPath("counting_loader.so");
  const RunResult r = RunAndSettle(command);
  EXPECT_EQ(r.out, "calls 0\n") << r.Describe();
}

// Instructions of one malloc and free, by the number of live sampled blocks.
TEST_F(Costs, LiveSamplesDoNotSlowFreeDown) {
  if (!Has("valgrind")) GTEST_SKIP() << "needs valgrind";
  std::map<long, double> each;
  for (const long live : {1'000L, 100'000L, 1'000'000L}) {
    Command command = CommandFor(Launch::kPreload, {"live_frees", std::to_string(live)},
                                 {{"heap-interval", "256KiB"}, {"seed", "1"}, {"max-memory", "256MiB"}});
    command.env["LD_PRELOAD"] = Library() + ":" + ProgramPath("lazy_allocator.so");
    command.env["HOLDFAST_EXPORTER"] = "no";
    command.argv.insert(command.argv.begin(),
                        {"valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"});
    command.timeout_seconds = 120;
    const RunResult r = Execute(command);
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    ASSERT_GE(NumberAfter(r.out, "live "), 0.95 * static_cast<double>(live)) << r.out;
    each[live] = NumberAfter(r.err, "Collected : ") / NumberAfter(r.out, "rounds ");
    ASSERT_GT(each[live], 100) << "valgrind's headers were missing when this was built: " << r.err;
  }
  EXPECT_LE(each[100'000], 1.01 * each[1'000]);
  EXPECT_LE(each[1'000'000], (__GNUC__ >= 16 ? 1.04 : 1.03) * each[1'000]);  // by the compiler of the library
}

// A program that is not position-independent and takes malloc's address has an entry of its own for it. Taken for another
// allocator's malloc, it costs the tag: each free then asks the filter, 10 instructions more.
TEST_F(Costs, AProgramsOwnEntryForMallocLeadsToUs) {
  if (!Has("valgrind")) GTEST_SKIP() << "needs valgrind";
  for (const char* program : {"takes_addresses_gnu", "takes_addresses_sysv"}) {  // by the style of their hash tables
    const std::string symbols = Execute({.argv = {"readelf", "--dyn-syms", "--wide", ProgramPath(program)}}).out;
    ASSERT_THAT(symbols, ::testing::ContainsRegex("[1-9a-f][0-9a-f]* +0 FUNC +GLOBAL DEFAULT +UND malloc@"))
        << "no entry of its own";
    double each[2];
    for (const bool preloaded : {false, true}) {
      Command command = CommandFor(preloaded ? Launch::kPreload : Launch::kBare, {program}, {{"seed", "1"}});
      command.env["HOLDFAST_EXPORTER"] = "no";
      command.argv.insert(command.argv.begin(), {"valgrind", "--tool=callgrind", "--toggle-collect=measured_ring",
                                                 "--callgrind-out-file=/dev/null"});
      command.timeout_seconds = 120;
      const RunResult r = Execute(command);
      ASSERT_TRUE(r.exited(0)) << r.Describe();
      each[preloaded] = NumberAfter(r.err, "Collected : ") / 20'000;
      ASSERT_GT(each[preloaded], 50) << r.err;
    }
    EXPECT_GT(each[1] - each[0], 5) << program << ": is it at work at all?";
    EXPECT_LT(each[1] - each[0], 13) << program;
  }
}

// Shell scripts and compilers start thousands of programs. Searching for the operators of a C++
// program must not take millions of instructions.
TEST_F(Costs, TheStartOfAProgramTakesFewInstructions) {
  if (!Has("valgrind")) GTEST_SKIP() << "needs valgrind";
  for (const auto& [program, most] : std::map<std::string, double>{{"nothing", 160'000}, {"one_string", 320'000}}) {
    EXPECT_LT(InstructionsOfStart(program), most) << program;
  }
}

// Programs with plugins export all of their functions. Those are looked up, because a look at 100,000 names takes 3 ms.
TEST_F(Costs, TheStartOfAProgramWithManyExportsTakesFewInstructions) {
  if (!Has("valgrind")) GTEST_SKIP() << "needs valgrind";
  for (const auto& [program, most] : std::map<std::string, double>{{"maps_as_allocators_exports_gnu", 1'500'000},
                                                                   {"maps_as_allocators_exports_sysv", 1'500'000},
                                                                   {"linked_exports", 15'000'000}}) {
    if (access(ProgramPath(program).c_str(), X_OK) != 0) continue;  // libjemalloc.a is not installed
    EXPECT_LT(InstructionsOfStart(program), most) << program;
  }
}

// A server or compiler with jemalloc linked in decodes and searches 700 KB of code, and looks at 60,000 names. Ten million
// instructions took 2 ms.
TEST_F(Costs, TheRedirectionOfAnAllocatorTakesFewInstructions) {
  const std::string program = ProgramPath("linked_symbols");
  if (!Has("valgrind") || access(program.c_str(), X_OK) != 0) GTEST_SKIP() << "needs valgrind and libjemalloc.a";
  const double more = InstructionsOfEntries(program);
  EXPECT_GT(more, 100'000) << "is it redirected at all?";
  EXPECT_LT(more, 13'500'000);
}

// A program that calls what allocators call, and has none, pays for a search of its global names: 0.2 ms on a busy machine.
TEST_F(Costs, TheSearchForAnAllocatorTakesFewInstructions) {
  if (!Has("valgrind")) GTEST_SKIP() << "needs valgrind";
  const std::string global = folder() + "/global";
  ASSERT_EQ(Execute({.argv = {"objcopy", "--wildcard", "--globalize-symbol=_ZN*",
                              ProgramPath("maps_as_allocators_many"), global}})
                .status,
            0);
  for (const auto& [program, most] :
       std::map<std::string, double>{{ProgramPath("maps_as_allocators_many"), 900'000}, {global, 700'000}}) {
    const double more = InstructionsOfEntries(program);
    EXPECT_GT(more, 50'000) << program << " is it searched at all?";
    EXPECT_LT(more, most) << program;
  }
}

// The symbols are mapped from the running file. New memory for these 3 MB would be 760 page faults, and 1 ms.
TEST_F(Costs, TheSymbolsOfAnExecutableTakeNoNewMemory) {
  const std::string program = ProgramPath("linked_symbols");
  if (access(program.c_str(), X_OK) != 0) GTEST_SKIP() << "needs libjemalloc.a";
  std::map<std::string, long> faults;
  for (const std::string entries : {"no", "auto"}) {
    Command command = CommandFor(Launch::kPreload, {program}, {{"entries", entries}, {"seed", "1"}});
    command.env["HOLDFAST_EXPORTER"] = "no";
    rusage before, after;
    getrusage(RUSAGE_CHILDREN, &before);
    ASSERT_TRUE(Execute(command).exited(0));
    getrusage(RUSAGE_CHILDREN, &after);
    faults[entries] = after.ru_minflt - before.ru_minflt;
  }
  EXPECT_GT(faults["auto"] - faults["no"], 20) << "is it redirected at all?";
  EXPECT_LT(faults["auto"] - faults["no"], 400);
}

// The exporter reads the table file, and is stopped wherever it is just then: what the program would wait for, it would wait
// for until the exporter goes on. How long an allocation takes beside a snapshot is the benchmark's.
TEST_F(Costs, AllocationsGoOnWhileTheReaderOfTheirTableIsStopped) {
  Running program(CommandFor(Launch::kPreload, {"allocation_waits", "3000", "30000"},
                             {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(program.WaitForOutput("ready", 100));
  ASSERT_TRUE(Eventually([&] { return Exporters().size() == 1; }));
  const pid_t exporter = Exporters().at(0);
  int stopped_in_time = 0, answers = 0;
  for (int turn = 0; turn < 12; ++turn) {
    Running dump({.argv = {Tool(), "dump", std::to_string(program.pid()), "--tables", tables()}});
    for (int pause = 0; pause < turn; ++pause) Pause();
    kill(exporter, SIGSTOP);
    // Each line is answered after 256 allocations: all 3,000 stacks have their turn, and more.
    for (int line = 0; line < 16; ++line) {
      program.Write("\n");
      EXPECT_TRUE(program.WaitForOutput("answer " + std::to_string(++answers) + "\n", 60));
    }
    stopped_in_time += ReadFile("/proc/" + std::to_string(dump.pid()) + "/stat").find(") Z ") == std::string::npos;
    kill(exporter, SIGCONT);
    const RunResult dumped = dump.Wait();
    // On a busy machine it may notice the stop.
    EXPECT_TRUE(dumped.exited(0) || dumped.err.find("is stopped; resume it") != std::string::npos) << dumped.Describe();
  }
  EXPECT_GT(stopped_in_time, 0);
  program.CloseInput();
  program.Wait();
}

// That allocation_waits would see it, as the benchmark rests on it.
TEST_F(Costs, AllocationsBesideAStopOfTheProgramAreSeenToWait) {
  Running program(
      CommandFor(Launch::kPreload, {"allocation_waits", "64", "0"}, {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  EXPECT_TRUE(program.WaitForOutput("ready", 100));
  int answers = 0;
  const auto ask = [&] {
    program.Write("\n");
    EXPECT_TRUE(program.WaitForOutput("answer " + std::to_string(++answers) + "\n", 60));
  };
  for (int round = 0; round < 5; ++round) {
    ask();
    RunTool({"--version"});  // by then it allocates again
    kill(program.pid(), SIGSTOP);
    EXPECT_TRUE(Eventually([&] {
      return ReadFile("/proc/" + std::to_string(program.pid()) + "/stat").find(") T ") != std::string::npos;
    }));
    kill(program.pid(), SIGCONT);
    ask();
  }
  program.CloseInput();
  std::istringstream lines(program.Wait(60).out);
  double most_blocked_ns = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto answer = static_cast<int>(NumberAfter(line, " answer "));
    if (answer >= 2 && answer % 2 == 0)
      most_blocked_ns = std::max(most_blocked_ns, NumberAfter(line, " longest_blocked_ns "));
  }
  EXPECT_GT(most_blocked_ns, 50'000);
}

TEST_F(Costs, RandomReplacementOfManyBlocksTakesNoMoreMemory) {
  const double bare = NumberAfter(Execute(CommandFor(Launch::kBare, {"random_replacement"})).out, "resident ");
  const RunResult r = RunAs(Launch::kPreload, {"random_replacement"}, {{"seed", "1"}});
  ASSERT_GT(bare, 200'000);
  EXPECT_LE(NumberAfter(r.out, "resident "), 1.01 * bare) << r.Describe();
}

// Blocks of every size that come and go: at most 5 % more than bare beside our own tables.
class BlocksThatComeAndGo : public Costs, public ::testing::WithParamInterface<const char*> {};

TEST_P(BlocksThatComeAndGo, TakeNoMoreMemory) {
  double most = 0;
  for (const std::string sizes : {"equal", "varied", "mixed"}) {
    for (const std::string size : {"256", "4095", "32768", "262144", "1048576", "4194304"}) {
      if (sizes == "mixed" && size != "1048576") continue;
      const auto measured = [&](Launch launch, const Options& options) {
        Command command = CommandFor(
            launch, {"block_patterns", GetParam(), size, sizes, "40", sizes == "mixed" ? "2" : "8"}, options);
        if (launch != Launch::kBare) command.env["HOLDFAST_EXPORTER"] = "no";
        const RunResult r = Execute(command);
        EXPECT_TRUE(r.exited(0)) << r.Describe();
        const double own = NumberAfter(r.out, "own ");
        EXPECT_EQ(own > 0, launch != Launch::kBare) << "is it at work? " << r.out;
        return NumberAfter(r.out, "peak ") - own;
      };
      const double bare = measured(Launch::kBare, {});
      for (const char* interval : {"512KiB", "4MiB"}) {
        const double over = measured(Launch::kPreload, {{"heap-interval", interval}, {"seed", "1"}}) / bare - 1;
        EXPECT_LE(over, 0.05) << sizes << " sizes, " << size << " bytes, at " << interval << ": " << 100 * over
                              << " % over bare";
        most = std::max(most, over);
      }
    }
  }
  RecordProperty("most", std::to_string(100 * most) + " %");
}

INSTANTIATE_TEST_SUITE_P(Costs, BlocksThatComeAndGo, ::testing::Values("replace", "queue", "waves", "grow"),
                         [](const auto& info) { return std::string(info.param); });

// A sampled block that realloc or calloc has put elsewhere is moved: without a touch of what the program never wrote.
TEST_F(Costs, SampledBlocksKeepTheirUntouchedPages) {
  // With glibc below they would stay where they are.
  Command above = CommandFor(Launch::kPreload, {"grown_blocks"});
  above.env["LD_PRELOAD"] = Library() + ":" + ProgramPath("lazy_allocator.so");
  const RunResult bare = RunAs(Launch::kBare, {"grown_blocks"}), profiled = RunAndSettle(above);
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  ASSERT_TRUE(profiled.exited(0)) << profiled.Describe();
  EXPECT_LT(NumberAfter(bare.out, "calloc "), 20 << 10) << "KiB; the real allocator touches them itself";
  EXPECT_LT(NumberAfter(profiled.out, "realloc ") - NumberAfter(bare.out, "realloc "), 6 << 10)
      << "KiB; a block is 30 MiB";
  // The block that the real calloc made first and got back it takes for a used one, and clears it the next time.
  EXPECT_LT(NumberAfter(profiled.out, "calloc ") - NumberAfter(bare.out, "calloc "), 70 << 10)
      << "KiB; of ten blocks two at most";
  EXPECT_GE(NewestHeap().at(0).SumLeaf("main").at("alloc_objects"), 25) << "were they sampled?";
}

// Where the kernel uses them for everything (Debian's do), each would take 2 MiB for a few words.
TEST_F(Costs, SparseMemoryOfTheLibraryGetsNoHugePages) {
  if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) GTEST_SKIP() << "this kernel has no huge pages";
  Running program(CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  program.Write("\n");
  ASSERT_TRUE(program.WaitForOutput("done 1"));
  long small = 0, lazy = 0;
  EXPECT_LT(OwnResidentKiB(program.pid(), &small, &lazy), 2 << 10);
  EXPECT_GE(small, (4 << 10) + (2 << 10)) << "KiB: the filter, and the zero-initialized variables";
  EXPECT_GE(lazy, (4 << 10) + 1500) << "KiB: the filter, and the walks that a thread remembers";
  program.CloseInput();
  EXPECT_TRUE(program.Wait().exited(0));
}

// 100,000 stacks of depth 30, each with a row, and 3,000 threads.
TEST_F(Costs, OwnMemoryOfALargeProfile) {
  Running program(CommandFor(Launch::kPreload, {"many_stacks", "100000", "30", "0", "3000"}, {{"heap-interval", "1"}}));
  ASSERT_TRUE(program.WaitForOutput("ready", 100));
  // 18 MiB, 0.5 of it remembered walks and 0.3 the shadow map, also on a busy machine; 22 where the index of nodes has just grown to
  // 4 MiB, which is counted then.
  EXPECT_LE(OwnResidentKiB(program.pid()), 23 << 10);
  EXPECT_GE(OwnResidentKiB(program.pid()), 10 << 10) << "is all of it found?";
  program.CloseInput();
  program.Wait(100);
  ASSERT_TRUE(Settled());
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u);
  EXPECT_FALSE(heap[0].Comment("lost stack-table-full").has_value());
  EXPECT_GE(heap[0].CommentNumber("alloc_calls"), 103'000);
}

// From outside, with a million live samples. A second on a quiet machine.
TEST_F(Costs, ASnapshotOfALargeProfile) {
  Running program(CommandFor(Launch::kPreload, {"many_stacks", "100000", "30", "1000000", "0"},
                             {{"heap-interval", "1"}, {"snapshot-every", "0"}}));
  ASSERT_TRUE(program.WaitForOutput("ready", 100));
  const double start = Now();
  const RunResult dump = RunTool({"dump", std::to_string(program.pid())});
  const double seconds = Now() - start;
  EXPECT_TRUE(dump.exited(0)) << dump.Describe();
  RecordProperty("seconds", std::to_string(seconds));
  const std::vector<Decoded> heap = NewestHeap();
  ASSERT_EQ(heap.size(), 1u);
  EXPECT_NEAR(static_cast<double>(heap[0].Total().at("inuse_objects")), 1'000'000, 1'000);
  EXPECT_GE(heap[0].samples.size(), 100'000u);
  program.CloseInput();
  program.Wait(100);
}

}  // namespace
}  // namespace holdfast::testing
