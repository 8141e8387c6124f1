// Numbers of single locks: how long they were held, who kept others waiting, how old a wait is.
#include <signal.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Options kEveryWait = {{"heap-interval", "0"}, {"lock-interval", "1ns"}, {"snapshot-every", "0"}};

int64_t SumOf(const std::vector<Decoded>& profiles, const std::string& function, const std::string& value) {
  int64_t sum = 0;
  for (const Decoded& profile : profiles) {
    for (const DecodedSample& sample : profile.samples)
      if (function.empty() || sample.Has(function)) sum += sample.values.at(value);
  }
  return sum;
}

class LockNumbers : public Profiled {
 protected:
  // The columns of `holdfast locks`, by the name of the lock.
  std::map<std::string, std::map<std::string, std::string>> Locks() const {
    std::istringstream csv(RunTool({"locks", "--format", "csv", "-n", "0", out()}).out);
    const auto fields = [&csv] {
      std::vector<std::string> found;
      std::string line, field;
      std::getline(csv, line);
      // The comma at the end keeps an empty last column.
      for (std::istringstream words(line + ','); std::getline(words, field, ',');) found.push_back(field);
      return found;
    };
    std::map<std::string, std::map<std::string, std::string>> locks;
    const std::vector<std::string> titles = fields();
    for (std::vector<std::string> row = fields(); row.size() == titles.size(); row = fields()) {
      std::map<std::string, std::string> lock;
      for (size_t i = 0; i < row.size(); ++i) lock[titles[i]] = row[i];
      const std::string name = lock["name"];
      locks[name.substr(0, name.find(" ("))] = lock;
    }
    return locks;
  }
  void ExpectConserved() const {
    const Decoded block = NewestBlock().at(0), mutex = NewestMutex().at(0);
    EXPECT_EQ(block.CommentNumber("delay_ns"), block.Total().at("delay"));
    EXPECT_EQ(mutex.CommentNumber("delay_ns"), mutex.Total().at("delay"));
    int64_t waited = 0;  // for what somebody holds: not for the end of a thread
    for (const std::string kind : {"mutex", "rwlock-read", "rwlock-write"})
      waited += std::max<int64_t>(0, block.CommentNumber(kind + " delay_ns"));
    EXPECT_EQ(mutex.CommentNumber("delay_ns") + mutex.CommentNumber("gap_ns"), waited);
  }
  RunResult Ask(const Running& program, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"stuck", "--tables", tables(), std::to_string(program.pid())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return RunTool(arguments);
  }
};

// Every view of one snapshot counts a wait that goes on, with the time so far.
TEST_F(LockNumbers, WaitsInProgressAreListedAndTheTotalsAgree) {
  Running program(CommandFor(Launch::kPreload, {"stuck", "holder"}, kEveryWait));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  ASSERT_TRUE(RunTool({"dump", "--tables", tables(), std::to_string(program.pid())}).exited(0));
  const auto member = [](const std::string& json, const std::string& key) -> int64_t {
    const size_t at = json.find("\"" + key + "\": ");
    return at == std::string::npos ? -1 : std::stoll(json.substr(at + key.size() + 4));
  };
  const auto expect_agreement = [&](const std::vector<std::string>& files) {
    std::vector<std::string> locks = {"locks", "--format", "json"},
                             top = {"top", "--kind", "block", "--format", "json"};
    for (std::vector<std::string>* command : {&locks, &top})
      command->insert(command->end(), files.begin(), files.end());
    const std::string json = RunTool(locks).out;
    EXPECT_EQ(member(json, "waiting"), 8) << json;
    EXPECT_GT(member(json, "waiting_ns"), 0) << json;
    EXPECT_EQ(member(json, "delay_ns") + member(json, "waiting_ns"), member(RunTool(top).out, "total")) << json;
    top.insert(top.begin() + 1, {"--metric", "contentions"});
    EXPECT_EQ(member(json, "contentions") + member(json, "waiting"), member(RunTool(top).out, "total")) << json;
    const std::string table = RunTool([&] {
                                std::vector<std::string> command = {"locks", "--wide"};
                                command.insert(command.end(), files.begin(), files.end());
                                return command;
                              }())
                                  .out;
    EXPECT_THAT(table, ::testing::ContainsRegex("total +.* in [0-9]+ waits?: [0-9]+ ended, 8 go on \\("));
    EXPECT_THAT(table, ::testing::ContainsRegex("waits +total +now +so far"));
  };
  expect_agreement({out()});
  for (const auto& [name, lock] : Locks()) {
    if (lock.at("waiting") != "8") continue;
    EXPECT_NE(lock.at("top_waiter"), "-") << name;
    EXPECT_GE(std::stoll(lock.at("waiting_ns")), std::stoll(lock.at("longest_waiting_ns")));
    EXPECT_GT(std::stoll(lock.at("longest_waiting_ns")), 0);
  }
  // A sum keeps them.
  const std::string sum = out() + "/sum.pb.gz";
  ASSERT_TRUE(RunTool({"merge", "--kind", "block", "-o", sum, NewestBlock().at(0).path}).exited(0));
  expect_agreement({sum});
  program.Signal(SIGKILL);
  program.Wait();
}

