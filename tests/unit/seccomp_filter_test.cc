#include "report/run/seccomp_filter.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstddef>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#if defined(__x86_64__)

namespace holdfast {
namespace {

using ::testing::HasSubstr;

sock_filter Load(size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); }
sock_filter LoadNumber() { return Load(offsetof(seccomp_data, nr)); }
sock_filter LoadArgument(int argument) {
  return Load(offsetof(seccomp_data, args) + static_cast<size_t>(argument) * sizeof(uint64_t));
}
sock_filter Return(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }
sock_filter SkipUnless(int number, uint8_t lines) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, lines);
}

// What systemd's MemoryDenyWriteExecute installs, with another action for the calls that it forbids.
SeccompFilter NoWritableCode(uint32_t action) {
  return {LoadNumber(),
          SkipUnless(SYS_mmap, 4),
          LoadArgument(2),
          BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_EXEC | PROT_WRITE),
          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_EXEC | PROT_WRITE, 0, 1),
          Return(action),
          Return(SECCOMP_RET_ALLOW)};
}

TEST(SeccompFilter, AnArgumentThatIsKnownDecides) {
  const FilteredCall code = {"mmap", SYS_mmap, true, {{{}, {}, PROT_READ | PROT_EXEC}}};
  const FilteredCall writable_code = {"mmap", SYS_mmap, true, {{{}, {}, PROT_WRITE | PROT_EXEC}}};
  const FilteredCall unknown = {"mmap", SYS_mmap, true, {}};
  const std::vector<SeccompFilter> kills = {NoWritableCode(SECCOMP_RET_KILL_PROCESS)};
  EXPECT_EQ(EffectOf(kills, code), FilterEffect::kAllowed);
  EXPECT_EQ(EffectOf(kills, writable_code), FilterEffect::kFatal);
  EXPECT_EQ(EffectOf(kills, unknown), FilterEffect::kFatal);
  EXPECT_EQ(EffectOf({NoWritableCode(SECCOMP_RET_ERRNO | 1)}, unknown), FilterEffect::kDenied);
  EXPECT_EQ(WhyFiltersForbid(kills), "");
}

// The calls of the library in this row of docs/limitations.md.
std::vector<std::string> CallsInRow(const std::string& row) {
  std::ifstream file(std::string(HOLDFAST_SOURCE) + "/docs/limitations.md");
  std::vector<std::string> calls;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| " + row)) continue;
    const size_t second = line.find("| `", 1);
    for (size_t at = line.find('`', second); at != std::string::npos;) {
      const size_t end = line.find('`', at + 1);
      calls.push_back(line.substr(at + 1, end - at - 1));
      at = line.find('`', end + 1);
    }
  }
  return calls;
}

TEST(SeccompFilter, EveryCallOfTheLibraryIsEvaluated) {
  std::set<std::string> evaluated = {"clone", "exit_group", "wait4"};  // only the start of an exporter makes these
  for (const FilteredCall& call : CausedCalls()) evaluated.insert(call.name);
  for (const char* row : {"the library, in the program", "after `shmat`", "seldom", "when root becomes another user"}) {
    EXPECT_FALSE(CallsInRow(row).empty()) << row;
    for (const std::string& call : CallsInRow(row)) EXPECT_TRUE(evaluated.contains(call)) << call;
  }
}

TEST(SeccompFilter, OneOfSeveralIsEnough) {
  const SeccompFilter harmless = {Return(SECCOMP_RET_ALLOW)};
  const SeccompFilter kills = {LoadNumber(), SkipUnless(SYS_openat, 1), Return(SECCOMP_RET_KILL_THREAD),
                               Return(SECCOMP_RET_LOG)};
  EXPECT_EQ(WhyFiltersForbid({harmless, harmless}), "");
  EXPECT_THAT(WhyFiltersForbid({harmless, kills}), HasSubstr("may end it at a call of openat"));
  const SeccompFilter denies = {LoadNumber(), SkipUnless(SYS_renameat, 1), Return(SECCOMP_RET_ERRNO | 1),
                                Return(SECCOMP_RET_ALLOW)};
  EXPECT_THAT(WhyFiltersForbid({denies, harmless}), HasSubstr("denies renameat"));
}

// A program may close itself in after the attach.
TEST(SeccompFilter, ADetachNeedsFewerCalls) {
  const auto with = [](int number, uint32_t action) {
    return SeccompFilter{LoadNumber(), SkipUnless(number, 1), Return(action), Return(SECCOMP_RET_ALLOW)};
  };
  constexpr uint32_t kDenies = SECCOMP_RET_ERRNO | 1;
  EXPECT_NE(WhyFiltersForbid({with(SYS_openat, kDenies)}), "");
  EXPECT_EQ(WhyFiltersForbid({with(SYS_openat, kDenies)}, true), "");
  EXPECT_EQ(WhyFiltersForbid({with(SYS_memfd_create, SECCOMP_RET_KILL_PROCESS)}, true), "");
  EXPECT_NE(WhyFiltersForbid({with(SYS_openat, SECCOMP_RET_KILL_PROCESS)}, true), "");
  EXPECT_NE(WhyFiltersForbid({with(SYS_mprotect, kDenies)}, true), "");
}

