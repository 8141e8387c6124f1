// Machine code as a JIT compiler writes it: calls its first argument with its second, and keeps a frame pointer.
//
//     using Compiled = void (*)(void (*)(void*), void*);
//     WriteCompiledCall(page);
#ifndef HOLDFAST_TESTS_UNIT_COMPILED_CALL_H_
#define HOLDFAST_TESTS_UNIT_COMPILED_CALL_H_

#include <cstdint>
#include <cstring>

namespace holdfast {

#if defined(__aarch64__)
// stp x29, x30, [sp, #-16]!; mov x29, sp; mov x8, x0; mov x0, x1; blr x8; ldp x29, x30, [sp], #16; ret
inline constexpr uint32_t kCompiledCall[] = {0xa9bf7bfd, 0x910003fd, 0xaa0003e8, 0xaa0103e0,
                                             0xd63f0100, 0xa8c17bfd, 0xd65f03c0};
inline constexpr uintptr_t kReturnOfCompiledCall = 20;  // where the called function returns to
#else
// push %rbp; mov %rsp,%rbp; mov %rdi,%rax; mov %rsi,%rdi; call *%rax; pop %rbp; ret
inline constexpr unsigned char kCompiledCall[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8,
                                                  0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
inline constexpr uintptr_t kReturnOfCompiledCall = 12;
#endif

inline void WriteCompiledCall(void* to) {
  std::memcpy(to, kCompiledCall, sizeof kCompiledCall);
  __builtin___clear_cache(static_cast<char*>(to), static_cast<char*>(to) + sizeof kCompiledCall);
}

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_COMPILED_CALL_H_
