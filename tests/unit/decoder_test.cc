// sampler/entries/instruction.h: lengths, branches, and what may stay at the start of a redirected function.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sampler/entries/instruction.h"

namespace holdfast {
namespace {

using Flow = Instruction::Flow;

Instruction Decoded(const std::vector<uint8_t>& bytes) { return DecodeInstruction(bytes.data(), bytes.size()); }

TEST(Decoder, KnowsLengthsAndBranches) {
  const struct {
    std::vector<uint8_t> bytes;
    Flow flow;
    const char* text;
  } kCases[] = {
      {{0xf3, 0x0f, 0x1e, 0xfa}, Flow::kNext, "endbr64"},
      {{0x55}, Flow::kNext, "push %rbp"},
      {{0x41, 0x57}, Flow::kNext, "push %r15"},
      {{0x48, 0x89, 0xe5}, Flow::kNext, "mov %rsp,%rbp"},
      {{0x48, 0x83, 0xec, 0x18}, Flow::kNext, "sub $24,%rsp"},
      {{0x48, 0x81, 0xec, 0x18, 0x01, 0, 0}, Flow::kNext, "sub $280,%rsp"},
      {{0x48, 0x8b, 0x05, 1, 2, 3, 4}, Flow::kNext, "mov 0x4030201(%rip),%rax"},
      {{0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, Flow::kNext, "mov %fs:40,%rax"},
      {{0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, Flow::kNext, "movabs"},
      {{0x66, 0xb8, 1, 2}, Flow::kNext, "mov $0x201,%ax"},
      {{0xf6, 0xc1, 0x01}, Flow::kNext, "test $1,%cl"},
      {{0xf7, 0xd8}, Flow::kNext, "neg %eax"},
      {{0x0f, 0xb6, 0x44, 0x24, 0x08}, Flow::kNext, "movzbl 8(%rsp),%eax"},
      {{0xc5, 0xf8, 0x77}, Flow::kNext, "vzeroupper"},
      {{0xc4, 0xe2, 0xf9, 0xf7, 0xc7}, Flow::kNext, "shlx"},
      {{0x62, 0xf1, 0x7c, 0x48, 0x10, 0x07}, Flow::kNext, "vmovups (%rdi),%zmm0"},
      {{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, Flow::kNext, "nopw"},
      {{0x74, 0x05}, Flow::kConditional, "je"},
      {{0x0f, 0x84, 1, 0, 0, 0}, Flow::kConditional, "je near"},
      {{0xe3, 0x05}, Flow::kShort, "jrcxz"},
      {{0xeb, 0x05}, Flow::kJump, "jmp short"},
      {{0xe9, 1, 0, 0, 0}, Flow::kJump, "jmp"},
      {{0xff, 0xe0}, Flow::kIndirectJump, "jmp *%rax"},
      {{0xe8, 1, 0, 0, 0}, Flow::kCall, "call"},
      {{0xff, 0x15, 1, 0, 0, 0}, Flow::kIndirectCall, "call *1(%rip)"},
      {{0xc3}, Flow::kReturn, "ret"},
      {{0xcc}, Flow::kStop, "int3"},
  };
  for (const auto& one : kCases) {
    std::vector<uint8_t> longer = one.bytes;
    longer.resize(20, 0x90);
    const Instruction got = Decoded(longer);
    EXPECT_EQ(int{got.length}, static_cast<int>(one.bytes.size())) << one.text;
    EXPECT_EQ(static_cast<int>(got.flow), static_cast<int>(one.flow)) << one.text;
    // Cut short, it is not known.
    std::vector<uint8_t> cut(one.bytes.begin(), one.bytes.end() - 1);
    EXPECT_EQ(int{Decoded(cut).length}, 0) << one.text;
  }
}

TEST(Decoder, RefusesWhatItDoesNotKnow) {
  const std::vector<uint8_t> kUnknown[] = {
      {0xc7, 0xf8, 0, 0, 0, 0}, {0x06}, {0xea, 0, 0, 0, 0, 0, 0}, {0xe4, 1}, {0x0f, 0x04}, {0x67, 0xe3, 5}, {}};
  for (const auto& bytes : kUnknown) EXPECT_EQ(int{Decoded(bytes).length}, 0);
}

TEST(Decoder, FindsTargets) {
  const std::vector<uint8_t> backward = {0x75, 0xf0}, near = {0xe9, 0, 1, 0, 0};
  EXPECT_EQ(TargetOf(Decoded(backward), backward.data(), 0x1000), 0xff2u);
  EXPECT_EQ(TargetOf(Decoded(near), near.data(), 0x1000), 0x1105u);
}

FirstInstruction First(const std::vector<uint8_t>& bytes, uint32_t needed = 1u << kRdi) {
  return DescribeFirst(Decoded(bytes), bytes.data(), needed);
}

TEST(Decoder, SaysWhichFirstInstructionsMayStay) {
  EXPECT_TRUE(First({0x53}).may_stay);  // push %rbx
  EXPECT_EQ(First({0x53}).pushed, kRbx);
  EXPECT_EQ(First({0x48, 0x83, 0xec, 0x18}).stack_bytes, 24);   // sub $24,%rsp
  EXPECT_TRUE(First({0x48, 0x85, 0xff}).sets_flags);            // test %rdi,%rdi
  EXPECT_TRUE(First({0x48, 0x8b, 0x05, 1, 2, 3, 4}).may_stay);  // mov (%rip),%rax
  EXPECT_TRUE(First({0x31, 0xf6}).may_stay);                    // xor %esi,%esi
  EXPECT_EQ(First({0x48, 0x83, 0xee, 0x01}).added, -1);         // sub $1,%rsi
  EXPECT_FALSE(First({0x48, 0x83, 0xee, 0x01}).undone_at_once);
  EXPECT_TRUE(First({0x48, 0x83, 0xef, 0x01}).undone_at_once) << "sub $1,%rdi, which the hook reads";
  EXPECT_EQ(First({0x48, 0x8d, 0x7f, 0xf0}).added, -16);        // lea -16(%rdi),%rdi
  EXPECT_EQ(First({0x48, 0x8d, 0xbf, 0, 1, 0, 0}).added, 256);  // lea 256(%rdi),%rdi
  EXPECT_FALSE(First({0x48, 0x8d, 0x7e, 0xf0}).may_stay) << "lea -16(%rsi),%rdi cannot be undone";
  EXPECT_TRUE(First({0x48, 0x87, 0xf7}).may_stay);  // xchg %rsi,%rdi
  EXPECT_TRUE(First({0x48, 0x87, 0xf7}).undone_at_once);
  EXPECT_FALSE(First({0x48, 0x87, 0xf3}).may_stay) << "xchg %rsi,%rbx";
  EXPECT_FALSE(First({0x48, 0x87, 0x37}).may_stay) << "xchg %rsi,(%rdi)";
  EXPECT_FALSE(First({0x48, 0x89, 0xf7}).may_stay) << "mov %rsi,%rdi, the same";
  EXPECT_FALSE(First({0x48, 0x8b, 0x36}).may_stay) << "mov (%rsi),%rsi gives another result the second time";
  EXPECT_FALSE(First({0x48, 0x89, 0x07}).may_stay) << "a store";
  EXPECT_FALSE(First({0xe8, 0, 0, 0, 0}).may_stay) << "a call";
}

TEST(Decoder, KnowsWhoUsesFlags) {
  EXPECT_EQ(FlagsUse(Decoded({0x74, 0x05})), Flags::kRead);             // je
  EXPECT_EQ(FlagsUse(Decoded({0x0f, 0x44, 0xc1})), Flags::kRead);       // cmove
  EXPECT_EQ(FlagsUse(Decoded({0x48, 0x19, 0xc0})), Flags::kRead);       // sbb
  EXPECT_EQ(FlagsUse(Decoded({0x48, 0x85, 0xc0})), Flags::kSet);        // test
  EXPECT_EQ(FlagsUse(Decoded({0xc3})), Flags::kSet);                    // ret
  EXPECT_EQ(FlagsUse(Decoded({0x48, 0x89, 0xc0})), Flags::kUntouched);  // mov
}

}  // namespace
}  // namespace holdfast
