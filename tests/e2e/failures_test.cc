// The hard cases: one row for each way in which preloaded profilers are known to break a program (see the comments of
// tests/programs/hard_*). Each program runs without the library, then with both ways of launching at three intervals,
// under a time limit. Its output and its end must be the same. If a program prints what it allocated, its profile at
// interval 1 must agree exactly.
//
// More cases have tests of their own: endings_test (ways to end), surroundings_test (limits, full and unwritable
// places), containers_test (PID 1), heap_test (own allocators, early calls, plugins, symbol versions), kill_test.
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

struct Row {
  std::string name;
  std::vector<std::string> argv;
  bool needs_root = false;
  std::vector<std::pair<int, rlim_t>> limits = {};
  bool compare_errors = true;
  std::map<std::string, std::string> env = {};
};

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

std::string Plugin(const std::string& name) { return ProgramPath(name + ".so"); }

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const char* which : {"storm", "atfork", "raw", "shared_memory", "first_in_vfork", "waits_for_any", "pipe_end",
                            "daemon", "fork_in_handler"})
    rows.push_back({std::string("processes_") + which, {"hard_processes", which}});
  for (const char* which :
       {"coroutines", "unmapped_stacks", "tiny_threads", "stack_bounds", "corrupt_frames", "adjacent_stacks",
        "alternate_stack", "small_stacks", "signal_storm", "jump_out", "cancellation", "gone_after_unlock"})
    rows.push_back({std::string("stacks_") + which, {"hard_stacks", which}});
  for (const char* which :
       {"strict", "by_prctl", "by_syscall", "at_once", "in_child", "with_threads", "refused", "twice", "refused_after",
        "listener", "landlock_after", "query", "prctl_by_syscall", "no_clock", "user_dispatch", "limits"})
    rows.push_back({std::string("filters_") + which, {"hard_filters", which}});
  for (const char* which : {"set_user", "user_namespace", "unshare_files"})
    rows.push_back({std::string("rights_") + which, {"hard_filters", which}, true});
  rows.push_back({"loading_churn", {"hard_loading", "churn", Plugin("first_plugin"), Plugin("second_plugin")}});
  rows.push_back({"loading_deepbind", {"hard_loading", "deepbind", Plugin("first_plugin"), Plugin("own_new_plugin")}});
  rows.push_back({"loading_thread_local", {"hard_loading", "thread_local", Plugin("thread_local_plugin")}});
  rows.push_back({"unloading_stale_frames", {"hard_unloading", "stale_frames", Plugin("first_unloaded_plugin")}});
  rows.push_back({"unloading_long_destructor",
                  {"hard_unloading", "long_destructor", Plugin("closing_plugin"), Plugin("first_unloaded_plugin")}});
  rows.push_back({"loading_namespaces", {"hard_loading", "namespaces", "libc.so.6"}});
  rows.push_back({"loading_with_audit",
                  {"hard_loading", "thread_local", Plugin("thread_local_plugin")},
                  false,
                  {},
                  true,
                  {{"LD_AUDIT", Plugin("silent_audit")}}});
  for (const char* which : {"not_dumpable", "locked_from_the_start", "room_only_later", "subreaper", "ignored_children",
                            "counted_children", "vfork_storm"})
    rows.push_back({std::string("places_") + which, {"hard_places", which}});
  // locked_memory: without privileges our address space counts against RLIMIT_MEMLOCK, see docs/limitations.md.
  for (const char* which : {"locked_memory", "new_root", "no_proc", "read_only_memory", "no_memory_folder",
                            "namespaces", "first_in_namespace"})
    rows.push_back({std::string("places_") + which, {"hard_places", which}, true});
  rows.push_back({"small_stack_limit", {"threads_exact"}, false, {{RLIMIT_STACK, 64 << 10}}});
  rows.push_back({"small_address_space", {"threads_exact"}, false, {{RLIMIT_AS, 320 << 20}}});
  rows.push_back({"few_descriptors", {"hard_processes", "daemon"}, false, {{RLIMIT_NOFILE, 4}}});
  rows.push_back({"no_locked_memory", {"threads_exact"}, false, {{RLIMIT_MEMLOCK, 0}}});
  rows.push_back({"foreign_thread", {"foreign_thread"}});
  for (const char* which : {"all", "few"})
    rows.push_back({std::string("child_data_limit_") + which, {"child_data_limit", which}});
  rows.push_back({"double_free", {"double_free"}});
  rows.push_back({"own_surroundings", {"surroundings"}});
  rows.push_back({"starting_allocator", {"starting_allocator"}});
  return rows;
}