TEST_F(LockNumbers, ALockForWhichAllRanOutOfTimeWasHeldAsLongAsTheyWaited) {
  const RunResult r = RunAs(Launch::kPreload, {"timed_out_waits"}, kEveryWait);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const auto locks = Locks();
  struct Held {
    int64_t times = 0, least = 0, most = 0;
  };
  std::map<std::string, Held> expected;
  std::istringstream lines(r.out);
  std::string word, name;
  for (int64_t least = 0, most = 0; lines >> word >> name >> least >> most;) {
    Held& held = expected[name];
    ++held.times, held.least += least, held.most += most;
  }
  EXPECT_EQ(expected.size(), 8u);
  for (const auto& [lock, held] : expected) {
    ASSERT_TRUE(locks.contains(lock)) << lock;
    const int64_t found = std::stoll(locks.at(lock).at("held_ns"));
    // The program reads its clock for the deadline before the wait begins.
    EXPECT_GT(found, held.least * 3 / 4) << lock;
    EXPECT_LE(found, held.most) << lock;
    EXPECT_GE(std::stoll(locks.at(lock).at("held_longest_ns")), found / held.times) << lock;
  }
  EXPECT_EQ(NewestBlock().at(0).Comment("lost sum-full"), std::nullopt);
}

TEST_F(LockNumbers, ARefusedWaitDoesNotCount) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"refused_waits"}));
  const RunResult r = RunAs(Launch::kPreload, {"refused_waits"}, kEveryWait);
  EXPECT_EQ(r.out, bare.out);
  EXPECT_EQ(SumOf(NewestBlock(), "refused", "contentions"), 0);
  EXPECT_EQ(SumOf(NewestBlock(), "refused_locks", "contentions"), 0);
  EXPECT_EQ(SumOf(NewestBlock(), "refused_joins", "contentions"), 0);
}

TEST_F(LockNumbers, AWriterWaitedForTheReaderThatLetItIn) {
  const RunResult r = RunAs(Launch::kPreload, {"readers_and_writer", "slow", "20"}, kEveryWait);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(SumOf(NewestMutex(), "quick_read", "delay"), 0);
  EXPECT_GT(SumOf(NewestMutex(), "slow_read", "delay"), 20'000'000);
  EXPECT_EQ(SumOf(NewestMutex(), "slow_read", "contentions"), 1);
  ExpectConserved();
  const auto lock = Locks().at("routes_lock");
  EXPECT_EQ(lock.at("top_holder"), "slow_read");
  EXPECT_GE(std::stoll(lock.at("held_ns")), 20'000'000);
  // All the time but for the short reads of some microseconds each; on a busy machine one may be put off.
  EXPECT_GT(std::stoll(lock.at("alone_ns")), std::stoll(lock.at("held_ns")) / 4);
  EXPECT_LE(std::stoll(lock.at("alone_ns")), std::stoll(lock.at("held_ns")));
  EXPECT_THAT(RunTool({"locks", "-v", out()}).out, HasSubstr("the last reader was the only one for "));
}

