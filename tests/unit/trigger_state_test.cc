// Conditions for extra snapshots: what is taken, when one becomes true, and when a memory limit is near.
#include "report/daemon/trigger_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "report/base/time_budget.h"
#include "report/daemon/limit_state.h"
#include "report/daemon/rest_delay.h"
#include "sampler/contract/triggers.h"

namespace holdfast {
namespace {

constexpr uint64_t kMiB = 1 << 20;

Trigger One(const std::string& text) {
  TriggerList list{};
  EXPECT_TRUE(ParseTriggers(text.c_str(), &list)) << text;
  EXPECT_EQ(list.count, 1) << text;
  return list.all[0];
}

TEST(Triggers, EachQuantityIsTaken) {
  EXPECT_EQ(One("inuse>2GiB").above, 2048 * kMiB);
  EXPECT_EQ(One("inuse>2GiB").quantity, TriggerQuantity::kInUse);
  EXPECT_EQ(One("rss>80%limit").of_limit, 8000u);
  EXPECT_EQ(One("rss > 12.5% limit").of_limit, 1250u);
  EXPECT_EQ(One("inuse>100%limit").of_limit, 10'000u);
  EXPECT_EQ(One("growth>100MiB/min").within_ns, 60u * kSecond);
  EXPECT_EQ(One(" growth > 1.5MiB / 5min ").within_ns, 300u * kSecond);
  EXPECT_EQ(One("delay>10s/min").above, 10u * kSecond);
  EXPECT_EQ(One("delay>100ms/s").within_ns, 1u * kSecond);
  EXPECT_EQ(One("delay>1s/30s").within_ns, 30u * kSecond);
  EXPECT_EQ(One("delay>1s/2h").within_ns, 7200u * kSecond);
}

TEST(Triggers, SeveralAreSeparatedByCommas) {
  const std::string text = "inuse>1MiB, delay>1s/min ,";
  TriggerList list{};
  ASSERT_TRUE(ParseTriggers(text.c_str(), &list));
  ASSERT_EQ(list.count, 2);
  EXPECT_EQ(text.substr(list.all[1].start, list.all[1].bytes), "delay>1s/min");
  EXPECT_TRUE(ParseTriggers("", &list));
  EXPECT_EQ(list.count, 0);
}

TEST(Triggers, AnInvalidConditionIsRejected) {
  TriggerList list{};
  for (const char* text : {"2GiB",
                           "inuse",
                           "inuse>",
                           "inuse>0",
                           "inuse<1MiB",
                           "inuse>=1MiB",
                           "heap>1MiB",
                           "inuse>80%",
                           "inuse>0%limit",
                           "inuse>101%limit",
                           "rss>-1%limit",
                           "rss>1.2.3%limit",
                           "rss>%limit",
                           "inuse>1MiB/min",
                           "growth>1MiB",
                           "growth>1MiB/",
                           "growth>5%limit/min",
                           "growth>1MiB/0s",
                           "growth>1MiB/10ms",
                           "growth>1MiB/25h",
                           "delay>1MiB/min",
                           "delay>5/min",
                           "delay>1s/minute",
                           "inuse>1MiB;rss>1MiB",
                           "inuse>99999999999999999999999999999999999999999999GiB"}) {
    EXPECT_FALSE(ParseTriggers(text, &list)) << text;
  }
  std::string many = "inuse>1MiB";
  for (int i = 1; i < kMaxTriggers; ++i) many += ",inuse>1MiB";
  EXPECT_TRUE(ParseTriggers(many.c_str(), &list));
  EXPECT_FALSE(ParseTriggers((many + ",inuse>1MiB").c_str(), &list));
  EXPECT_FALSE(ParseTriggers(std::string(kTriggerTextBytes, ' ').c_str(), &list));
}

TEST(TriggerState, BecomesTrueOnceUntilItWasFalse) {
  TriggerState state(One("inuse>100MiB"), "inuse>100MiB");
  int64_t now = kSecond;
  const auto look = [&](uint64_t mib) { return state.Look(mib * kMiB, 0, now += kMs); };
  EXPECT_FALSE(look(50));
  EXPECT_FALSE(look(100));
  EXPECT_TRUE(look(101));
  EXPECT_EQ(state.Reason(), "inuse>100MiB at 101MiB");
  EXPECT_FALSE(look(200));
  EXPECT_FALSE(look(96)) << "it wavers";
  EXPECT_FALSE(look(101));
  EXPECT_FALSE(look(94));
  EXPECT_TRUE(look(101));
}

TEST(TriggerState, AShareOfALimitIsNeverTrueWithoutOne) {
  TriggerState state(One("rss>80%limit"), "rss>80%limit");
  EXPECT_FALSE(state.Look(1000 * kMiB, 0, 1));
  EXPECT_FALSE(state.Look(80 * kMiB, 100 * kMiB, 2));
  EXPECT_TRUE(state.Look(81 * kMiB, 100 * kMiB, 3));
  EXPECT_EQ(state.Reason(), "rss>80%limit at 81MiB of 100MiB");
  // The limit was raised.
  EXPECT_FALSE(state.Look(81 * kMiB, 200 * kMiB, 4));
  EXPECT_TRUE(state.is_over());
}

TEST(TriggerState, GrowthIsOfItsWindow) {
  TriggerState state(One("growth>100MiB/min"), "growth>100MiB/min");
  // 1 MiB a second: 60 in a minute, whatever has come together.
  int64_t now = kSecond;
  for (uint64_t mib = 500; mib < 1000; ++mib) ASSERT_FALSE(state.Look(mib * kMiB, 0, now += kSecond)) << mib;
  // 2 MiB a second: above 100 some 50 seconds later, as a minute before is still of the slower part.
  bool fired = false;
  int steps = 0;
  for (uint64_t mib = 1000; !fired && steps < 100; mib += 2, ++steps) fired = state.Look(mib * kMiB, 0, now += kSecond);
  EXPECT_TRUE(fired);
  EXPECT_NEAR(steps, 41, 3);  // 2x + (60 - x) > 100
}

// What came before the first look: nothing was in use when it began.
TEST(TriggerState, GrowthSinceTheBeginningOfAProcessCounts) {
  const Trigger growth = One("growth>100MiB/min");
  TriggerState young(growth, "growth>100MiB/min", 5 * kSecond);
  EXPECT_TRUE(young.Look(400 * kMiB, 0, 5 * kSecond + 30 * kMs));
  EXPECT_EQ(young.Reason(), "growth>100MiB/min at 400MiB");
  TriggerState old(growth, "growth>100MiB/min", 5 * kSecond);
  EXPECT_FALSE(old.Look(400 * kMiB, 0, 66 * kSecond)) << "it began longer ago";
  TriggerState by_another_clock(growth, "growth>100MiB/min", 500 * kSecond);
  EXPECT_FALSE(by_another_clock.Look(400 * kMiB, 0, 5 * kSecond));
  EXPECT_FALSE(by_another_clock.Look(450 * kMiB, 0, 6 * kSecond));
}

TEST(TriggerState, AFallIsTheBeginningOfTheNextGrowth) {
  TriggerState state(One("growth>100MiB/min"), "growth>100MiB/min");
  EXPECT_FALSE(state.Look(500 * kMiB, 0, 1 * kSecond));
  EXPECT_FALSE(state.Look(20 * kMiB, 0, 2 * kSecond));
  EXPECT_FALSE(state.Look(119 * kMiB, 0, 3 * kSecond));
  EXPECT_TRUE(state.Look(121 * kMiB, 0, 4 * kSecond));
}

// A program that takes `speed` MiB a second, looked at as often as the state says. At which shares of the limit something was due.
std::vector<double> Due(int64_t limit_mib, double speed, int64_t takes_mib = 8, double until = 1) {
  LimitState state;
  std::vector<double> due;
  int64_t now = kSecond;
  const int64_t limit = limit_mib * static_cast<int64_t>(kMiB);
  double used = 0;
  while (used < until * static_cast<double>(limit)) {
    if (state.Look(limit, limit - static_cast<int64_t>(used), takes_mib * static_cast<int64_t>(kMiB), now))
      due.push_back(used / static_cast<double>(limit));
    now += state.LookAgainIn();
    used += speed * kMiB * static_cast<double>(state.LookAgainIn()) / kSecond;
  }
  return due;
}

TEST(LimitState, TheLastOneHasNearlyAllAndTheFirstComesInTime) {
  for (const int64_t limit : {64, 256, 4096, 65536}) {
    for (const double speed : {0.1, 1.0, 10.0, 100.0, 500.0}) {
      if (static_cast<double>(limit) / speed < 1 || static_cast<double>(limit) / speed > 10'000) continue;
      const std::vector<double> due = Due(limit, speed);
      SCOPED_TRACE(std::to_string(limit) + " MiB, " + std::to_string(speed) + " MiB/s");
      ASSERT_FALSE(due.empty());
      EXPECT_LE(due.size(), 6u);
      EXPECT_GE(due.front(), 0.5);
      EXPECT_LE(due.front(), 0.91);
      EXPECT_GE(due.back(), std::min(0.9, 1 - 8.0 / static_cast<double>(limit) - 0.02)) << "if there is room for it";
    }
  }
}

TEST(LimitState, StayingNearTheLimitTriggersOnce) {
  LimitState state;
  int64_t now = kSecond;
  int due = 0, looks = 0;
  for (const int64_t end = now + 3600 * kSecond; now < end; now += state.LookAgainIn(), ++looks) {
    due += state.Look(1 << 30, 80 << 20, 8 << 20, now) ? 1 : 0;
  }
  EXPECT_EQ(due, 1);
  EXPECT_LE(looks, 3600 * 25 + 10);
}

TEST(LimitState, AReturnTriggersAfterHalfAMinuteOrAtOnceIfDeeper) {
  LimitState state;
  constexpr int64_t kLimit = 1 << 30, kTakes = 8 << 20;
  int64_t now = kSecond;
  const auto look = [&](int64_t left_mib) { return state.Look(kLimit, left_mib << 20, kTakes, now += 10 * kSecond); };
  EXPECT_TRUE(look(90));
  EXPECT_FALSE(look(900));
  EXPECT_FALSE(look(90));
  EXPECT_TRUE(look(40));
  EXPECT_FALSE(look(900));
  EXPECT_FALSE(look(900));
  EXPECT_TRUE(look(90));
}

TEST(RestDelay, NamesAreKeptLongerIfTheyWereNeededAgainSoon) {
  RestDelay delay;
  int64_t now = 100 * kSecond;
  delay.Begin(now);
  EXPECT_EQ(delay.ns(), kSecond) << "the first work";
  for (const int64_t seconds : {2, 4, 8, 16, 32, 32}) {
    delay.Rest(now);
    delay.Begin(now += RestDelay::kSoon);
    EXPECT_EQ(delay.ns(), seconds * kSecond);
  }
  delay.Rest(now);
  delay.Begin(now + RestDelay::kSoon + 1);
  EXPECT_EQ(delay.ns(), kSecond) << "a snapshot a minute does not keep them";
}

}  // namespace
}  // namespace holdfast