class Failures : public Profiled, public ::testing::WithParamInterface<Row> {
 protected:
  Command With(Command command) const {
    command.limits = GetParam().limits;
    for (const auto& [name, value] : GetParam().env) command.env[name] = value;
    command.timeout_seconds = 60;
    return command;
  }
};

// The exporter gets as much stack as it may have, which without privileges is what the program's limit says.
TEST_F(Profiled, UnderASmallStackLimitTheProfileIsThereAllTheSame) {
  // The second one has names of C++, and demangling takes stack in the exporter.
  for (const char* program : {"threads_exact", "operators_new"}) {
    Command command = CommandFor(Launch::kPreload, {program}, {{"heap-interval", "1"}});
    command.limits = {{RLIMIT_STACK, 64 << 10}};
    const RunResult r = Execute(command);
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    ExpectKnownHeap(r.out);
    std::filesystem::remove_all(out());
  }
}

TEST_P(Failures, RunAsBare) {
  const Row& row = GetParam();
  if (row.needs_root && !IsRoot()) GTEST_SKIP() << "needs root";
  const RunResult bare = Execute(With(CommandFor(Launch::kBare, row.argv)));
  ASSERT_FALSE(bare.timed_out) << bare.Describe();
  int round = 0;
  // A limit would hold for `run` itself, and for the exporter that it starts.
  const std::vector<Launch> launches =
      row.limits.empty() ? std::vector<Launch>{Launch::kPreload, Launch::kExec} : std::vector<Launch>{Launch::kPreload};
  for (const Launch launch : launches) {
    for (const char* interval : {"1", "4KiB", "512KiB"}) {
      SCOPED_TRACE(std::string(launch == Launch::kPreload ? "LD_PRELOAD" : "run --exec") + ", interval " + interval);
      const Options options = {{"heap-interval", interval},
                               {"lock-interval", std::string(interval) == "1" ? "1ns" : "100us"},
                               {"out", out() + "/" + std::to_string(round++)}};
      const RunResult r = Execute(With(CommandFor(launch, row.argv, options)));
      EXPECT_FALSE(r.timed_out) << r.Describe();
      EXPECT_EQ(r.status, bare.status) << r.Describe() << bare.Describe();
      EXPECT_EQ(r.out, bare.out);
      if (row.compare_errors) {
        EXPECT_EQ(r.err, bare.err);
      }
      EXPECT_TRUE(r.AboutAsFastAs(bare)) << r.Describe() << bare.Describe();
      if (std::string(interval) != "1" || !row.limits.empty()) {
        // Some wait for `collect`: without /proc nobody can judge who would notice an exporter.
        for (const std::string& table : Tables()) unlink((tables() + "/" + table).c_str());
        continue;
      }
      const std::vector<Known> known = KnownHeap(r.out);
      if (known.empty()) continue;
      ASSERT_TRUE(Settled()) << "still there: " << ::testing::PrintToString(Tables());
      for (const Known& each : known) {
        int64_t objects = 0;
        for (const Decoded& heap : Newest(options.at("out"), "heap")) {
          EXPECT_EQ(heap.error, "") << heap.path;
          objects += heap.SumLeaf(each.function).at("alloc_objects");
        }
        EXPECT_GE(objects, each.alloc_objects) << each.function;  // after the line it may have gone on
      }
    }
  }
  if (!Settled(row.limits.empty() ? 30 : 1)) {
    // Where no exporter could be started, the tables wait for collect.
    RunTool({"collect", tables()});
    EXPECT_TRUE(Settled()) << ::testing::PrintToString(Tables());
  }
}

// A child that shares the memory makes the first allocation of all, and ends: all of it is the parent's.
using Vfork = Profiled;
TEST_F(Vfork, AllocationsOfTheChildBelongToItsParent) {
  const RunResult r = RunAs(Launch::kPreload, {"hard_processes", "first_in_vfork"}, {{"heap-interval", "1"}});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  const std::vector<ProfileName> names = ListProfiles(out());
  ASSERT_EQ(names.size(), 1u) << AllSummaries();
  EXPECT_EQ(names[0].pid, r.pid);
  EXPECT_EQ(NewestHeap().at(0).SumLeaf("child_allocates").at("alloc_objects"), 200);
}

INSTANTIATE_TEST_SUITE_P(Table, Failures, ::testing::ValuesIn(Rows()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace holdfast::testing