TEST(SeccompFilter, CallsThatMayFailMayBeDenied) {
  const SeccompFilter denies = {LoadNumber(), SkipUnless(SYS_madvise, 1), Return(SECCOMP_RET_ERRNO | 1),
                                Return(SECCOMP_RET_ALLOW)};
  EXPECT_EQ(WhyFiltersForbid({denies}), "");
}

TEST(SeccompFilter, AnotherProcessMayAnswerInAnyWay) {
  EXPECT_THAT(WhyFiltersForbid({{Return(SECCOMP_RET_USER_NOTIF)}}), HasSubstr("may end it"));
  EXPECT_THAT(WhyFiltersForbid({{Return(SECCOMP_RET_TRAP)}}), HasSubstr("may end it"));
}

TEST(SeccompFilter, WhatCannotBeEvaluatedIsFatal) {
  const FilteredCall call = {"read", SYS_read, true, {}};
  EXPECT_EQ(EffectOf({{}}, call), FilterEffect::kFatal);                                               // no end
  EXPECT_EQ(EffectOf({{LoadArgument(0), BPF_STMT(BPF_RET | BPF_A, 0)}}, call), FilterEffect::kFatal);  // any result
  // Two branches at each line are more states than anybody can look at.
  SeccompFilter wide;
  for (int i = 0; i < 60; ++i) {
    wide.push_back(LoadArgument(i % 6));
    wide.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 1, 1, 0));
    wide.push_back(BPF_STMT(BPF_MISC | BPF_TAX, 0));
  }
  wide.push_back(Return(SECCOMP_RET_ALLOW));
  EXPECT_EQ(EffectOf({wide}, call), FilterEffect::kFatal);
}

// The kernel ends the thread at a division by 0, and what a shift by 32 does depends on the processor.
TEST(SeccompFilter, ADivisionBy0AndAWideShiftAreFatal) {
  const FilteredCall call = {"read", SYS_read, true, {{0, 32}}};
  const auto with = [](uint16_t operation, int argument) {
    return SeccompFilter{LoadArgument(argument), BPF_STMT(BPF_MISC | BPF_TAX, 0), BPF_STMT(BPF_LD | BPF_W | BPF_IMM, 1),
                         BPF_STMT(static_cast<uint16_t>(BPF_ALU | operation | BPF_X), 0), Return(SECCOMP_RET_ALLOW)};
  };
  EXPECT_EQ(EffectOf({with(BPF_DIV, 0)}, call), FilterEffect::kFatal);
  EXPECT_EQ(EffectOf({with(BPF_DIV, 1)}, call), FilterEffect::kAllowed);
  EXPECT_EQ(EffectOf({with(BPF_DIV, 2)}, call), FilterEffect::kFatal);  // may be 0
  SeccompFilter shift = with(BPF_LSH, 1);
  shift.back() = BPF_STMT(BPF_RET | BPF_A, 0);
  EXPECT_EQ(EffectOf({shift}, call), FilterEffect::kFatal);
}

TEST(SeccompFilter, AThreadThatInstallsAnotherIsNoticed) {
  const FilterCounts before = {{1, "0 0"}, {2, "2 1"}};
  EXPECT_FALSE(FiltersChanged(before, before));
  EXPECT_FALSE(FiltersChanged(before, {{2, "2 1"}}));                          // one has ended
  EXPECT_FALSE(FiltersChanged(before, {{1, "0 0"}, {2, "2 1"}, {3, "2 1"}}));  // one has begun
  EXPECT_TRUE(FiltersChanged(before, {{1, "2 1"}, {2, "2 1"}}));
  EXPECT_TRUE(FiltersChanged(before, {{1, "0 0"}, {2, "2 2"}}));
  EXPECT_TRUE(FiltersChanged(before, {{1, "0 0"}, {3, "2 2"}}));
  EXPECT_TRUE(HasMode(before, '2'));
  EXPECT_FALSE(HasMode(before, '1'));
}

TEST(SeccompFilter, ANewThreadsFilterWasNotExamined) {
  const FilterCounts before = {{1, "0 0"}, {2, "2 1"}}, now = {{1, "0 0"}, {2, "2 1"}, {3, "2 1"}, {4, "0 0"}};
  EXPECT_FALSE(IsUnexamined(before, now, 1));
  EXPECT_FALSE(IsUnexamined(before, now, 2));
  EXPECT_TRUE(IsUnexamined(before, now, 3));
  EXPECT_FALSE(IsUnexamined(before, now, 4));
  EXPECT_FALSE(HasUncountedFilters(now));
  EXPECT_TRUE(HasUncountedFilters({{1, "0 "}, {2, "2 "}}));
}

TEST(SeccompFilter, OtherInstructionsCompute) {
  const FilteredCall call = {"read", SYS_read, true, {{7}}};
  // ((7 + 5) * 2) >> 3, by way of memory and the index register, is 3.
  const SeccompFilter filter = {LoadArgument(0),
                                BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 5),
                                BPF_STMT(BPF_ST, 2),
                                BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, 2),
                                BPF_STMT(BPF_LD | BPF_W | BPF_MEM, 2),
                                BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0),
                                BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 3),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 3, 0, 1),
                                Return(SECCOMP_RET_ALLOW),
                                Return(SECCOMP_RET_KILL_PROCESS)};
  EXPECT_EQ(EffectOf({filter}, call), FilterEffect::kAllowed);
}

}  // namespace
}  // namespace holdfast

#endif
