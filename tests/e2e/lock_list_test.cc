// `holdfast locks`: what it reads from comments, whatever these hold, and what it prints of a real program.
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LockList : public Profiled {};

TEST_F(LockList, NamesGlobalsAndBlocksHoldersAndWaiters) {
  const RunResult r = RunAs(Launch::kPreload, {"named_locks"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const RunResult table = RunTool({"locks", out()});
  ASSERT_TRUE(table.exited(0)) << table.Describe();
  std::vector<std::string> lines;
  for (size_t at = 0; at < table.out.size();) {
    const size_t end = table.out.find('\n', at);
    lines.push_back(table.out.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_GE(lines.size(), 3u) << table.out;
  EXPECT_THAT(lines[0], HasSubstr("top holder"));
  EXPECT_THAT(lines[1], HasSubstr("queue_culprit"));
  EXPECT_THAT(lines[1], HasSubstr("queue_victim"));
  EXPECT_THAT(lines[1], HasSubstr("global_queue_mutex (named_locks)"));
  EXPECT_THAT(lines[2], HasSubstr("table_culprit"));
  EXPECT_THAT(lines[2], HasSubstr("table_victim"));
  EXPECT_THAT(lines[2], HasSubstr("48 into a block of 88B from make_table"));

  const RunResult csv = RunTool({"locks", "--format", "csv", out()});
  EXPECT_THAT(csv.out, HasSubstr("kind,contentions,delay_ns,mean_ns,longest_ns,top_holder,top_waiter,name"));
  EXPECT_THAT(csv.out, HasSubstr("\nmutex,3,"));
  EXPECT_THAT(csv.out, HasSubstr("\nmutex,2,"));
}

TEST_F(LockList, WhatNobodyHoldsComesLast) {
  const RunResult r = RunAs(Launch::kPreload, {"condition_parts"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string table = RunTool({"locks", out()}).out;
  EXPECT_LT(table.find("\nmutex "), table.find("\ncondition ")) << table;
  EXPECT_NE(table.find("\ncondition "), std::string::npos) << table;
}

TEST_F(LockList, EachSideNamesTheOther) {
  const RunResult r = RunAs(Launch::kPreload, {"named_locks"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  for (const char* kind : {"mutex", "block"}) {
    const std::vector<Decoded> newest = Newest(out(), kind);
    ASSERT_EQ(newest.size(), 1u);
    const RunResult waiters = RunTool({"locks", "--holder", "^queue_culprit$", newest[0].path});
    EXPECT_THAT(waiters.out, HasSubstr("queue_victim")) << waiters.Describe();
    EXPECT_THAT(waiters.out, Not(HasSubstr("table_victim")));
    const RunResult holders = RunTool({"locks", "--waiter", "^table_victim$", newest[0].path});
    EXPECT_THAT(holders.out, HasSubstr("table_culprit")) << holders.Describe();
    EXPECT_THAT(holders.out, Not(HasSubstr("queue_culprit")));
    const RunResult nobody = RunTool({"locks", "--holder", "^no_such_function$", newest[0].path});
    EXPECT_TRUE(nobody.exited(3)) << nobody.Describe();
    EXPECT_THAT(nobody.err, HasSubstr("no holder of a lock matches"));
  }
}

TEST_F(LockList, SamplesAreKeptApartByLockOnlyIfAskedFor) {
  for (const char* label : {"no", "yes"}) {
    const std::string folder = out() + "/" + label;
    const RunResult r = RunAndSettle(
        CommandFor(Launch::kRun, {"named_locks"}, {{"lock-interval", "1ns"}, {"lock-label", label}, {"out", folder}}));
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    for (const char* kind : {"mutex", "block"}) {
      std::map<std::string, std::string> addresses;  // by function
      const std::vector<Decoded> newest = Newest(folder, kind);
      ASSERT_EQ(newest.size(), 1u);
      for (const DecodedSample& sample : newest[0].samples) {
        const auto found = sample.labels.find("lock_address");
        for (const char* function : {"queue_victim", "queue_culprit", "table_victim", "table_culprit"}) {
          if (sample.LeafIs(function)) addresses[function] = found == sample.labels.end() ? "" : found->second;
        }
      }
      ASSERT_EQ(addresses.size(), 2u) << kind;
      const std::string first = addresses.begin()->second, second = addresses.rbegin()->second;
      if (label == std::string("no")) {
        EXPECT_EQ(first + second, "");
      } else {
        EXPECT_EQ(first.substr(0, 2), "0x");
        EXPECT_NE(first, second);
      }
    }
  }
}

TEST_F(LockList, SaysWhatIsWrong) {
  RunAs(Launch::kPreload, {"edge_sizes"}, {{"heap-interval", "1"}});
  const RunResult heap = RunTool({"locks", NewestHeap().at(0).path});
  EXPECT_TRUE(heap.exited(3)) << heap.Describe();
  EXPECT_THAT(heap.err, HasSubstr("no single locks in it. Give a mutex or block profile that holdfast wrote."));
  const RunResult both = RunTool({"locks", "--holder", "a", "--waiter", "b", out()});
  EXPECT_TRUE(both.exited(2)) << both.Describe();
  const RunResult bad = RunTool({"locks", "--holder", "(", out()});
  EXPECT_TRUE(bad.exited(2)) << bad.Describe();
  EXPECT_THAT(bad.err, HasSubstr("--holder"));
}

}  // namespace
}  // namespace holdfast::testing
