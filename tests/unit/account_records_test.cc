// The account of memory as records of a profile: what is written is read back; what others wrote does no harm.
#include "report/observe/memory/account_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/observe/memory/account_text.h"
#include "report/observe/memory/mappings.h"
#include "report/profile/old_comments.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

MemoryAccount Account() {
  MemoryAccount account;
  account.total = 252'706'816;
  account.allocator = 218'652'672;
  account.files = 8'703'180;
  account.rest = 25'000'000;
  account.swapped = 4096;
  account.arenas = 11;
  account.hugetlb = 8 << 20;
  account.threads = 3;
  account.live = {.value = 94'969'856, .variance = 4.75e13};
  account.in_use_resident = {.value = 95'000'000, .variance = 0};
  account.in_use = {.value = 95'811'000, .variance = 4.8e13};
  account.allocator_name = "glibc";
  for (int i = 0; i < 20; ++i) account.by_file.emplace_back("lib with blank " + std::to_string(i) + ".so", 100 - i);
  return account;
}

std::optional<MemoryAccount> Back(const MemoryAccount& account) {
  Profile profile;
  profile.mutable_records()->account = RecordOf(account);
  return AccountOf(profile);
}

std::optional<MemoryAccount> OfOldComments(const std::vector<std::string>& comments) {
  Profile profile;
  for (const std::string& comment : comments) profile.AddComment(comment);
  ReadOldComments(&profile);
  return AccountOf(profile);
}

TEST(AccountRecords, ComeBackAsTheyWere) {
  const MemoryAccount account = Account();
  EXPECT_EQ(RecordOf(account).file.size(), kMaxAccountFiles);
  const std::optional<MemoryAccount> back = Back(account);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(AccountText(*back, "server (pid 1)"), AccountText(account, "server (pid 1)"));
  EXPECT_EQ(back->by_file[1].first, "lib with blank 1.so");
  EXPECT_EQ(back->threads, 3u);
  EXPECT_FALSE(AccountOf(Profile()).has_value());
}

// As the releases before wrote it.
TEST(AccountRecords, OldCommentsGiveTheSameRecords) {
  const auto back = OfOldComments(
      {"kind: heap",
       "memory: total 252706816 allocator 218652672 files 8703180 shared 0 stacks 0 own 0 mapped 0 rest 25000000 "
       "swapped 4096 huge 0 hugetlb 8388608 heaps 0 arenas 11 threads 3 sampled 0 live 94969856 live_variance 4.75e+13 "
       "beyond_variance 0 rest_variance 0 rounding 0 rounding_variance 0 in_use 95811000 in_use_variance 4.8e+13 "
       "in_use_resident 95000000 in_use_swapped 0 in_use_swapped_variance 0 name glibc",
       "memory limit: 3", "memory file: 100 lib with blank 0.so", "memory file: 99 lib with blank 1.so"});
  ASSERT_TRUE(back.has_value());
  MemoryAccount account = Account();
  account.by_file.resize(2);
  EXPECT_EQ(AccountText(*back, "x"), AccountText(account, "x"));
  EXPECT_EQ(back->in_use.variance, 4.8e13);
}

// Which are no part of Rss.
TEST(AccountRecords, PagesOfTheKernelsPoolAreBesideTheRest) {
  const std::vector<MemoryMapping> mappings = ParseMappings(
      "7f0000000000-7f0000800000 rw-p 00000000 00:0f 123    /anon_hugepage (deleted)\nRss:    0 kB\n"
      "Shared_Hugetlb:    2048 kB\nPrivate_Hugetlb:    6144 kB\n");
  ASSERT_EQ(mappings.size(), 1u);
  EXPECT_EQ(mappings[0].resident, 0u);
  EXPECT_EQ(mappings[0].hugetlb, 8u << 20);
  EXPECT_THAT(AccountText(Account(), "x"), HasSubstr("\n  additionally 8MiB from the kernel's huge page pool"));
}

TEST(AccountRecords, PagesAreNotEstimatedIfNoneAreKnown) {
  MemoryAccount account = Account();
  account.has_pages = false;
  const auto back = Back(account);
  ASSERT_TRUE(back.has_value());
  EXPECT_FALSE(back->has_pages);
  EXPECT_EQ(AccountText(*back, "x"), AccountText(account, "x"));
}

TEST(AccountRecords, InvalidRecordsAreIgnored) {
  EXPECT_FALSE(OfOldComments({}).has_value());
  EXPECT_FALSE(OfOldComments({"memory file: 12 x"}).has_value());
  const auto back = OfOldComments({"memory: total 12 total -3 live nan live_variance -1 in_use 1e300 new 5 odd",
                                   "memory file: x y", "memory file: 7"});
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->total, 12u);
  EXPECT_EQ(back->live.value, 0);
  EXPECT_EQ(back->live.variance, 0);
  EXPECT_EQ(back->in_use.value, 0);
  ASSERT_EQ(back->by_file.size(), 1u);
  EXPECT_EQ(back->by_file[0].first, "");
}

TEST(AccountRecords, AnEstimateOutOfRangeIsLeftOut) {
  for (const double value : {-1.0, 1e300, std::nan("")}) {
    Profile profile;
    record::Account& account = profile.mutable_records()->account.emplace(RecordOf(Account()));
    account.beyond_variance = account.rest_variance = value;
    account.live = record::Estimate{value, value};
    const auto back = AccountOf(profile);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->beyond_variance, 0);
    EXPECT_EQ(back->rest_variance, 0);
    EXPECT_EQ(back->live.value, 0);
    EXPECT_EQ(back->live.variance, 0);
  }
}

TEST(AccountText, SaysHowMuchEachLineGrew) {
  MemoryAccount first = Account(), last = Account();
  last.total += 10 << 20;
  last.files += 12 << 20;
  last.rest -= 2 << 20;
  last.shared = 3 << 20;
  const std::string text = AccountText(last, "server (pid 1)", &first);
  EXPECT_THAT(text, HasSubstr("resident, 4KiB swapped\n  +10MiB since the first snapshot"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\\+12MiB  files"));
  EXPECT_THAT(text, ::testing::ContainsRegex("-2MiB  the rest"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\\+3MiB  shared memory"));
  EXPECT_THAT(text, ::testing::ContainsRegex(" =  live blocks"));
}

}  // namespace
}  // namespace holdfast
