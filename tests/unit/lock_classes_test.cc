// Locks of one class in one line, and what other profiles say that a lock costs.
#include "report/analysis/locks/lock_classes.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "fmt/format.h"
#include "report/analysis/locks/lock_costs.h"
#include "report/analysis/locks/waiting_list.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

using Texts = std::vector<std::string>;

class LockClasses : public ::testing::Test {
 protected:
  LockClasses()
      : profile_(StackProfile({{"main;serve;std::mutex::lock()", 1},
                               {"main;drain;std::mutex::lock()", 1},
                               {"main;accept;make_session", 1}})) {
    for (size_t i = 0; i < profile_.samples.size(); ++i) {
      std::string text;
      for (const uint32_t frame : profile_.FramesOf(profile_.samples[i]))
        text += fmt::format(" 0x{:x}", profile_.locations[frame].address);
      profile_.AddComment(fmt::format("lock stack {}:{}", i + 1, text));
    }
  }
  void AddLock(int number, int64_t delay_ns, const std::string& what = "", int waiter = 0, const char* kind = "mutex") {
    profile_.AddComment(
        fmt::format("lock {}: {} 0x7f000000{}000 contentions 2 delay_ns {} longest_ns {} holds 1 hold_ns {}", number,
                    kind, number, delay_ns, delay_ns / 2, delay_ns));
    if (!what.empty()) profile_.AddComment(fmt::format("lock {} {}", number, what));
    if (waiter != 0) {
      profile_.AddComment(fmt::format("lock pair {}: lock {} holder - waiter {} contentions 2 delay_ns {}", number,
                                      number, waiter, delay_ns));
    }
  }
  Profile Translated() const { return WithRecords(profile_); }
  std::vector<std::string> Names() {
    const Profile profile = Translated();
    Plumbing plumbing = Plumbing::Make(profile, {}).value();
    const LockList each = ReadLockList(profile, &plumbing);
    const LockList list = GroupByClass(profile, each, &plumbing);
    int64_t delay_ns = 0, grouped_ns = 0, contentions = 0, grouped = 0, locks = 0;
    for (const LockList::Lock& lock : each.locks) delay_ns += lock.delay_ns, contentions += lock.contentions;
    std::vector<std::string> names;
    for (const LockList::Lock& lock : list.locks) {
      names.push_back(LockNameOf(profile, list, lock, &plumbing));
      grouped_ns += lock.delay_ns, grouped += lock.contentions, locks += lock.locks;
    }
    EXPECT_EQ(grouped_ns, delay_ns);
    EXPECT_EQ(grouped, contentions);
    EXPECT_EQ(locks, static_cast<int64_t>(each.locks.size()));
    return names;
  }

  Profile profile_;
};

// new Shard[64]: the offsets differ, and no symbol says that it is an array.
TEST_F(LockClasses, AnArrayInOneBlockIsOneClass) {
  for (int i = 1; i <= 4; ++i)
    AddLock(i, 5'000'000 - i, fmt::format("block: 1920 bytes, {} into it, stack 3", 64 * i + 8), 1);
  EXPECT_EQ(Names(), Texts{"4 locks: in blocks of 1.88KiB from make_session, the hottest 5ms"});
}

// Two locks of one structure are two classes, also where one function waits for both.
TEST_F(LockClasses, TwoMembersAreTwoClasses) {
  for (int i = 1; i <= 4; ++i)
    AddLock(i, 5'000'000 - i, fmt::format("block: 200 bytes, {} into it, stack 3", i % 2 == 0 ? 104 : 144), 1);
  EXPECT_EQ(Names().size(), 2u);
}

TEST_F(LockClasses, ASumOfLocksCountsAsItsLocks) {
  AddLock(1, 5'000'000, "block: 64 bytes, 16 into it, stack 3");
  AddLock(2, 9'000'000, "block: 64 bytes, 16 into it, stack 3");
  profile_.AddComment("lock 2 locks: 3936 hottest_ns 1200000");
  const Profile profile = Translated();
  Plumbing plumbing = Plumbing::Make(profile, {}).value();
  const LockList list = GroupByClass(profile, ReadLockList(profile, &plumbing), &plumbing);
  ASSERT_EQ(list.locks.size(), 1u);
  EXPECT_EQ(list.locks[0].locks, 3937);
  EXPECT_EQ(list.locks[0].delay_ns, 14'000'000);
  EXPECT_EQ(list.locks[0].hottest_ns, 5'000'000);
}