TEST_F(LockNumbers, AReaderIsAloneOnceTheOthersAreGone) {
  const RunResult r = RunAs(Launch::kPreload, {"readers_and_writer", "handed_over", "0"}, kEveryWait);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(SumOf(NewestMutex(), "slow_read", "delay"), 0);
  EXPECT_EQ(SumOf(NewestMutex(), "late_read", "contentions"), 1);
  ExpectConserved();
  const auto lock = Locks().at("routes_lock");
  const int64_t alone = std::stoll(lock.at("alone_ns"));
  EXPECT_GE(alone, 20'000'000);
  EXPECT_LT(alone, std::stoll(lock.at("held_ns")) - 1'000'000) << "for 2 ms at least there were two";
}

// A thread that got its lock since it was looked at is no waiter any more. Each look finds the eight threads in other places.
TEST_F(LockNumbers, NoThreadOfAConvoyWaitsForItself) {
  Running program(CommandFor(Launch::kPreload, {"convoy"}, kEveryWait));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  for (int look = 0; look < 20; ++look) {
    const RunResult answer = Ask(program);
    EXPECT_TRUE(answer.exited(0)) << answer.Describe();
    EXPECT_THAT(answer.out, Not(HasSubstr("deadlock")));
    for (const std::string lock : {"mutex convoy_mutex", "rwlock-write convoy_lock"})
      EXPECT_THAT(answer.out, Not(HasSubstr("which waits for " + lock)));
  }
  program.Signal(SIGKILL);
  program.Wait();
  EXPECT_TRUE(Settled());
}

TEST_F(LockNumbers, AWaitInSlicesIsAsOldAsItsFirst) {
  Running program(CommandFor(Launch::kPreload, {"waits_in_slices"}, kEveryWait));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  const std::set<std::string> expected = {"waits_for_mutex",     "waits_to_read",       "waits_to_write",
                                          "waits_for_semaphore", "waits_for_condition", "waits_for_end",
                                          "waits_for_futex"};
  std::set<std::string> old;
  Eventually([&] {
    const std::string json = Ask(program, {"--json"}).out;
    constexpr char kAge[] = "\"waiting_ns\":";
    for (size_t at = json.find(kAge); at != std::string::npos; at = json.find(kAge, at + 1)) {
      const int64_t age = std::atoll(json.c_str() + at + sizeof kAge - 1);
      const std::string stack = json.substr(at, json.find(']', at) - at);
      // Several slices of 20 ms, however busy the machine is.
      for (const std::string& function : expected)
        if (age > 100'000'000 && stack.find('"' + function + '"') != std::string::npos) old.insert(function);
    }
    return old == expected;
  });
  EXPECT_EQ(old, expected);
  program.Signal(SIGKILL);
  program.Wait();
  EXPECT_TRUE(Settled());
}

// Each is held by a thread that waits for input, and waited for by one in its own loop.
TEST_F(LockNumbers, ThreadsThatAreParkedByAMutexEachAreIdle) {
  Running program(CommandFor(Launch::kPreload, {"parked_threads"}, kEveryWait));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  RunResult answer;
  // Until they have waited long enough to count as idle.
  EXPECT_TRUE(Eventually([&] { return (answer = Ask(program)).out.find("no lock waits seen") != std::string::npos; }))
      << answer.out;
  EXPECT_THAT(answer.out, HasSubstr("wait_until_started"));
  program.Signal(SIGKILL);
  program.Wait();
  EXPECT_TRUE(Settled());
}

TEST_F(LockNumbers, AFutexOfAThreadsOwnIsThreadLocal) {
  Running program(CommandFor(Launch::kPreload, {"parked_threads", "own"}, kEveryWait));
  ASSERT_TRUE(program.WaitForOutput("ready"));
  EXPECT_THAT(Ask(program, {"--json"}).out, HasSubstr("\"lock\":\"thread-local -"));
  program.Signal(SIGKILL);
  program.Wait();
  EXPECT_TRUE(Settled());
}

}  // namespace
}  // namespace holdfast::testing
