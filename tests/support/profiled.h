// The fixture of the end-to-end tests: a program from tests/programs, bare or profiled, and what its profiles say.
//
//     class Heap : public Profiled {};
//     TEST_F(Heap, IsExact) {
//       const RunResult r = RunAs(Launch::kPreload, {"threads_exact"}, {{"heap-interval", "1"}});
//       ExpectKnownHeap(r.out);
//     }
//
// Each test has a folder of its own, with `out` for profiles and `tables` (in /dev/shm) for table files.
#ifndef HOLDFAST_TESTS_SUPPORT_PROFILED_H_
#define HOLDFAST_TESTS_SUPPORT_PROFILED_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/profile.h"

namespace holdfast::testing {

// kRun: `holdfast run`, which stays as parent. kExec: `holdfast run --exec`. kPreload: LD_PRELOAD and nothing else.
enum class Launch { kBare, kPreload, kRun, kExec };
inline std::ostream& operator<<(std::ostream& out, Launch launch) { return out << static_cast<int>(launch); }
std::string LaunchName(const ::testing::TestParamInfo<Launch>& info);

using Options = std::map<std::string, std::string>;  // names as of `run`, without --

std::string ProgramPath(const std::string& name);  // of tests/programs; names with a slash stay as they are
std::string Tool();
std::string Library();
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);
// With HOLDFAST_TEST_FULL=1: tests that have a long form run it (growth_test, kill_test), for minutes.
bool Full();

// The lines `expect FUNCTION …` of a program's output.
struct Known {
  std::string function;
  int64_t alloc_objects, alloc_space, inuse_objects, inuse_space;
};
std::vector<Known> KnownHeap(const std::string& output);
// The lines `waits FUNCTION contentions delay_ns`.
struct KnownWait {
  std::string function;
  int64_t contentions, delay_ns;
  int64_t least_ns = 0;  // of the delay: while the program saw that the waiters slept and the lock was held
};
std::vector<KnownWait> KnownWaits(const std::string& output);

class Profiled : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  const std::string& folder() const { return folder_; }
  std::string out() const { return folder_ + "/out"; }
  std::string tables() const { return tables_; }

  // The command that starts `argv` (argv[0] a name from tests/programs) in this way, profiles going to out().
  Command CommandFor(Launch launch, std::vector<std::string> argv, const Options& options = {}) const;
  // The same in a mount namespace, where `real` is what `place` names: as in a container that shares all else. Needs root.
  static Command InContainer(Command command, const std::string& real, const std::string& place);
  // Runs it, and waits until the exporter has taken the last table away.
  RunResult RunAs(Launch launch, std::vector<std::string> argv, const Options& options = {});
  RunResult RunAndSettle(const Command& command);
  // Gives a running waits_for_input `steps` lines, each when a snapshot is newer than the last line, until all files are complete.
  void StepThroughSnapshots(Running* running, int steps);
  // Runs `holdfast` with these arguments.
  static RunResult RunTool(std::vector<std::string> arguments, const std::string& cwd = "");
  // Runs `go tool pprof -symbolize=none`, with what is installed and nothing fetched.
  static RunResult RunGoPprof(const std::vector<std::string>& arguments);

  std::vector<pid_t> Exporters() const;     // that serve this output folder
  std::vector<std::string> Tables() const;  // table files that still exist
  // True once no table is left: every profile is in place. The exporter promises 5 s, on a machine that is not overloaded.
  // False after `seconds`, or when for so long nobody was there who would take them away.
  bool Settled(double seconds = 30, double unserved = 5) const;

  // Every `expect` line holds in the newest heap profiles, exactly, and each function is in one process's file only.
  void ExpectKnownHeap(const std::string& output);
  // All files are whole, consistent and rightly named.
  void ExpectAllWhole();
  std::vector<Decoded> NewestHeap() const { return Newest(out(), "heap"); }
  std::vector<Decoded> NewestBlock() const { return Newest(out(), "block"); }
  std::vector<Decoded> NewestMutex() const { return Newest(out(), "mutex"); }
  std::string AllSummaries() const;

 private:
  std::string folder_, tables_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_PROFILED_H_