TEST_F(LockClasses, OneArrayIsOneClass) {
  AddLock(1, 5'000'000, "name: server.accounts_[3].mutex (server)");
  AddLock(2, 2'000'000, "name: server.accounts_[12].mutex (server)");
  AddLock(3, 1'000'000, "name: server.log_mutex_ (server)");
  EXPECT_EQ(Names(),
            (Texts{"2 locks: server.accounts_[*].mutex (server), the hottest 5ms", "server.log_mutex_ (server)"}));
}

TEST_F(LockClasses, OneSymbolIsOneClassWithoutDebugInformation) {
  AddLock(1, 5'000'000, "name: queues+64 (server)");
  AddLock(2, 2'000'000, "name: queues (server)");
  AddLock(3, 1'000'000, "name: queues+64 (other)");
  EXPECT_EQ(Names(), (Texts{"2 locks: queues (server), the hottest 5ms", "queues+64 (other)"}));
}

TEST_F(LockClasses, BlocksFromOneFunctionAreOneClass) {
  AddLock(1, 3'000'000, "block: 64 bytes, 16 into it, stack 3");
  AddLock(2, 9'000'000, "block: 64 bytes, 16 into it, stack 3");
  AddLock(3, 1'000'000, "block: 64 bytes, 24 into it, stack 3");
  EXPECT_EQ(Names(), (Texts{"2 locks: 16 into blocks of 64B from make_session, the hottest 9ms",
                            "24 into a block of 64B from make_session"}));
}

