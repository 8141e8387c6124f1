// What a seccomp filter that is active from the start must allow: the list in docs/limitations.md, checked with filters
// that kill.
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/linked_programs.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using Calls = std::set<std::string>;

// Every number that a system call has in this release's headers.
std::map<std::string, long> Numbers() {
  std::map<std::string, long> numbers;
  std::istringstream lines(ReadFile("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string define, name;
    long number = 0;
    if (words >> define >> name >> number && name.starts_with("__NR_")) numbers[name.substr(5)] = number;
  }
  return numbers;
}

// Returns the row with a first cell that begins with `start`.
Calls Row(const std::string& start) {
  Calls calls;
  std::istringstream lines(ReadFile(HOLDFAST_SOURCE "/docs/limitations.md"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| " + start)) continue;
    const std::string cell = line.substr(line.find('|', 2));
    for (size_t at = 0; (at = cell.find('`', at)) != std::string::npos;) {
      const size_t end = cell.find('`', at + 1);
      calls.insert(cell.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return calls;
}

class Filters : public Profiled {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    ASSERT_GT(numbers_.size(), 300u);
  }
  // The program below a filter; with the library, each run has an exporter and a folder of its own.
  RunResult Below(const std::string& mode, const Calls& calls, bool with_library) {
    std::vector<std::string> argv = {ProgramPath("under_filter"), mode};
    for (const std::string& call : calls) argv.push_back(std::to_string(numbers_.at(call)));
    argv.insert(argv.end(), {"--", "env"});
    to_ = out() + "/" + std::to_string(++runs_);
    const Command command =
        CommandFor(Launch::kPreload, {"asks_for_all"},
                   {{"heap-interval", "1"}, {"lock-interval", "1ns"}, {"signal", "WINCH"}, {"out", to_}});
    if (with_library) {
      for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
      if (!tables_.empty()) argv.push_back("HOLDFAST_TABLES=" + tables_);
    }
    argv.push_back(command.argv[0]);
    return Execute({.argv = argv});
  }
  bool KillsBare(const std::string& call) { return !Below("kill", {call}, false).exited(0); }

  const std::map<std::string, long> numbers_ = Numbers();
  // Where the tables lie, if not where those of all tests do.
  std::string tables_;
  std::string to_;
  int runs_ = 0;
};

TEST_F(Filters, EachCallThatTheLibraryNeedsIsListedAsTheProgramsEnd) {
  const Calls calls = Row("the library, in the program");
  ASSERT_GT(calls.size(), 25u);
  int killed = 0;
  for (const std::string& call : calls) {
    if (KillsBare(call)) continue;  // the program itself needs it
    // Tables are looked at only where room is scarce.
    const bool wants_little_room = call == "getdents64";
    if (wants_little_room && !IsRoot()) continue;  // who is not root mounts no tmpfs
    const std::string small = folder() + "/small";
    if (wants_little_room) {
      std::filesystem::create_directory(small);
      ASSERT_EQ(mount("small", small.c_str(), "tmpfs", 0, "size=1m"), 0);
      tables_ = small;
    }
    const RunResult r = Below("kill", {call}, true);
    if (wants_little_room) {
      umount2(small.c_str(), MNT_DETACH);
      tables_.clear();
    }
    EXPECT_TRUE(r.killed_by(SIGSYS) || r.out == "the child was killed\n") << call << ": " << r.Describe();
    ++killed;
  }
  EXPECT_GE(killed, 10);
}

TEST_F(Filters, AForbiddenCallOfTheExporterCostsOnlyProfiles) {
  Calls calls = Row("the exporter");
  calls.merge(Row("what starts the exporter"));
  ASSERT_GT(calls.size(), 15u);
  const Calls of_linked = LinkedPrograms() != nullptr ? Row("if an allocator is linked") : Calls{};
  for (const std::string& call : calls) {
    if (of_linked.contains(call) || KillsBare(call)) continue;
    const RunResult r = Below("kill", {call}, true);
    EXPECT_TRUE(r.exited(0)) << call << ": " << r.Describe();
    EXPECT_EQ(r.out, "done\n") << call;
  }
}

TEST_F(Filters, TheListedCallsSufficeForProfiles) {
  // What the program, env and a C++ program call anyway.
  const std::string traced = folder() + "/calls";
  Calls allowed;
  for (const std::vector<std::string>& program :
       {std::vector<std::string>{ProgramPath("asks_for_all")}, {Tool(), "--version"}}) {
    Command command = {.argv = {"strace", "-f", "-o", traced, "env"}};
    command.argv.insert(command.argv.end(), program.begin(), program.end());
    ASSERT_TRUE(Execute(command).exited(0));
    std::istringstream lines(ReadFile(traced));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string pid, call;
      words >> pid >> call;
      if (call == "<...") words >> call;
      call = call.substr(0, call.find('('));
      if (numbers_.contains(call)) allowed.insert(call);
    }
  }
  for (const char* row : {"the library, in the program", "with `--signal`", "seldom", "when root becomes",
                          "what starts the exporter", "the exporter"}) {
    const Calls calls = Row(row);
    EXPECT_FALSE(calls.empty()) << row;
    allowed.insert(calls.begin(), calls.end());
  }
  if (LinkedPrograms() != nullptr) allowed.merge(Row("if an allocator is linked"));
  const RunResult r = Below("allow", allowed, true);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, "done\n");
  const std::vector<Decoded> heap = Newest(to_, "heap");
  ASSERT_EQ(heap.size(), 2u);  // and the child's
  EXPECT_EQ(Newest(to_, "mutex").size(), 1u);
}

// No filter of system calls, but as final: by Landlock a program takes from itself what the library needs to begin.
TEST_F(Filters, AProgramThatForbidsItselfAllFilesFirstIsProfiled) {
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    std::filesystem::remove_all(out());
    const RunResult r = RunAs(launch, {"landlocked"}, {{"heap-interval", "1"}});
    if (r.exited(77)) GTEST_SKIP() << "the kernel knows no Landlock";
    EXPECT_TRUE(r.exited(5)) << r.Describe();
    ExpectKnownHeap(r.out);
    ExpectAllWhole();
  }
}

}  // namespace
}  // namespace holdfast::testing
