// x86-64 code as compilers write it: how long each instruction is, and where calls and jumps lead.
#include "report/names/symbolize/instructions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "report/names/symbolize/arm64_instructions.h"
#include "report/names/symbolize/tail_calls.h"

namespace holdfast {
namespace {

std::string Bytes(std::string_view hex) {
  std::string bytes;
  for (size_t at = 0; at + 1 < hex.size(); at += 3) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(at, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(Instructions, HaveTheLengthThatObjdumpSays) {
  const std::pair<const char*, int> known[] = {
      {"90", 1},
      {"f3 0f 1e fa", 4},                     // endbr64
      {"48 83 ec 08", 4},                     // sub $8,%rsp
      {"48 b8 01 02 03 04 05 06 07 08", 10},  // movabs
      {"66 b8 01 02", 4},                     // mov $,%ax
      {"48 8b 05 10 00 00 00", 7},            // mov 0x10(%rip),%rax
      {"48 8b 44 24 08", 5},                  // mov 8(%rsp),%rax
      {"48 8b 04 c5 00 00 00 00", 8},         // mov 0(,%rax,8),%rax
      {"48 81 c4 00 01 00 00", 7},            // add $0x100,%rsp
      {"f7 07 01 00 00 00", 6},               // testl $1,(%rdi)
      {"f7 d8", 2},                           // neg %eax
      {"c8 10 00 00", 4},                     // enter
      {"0f b6 07", 3},                        // movzbl
      {"66 0f 70 c0 1b", 5},                  // pshufd $,…
      {"66 0f 3a 0f c1 08", 6},               // palignr
      {"c5 f8 77", 3},                        // vzeroupper
      {"c4 e2 79 18 07", 5},                  // vbroadcastss
      {"c4 e3 7d 39 c1 01", 6},               // vextracti128 $1
      {"62 f1 7c 48 10 07", 6},               // vmovups zmm
      {"64 48 8b 04 25 28 00 00 00", 9},      // mov %fs:0x28,%rax
      {"a1 01 02 03 04 05 06 07 08", 9},      // movabs 0x…,%eax
      {"0f 1f 84 00 00 00 00 00", 8},         // nopl
      {"66 66 2e 0f 1f 84 00 00 00 00 00", 11},
      {"f0 0f b1 17", 4},  // lock cmpxchg
  };
  for (const auto& [hex, length] : known) {
    const MachineInstruction made = DecodeInstruction(Bytes(hex) + std::string(8, '\x90'), 0);
    EXPECT_EQ(made.length, length) << hex;
    EXPECT_EQ(made.flow, MachineInstruction::kNext) << hex;
    EXPECT_EQ(DecodeInstruction(Bytes(hex).substr(0, Bytes(hex).size() - 1), 0).length, 0) << hex << ", cut off";
  }
}

std::string Arm64(std::initializer_list<uint32_t> words) {
  std::string code;
  for (const uint32_t word : words) code.append(reinterpret_cast<const char*>(&word), sizeof word);
  return code;
}

TEST(Instructions, OfArm64LeadWhereTheySay) {
  struct Known {
    uint32_t word;
    MachineInstruction::Flow flow;
    uint64_t target;
  };
  const Known known[] = {
      {0x94000060, MachineInstruction::kCall, 0x1180},     // bl
      {0x97ffffff, MachineInstruction::kCall, 0xffc},      // bl .-4
      {0x14000010, MachineInstruction::kJump, 0x1040},     // b
      {0x17fffff0, MachineInstruction::kJump, 0xfc0},      // b .-64
      {0x54000060, MachineInstruction::kBranch, 0x100c},   // b.eq
      {0x34ffffe0, MachineInstruction::kBranch, 0xffc},    // cbz w0
      {0xb5000040, MachineInstruction::kBranch, 0x1008},   // cbnz x0
      {0x37180080, MachineInstruction::kBranch, 0x1010},   // tbnz w0, #3
      {0xb6fffffe, MachineInstruction::kBranch, 0xffc},    // tbz x30, #63, .-4
      {0xd63f0100, MachineInstruction::kCallAnywhere, 0},  // blr x8
      {0xd73f0901, MachineInstruction::kCallAnywhere, 0},  // blraa x8, x1
      {0xd61f0220, MachineInstruction::kJumpAnywhere, 0},  // br x17
      {0xd65f03c0, MachineInstruction::kNext, 0},          // ret
      {0xd65f0bff, MachineInstruction::kNext, 0},          // retaa
      {0xf9400000, MachineInstruction::kNext, 0},          // ldr x0, [x0]
  };
  for (const auto& [word, flow, target] : known) {
    const MachineInstruction made = DecodeArm64(Arm64({word}), 0x1000);
    EXPECT_EQ(made.length, 4) << std::hex << word;
    EXPECT_EQ(made.flow, flow) << std::hex << word;
    EXPECT_EQ(made.target, target) << std::hex << word;
  }
  EXPECT_EQ(DecodeArm64("abc", 0).length, 0);
}

TEST(Instructions, OfArm64TellWhereABranchGetsItsAddress) {
  // bti c; adrp x16, 0x11000; ldr x17, [x16, #24]; add x16, x16, #24; br x17
  const Arm64Source stub =
      SourceOfArm64Branch(Arm64({0xd503245f, 0x90000090, 0xf9400e11, 0x91006210, 0xd61f0220}), 0x1014);
  EXPECT_EQ(stub.slot, 0x11018u);
  // ldr x1, [x0]; ldr x1, [x1, #16]; br x1
  const Arm64Source method = SourceOfArm64Branch(Arm64({0xf9400001, 0xf9400821, 0xd61f0020}), 0x100c);
  EXPECT_EQ(method.slot, 0u);
  EXPECT_TRUE(method.by_pointer);
  // adrp x1, 0x11000; ldr x1, [x1, #24]; mov x16, x1; br x16: with landing pads (-mbranch-protection)
  const Arm64Source moved = SourceOfArm64Branch(Arm64({0x90000081, 0xf9400c21, 0xaa0103f0, 0xd61f0200}), 0x1010);
  EXPECT_EQ(moved.slot, 0x11018u);
  EXPECT_TRUE(moved.by_pointer);
  // mov x16, x1; br x16
  EXPECT_FALSE(SourceOfArm64Branch(Arm64({0xaa0103f0, 0xd61f0200}), 0x1008).by_pointer);
  // ldrb w0, [x1, w0, uxtw]; adr x1, .+12; add x0, x1, w0, sxtb #2; br x0
  const Arm64Source table = SourceOfArm64Branch(Arm64({0x38604820, 0x10000061, 0x8b208820, 0xd61f0000}), 0x1010);
  EXPECT_FALSE(table.by_pointer);
  // adrp x16, 0x11000; bl …; ldr x17, [x16, #24]; br x17: a call changes x16
  const Arm64Source other = SourceOfArm64Branch(Arm64({0x90000090, 0x94000060, 0xf9400e11, 0xd61f0220}), 0x1010);
  EXPECT_EQ(other.slot, 0u);
}

TEST(Instructions, LeadWhereTheySay) {
  const auto decode = [](const char* hex) { return DecodeInstruction(Bytes(hex), 0x1000); };
  EXPECT_EQ(decode("e8 10 00 00 00").flow, MachineInstruction::kCall);
  EXPECT_EQ(decode("e8 10 00 00 00").target, 0x1015u);
  EXPECT_EQ(decode("67 e8 fb ff ff ff").target, 0x1001u);
  EXPECT_EQ(decode("e9 fb ff ff ff").flow, MachineInstruction::kJump);
  EXPECT_EQ(decode("e9 fb ff ff ff").target, 0x1000u);
  EXPECT_EQ(decode("eb fe").target, 0x1000u);
  EXPECT_EQ(decode("74 02").flow, MachineInstruction::kBranch);
  EXPECT_EQ(decode("0f 85 00 01 00 00").target, 0x1106u);
  EXPECT_EQ(decode("ff 15 10 00 00 00").flow, MachineInstruction::kCallSlot);
  EXPECT_EQ(decode("ff 15 10 00 00 00").target, 0x1016u);
  EXPECT_EQ(decode("f2 ff 25 10 00 00 00").flow, MachineInstruction::kJumpSlot);
  EXPECT_EQ(decode("ff d0").flow, MachineInstruction::kCallAnywhere);
  EXPECT_EQ(decode("3e ff e0").flow, MachineInstruction::kJumpAnywhere);
  EXPECT_FALSE(decode("3e ff e0").by_pointer);
  EXPECT_TRUE(decode("ff 60 10").by_pointer);                  // jmp *0x10(%rax): a virtual function
  EXPECT_TRUE(decode("41 ff 24 24").by_pointer);               // jmp *(%r12)
  EXPECT_FALSE(decode("ff 24 c5 00 00 00 00").by_pointer);     // jmp *table(,%rax,8): a switch
  EXPECT_FALSE(decode("42 ff 24 e5 00 00 00 00").by_pointer);  // jmp *table(,%r12,8)
  EXPECT_TRUE(decode("ff 25 10 00 00 00").by_pointer);         // jmp *0x10(%rip): a pointer, if no slot of the GOT
  EXPECT_TRUE(decode("ff 24 25 00 10 00 00").by_pointer);      // jmp *0x1000
}

TEST(Instructions, ACallIsKnownFromBehind) {
  const auto before = [](const char* hex) { return CallBefore(Bytes(hex), 0x2000); };
  EXPECT_EQ(before("90 90 90 e8 00 01 00 00").target, 0x2100u);
  EXPECT_EQ(before("90 90 ff 15 00 01 00 00").flow, MachineInstruction::kCallSlot);
  EXPECT_EQ(before("90 90 90 90 90 90 ff d0").flow, MachineInstruction::kCallAnywhere);
  EXPECT_EQ(before("90 90 90 90 90 41 ff d4").flow, MachineInstruction::kCallAnywhere);
  EXPECT_EQ(before("41 ff 94 24 00 01 00 00").flow, MachineInstruction::kCallAnywhere);
  EXPECT_EQ(before("90 90 90 90 90 90 90 90").length, 0);
  EXPECT_EQ(before("").length, 0);
}

// What a sample's leaf may call is what the library wraps: one list, held to the other.
TEST(TailCallEnds, AreWhatTheLibraryWraps) {
  const std::set<std::string> neither = {"free",
                                         "cfree",
                                         "free_sized",
                                         "free_aligned_sized",
                                         "malloc_usable_size",
                                         "pthread_create",
                                         "thrd_create",
                                         "pthread_setname_np",
                                         "pthread_cancel",
                                         "sigaction",
                                         "sigaltstack",
                                         "pthread_exit",
                                         "thrd_exit",
                                         "dlclose",
                                         "prctl",
                                         "unshare",
                                         "setns",
                                         "_Fork",
                                         "setuid",
                                         "seteuid",
                                         "setreuid",
                                         "setresuid",
                                         "chroot",
                                         "timer_create",
                                         "exit",
                                         "quick_exit",
                                         "__cxa_thread_atexit_impl",
                                         "__libc_free",
                                         "__libc_realloc",
                                         "_exit",
                                         "_Exit",
                                         "mmap",
                                         "mmap64",
                                         "munmap",
                                         "mremap",
                                         "brk",
                                         "sbrk",
                                         "shmat",
                                         "shmdt",
                                         "longjmp",
                                         "_longjmp",
                                         "siglongjmp",
                                         "__longjmp_chk"};
  size_t names = 0;
  for (const char* file : {"/interpose/base/wrapped.inc", "/interpose/heap/operators.inc"}) {
    std::ifstream list(std::string(HOLDFAST_SOURCES) + file);
    static const std::regex entry("^HOLDFAST_(?:WRAP|WRAP_VERSION|NEW|PLAIN_NEW)\\((?:[^,]*, )?(\\w+),.*$");
    for (std::string line; std::getline(list, line);) {
      std::smatch match;
      if (!std::regex_match(line, match, entry) || neither.contains(match[1])) continue;
      EXPECT_NE(IsWrappedWait(match[1].str()), IsWrappedAllocation(match[1].str())) << line;
      ++names;
    }
  }
  EXPECT_GT(names, 50u);
  EXPECT_FALSE(IsWrappedAllocation("g_malloc"));
  EXPECT_FALSE(IsWrappedWait("my_lock"));
}

}  // namespace
}  // namespace holdfast