TEST_F(LockClasses, UnnamedLocksWithTheSameWaiterAreOne) {
  AddLock(1, 3'000'000, "", 1);
  AddLock(2, 2'000'000, "", 1);
  AddLock(3, 1'000'000, "", 2);
  AddLock(4, 500'000);
  AddLock(5, 400'000);
  EXPECT_EQ(Names(), (Texts{"2 locks like 0x7f0000001000, the hottest 3ms", "0x7f0000003000", "0x7f0000004000",
                            "0x7f0000005000"}));
}

// As in redis: main holds one for each I/O thread while there is no work.
TEST_F(LockClasses, LocksOfParkedThreadsComeLast) {
  AddLock(1, 3'000'000'000, "name: parking[1] (server)", 1);
  AddLock(2, 2'000'000'000, "name: parking[2] (server)", 1);
  AddLock(3, 1'000'000, "name: log_mutex (server)", 2);
  for (const int lock : {1, 2})
    profile_.AddComment(
        fmt::format("lock {} hold_times: held_ns {} longest_ns 1 64:1", lock, (4 - lock) * int64_t{1'000'000'000}));
  EXPECT_EQ(Names(), (Texts{"log_mutex (server)", "2 locks: parking[*] (server), the hottest 3s"}));
  // The thread that parks the others waits for them as well, as redis's does.
  profile_.AddComment("lock pair 9: lock 1 holder - waiter 3 contentions 1 delay_ns 27000000");
  EXPECT_EQ(Names(), (Texts{"log_mutex (server)", "2 locks: parking[*] (server), the hottest 3s"}));
}

TEST_F(LockClasses, TwoKindsAreTwoClasses) {
  AddLock(1, 3'000'000, "name: pool[1] (server)");
  AddLock(2, 2'000'000, "name: pool[2] (server)", 0, "spin");
  EXPECT_EQ(Names().size(), 2u);
}

TEST_F(LockClasses, ADeadlockThatIsThereTwiceIsOne) {
  for (const char* line :
       {"waiting: 2 threads, delay_ns 2", "waiting thread 1: tid 11 number 2 gone 0 name a",
        "waiting thread 2: tid 12 number 3 gone 0 name b",
        "waiting 1: thread 1 mutex 0x10 lock - delay_ns 1 stack - holder 2 source now readers 0 died 0",
        "waiting 2: thread 2 mutex 0x20 lock - delay_ns 1 stack - holder 1 source now readers 0 died 0",
        "waiting 2 slices: age_ns 4000000000", "waiting deadlock 1: 1 2", "waiting deadlock 2: 2 1"})
    profile_.AddComment(line);
  const WaitingList list = ReadWaitingList(Translated());
  EXPECT_EQ(list.deadlocks.size(), 1u);
  EXPECT_EQ(list.waits.at(0).delay_ns, 1);
  EXPECT_EQ(list.waits.at(1).delay_ns, 4'000'000'000) << "of all its slices";
}

// Of the sums, the one that is renamed is that of the bytes.
Profile CpuProfile(const std::vector<Stack>& stacks) {
  Profile cpu = StackProfile(stacks);
  cpu.sample_types.back() = {cpu.strings.Intern("cpu"), cpu.strings.Intern("nanoseconds")};
  return cpu;
}

TEST_F(LockClasses, CpuTimeInLibcsFunctionsIsThatOfTheCallersLock) {
  AddLock(1, 3'000'000, "name: first (app)", 1);
  AddLock(2, 1'000'000, "name: second (app)", 1);
  AddLock(3, 1'000'000, "name: third (app)", 2);
  const Profile profile = Translated();
  const Profile cpu = CpuProfile({{"main;serve;std::mutex::lock();libc.so.6!pthread_mutex_lock", 1000},
                                  {"main;serve;std::mutex::lock();libc.so.6!pthread_mutex_lock;libc.so.6!futex", 3000},
                                  {"main;drain;std::mutex::lock();libc.so.6!memcpy", 5000},
                                  {"main;other;libc.so.6!pthread_mutex_lock", 7000},
                                  {"main;serve", 9000}});
  LockList list = ReadLockList(profile, nullptr);
  AddCpuOfCalls(profile, cpu, &list);
  std::map<std::string, std::optional<int64_t>> found;
  for (const LockList::Lock& lock : list.locks) found[lock.name] = lock.call_cpu_ns;
  // Two locks share one call path, in proportion to their waits. Of the third, no sample is known.
  EXPECT_EQ(found["first (app)"], 3000);
  EXPECT_EQ(found["second (app)"], 1000);
  EXPECT_EQ(found["third (app)"], std::nullopt);
}

TEST_F(LockClasses, PairsWithAHolderRepeatWaitsAndAddNoCpuTime) {
  AddLock(1, 1'000'000, "name: first (app)", 1);
  AddLock(2, 1'000'000, "name: second (app)", 1);
  profile_.AddComment("lock pair 8: lock 1 holder 2 waiter 1 contentions 2 delay_ns 1000000");
  const Profile profile = Translated();
  const Profile cpu = CpuProfile({{"main;serve;std::mutex::lock();libc.so.6!pthread_mutex_lock", 4000}});
  LockList list = ReadLockList(profile, nullptr);
  AddCpuOfCalls(profile, cpu, &list);
  for (const LockList::Lock& lock : list.locks) EXPECT_EQ(lock.call_cpu_ns, 2000) << lock.name;
}

TEST_F(LockClasses, WhatTheHolderDoesIsThatOfTheLocksAddress) {
  AddLock(1, 3'000'000, "name: first (app)", 1);
  AddLock(2, 1'000'000, "name: second (app)", 1);
  const Profile profile = Translated();
  const std::vector<std::pair<std::string, std::string>> labels = {{"0x7f0000001000", "sleep"},
                                                                   {"0x7f0000001000", "syscall:poll"},
                                                                   {"0x7f0000001000", ""},
                                                                   {"0x7f000000f000", "cpu"},
                                                                   {"0x7f0000001000", "io"}};
  // A reader-writer lock was at the first lock's place before or after it.
  const char* const kinds[] = {"mutex", "mutex", "mutex", "mutex", "rwlock-write"};
  LockList list = ReadLockList(profile, nullptr);
  Profile wall;
  wall.sample_types = {{wall.strings.Intern("wall"), wall.strings.Intern("nanoseconds")}};
  const int64_t values[] = {700, 200, 100, 50, 9000};
  for (size_t i = 0; i < labels.size(); ++i) {
    std::vector<Profile::Label> of = {
        {.key = wall.strings.Intern("lock_address"), .text = wall.strings.Intern(labels[i].first)},
        {.key = wall.strings.Intern("wait"), .text = wall.strings.Intern(kinds[i])}};
    if (!labels[i].second.empty())
      of.push_back({.key = wall.strings.Intern("holder_state"), .text = wall.strings.Intern(labels[i].second)});
    wall.AddSample({}, {&values[i], 1}, of);
  }
  AddHolderStates(wall, &list);
  ASSERT_EQ(list.locks.size(), 2u);
  EXPECT_EQ(HolderStatesText(list.locks[0].holder_does), "asleep 70 %, in poll 20 %, not known 10 %");
  EXPECT_EQ(HolderStatesText(list.locks[1].holder_does), "");
}

}  // namespace
}  // namespace holdfast::testing
