#include "sampler/contract/loaded_objects.h"

#include <elf.h>
#include <sys/auxv.h>

#include "sampler/arch/processor.h"

// glibc's, in the dynamic linker.
#pragma weak _r_debug
extern "C" {
extern void* __libc_stack_end __attribute__((weak));
extern char** environ __attribute__((weak));
// musl's, in its libc, which is the dynamic linker.
extern r_debug* _dl_debug_addr __attribute__((weak));
}

namespace holdfast {
namespace {

// The environment follows argc, argv… and a null. libc has not moved it before the program's first instruction.
uintptr_t StackBelow(char** environment) {
  constexpr intptr_t kMaxArguments = 1 << 24;
  auto* word = reinterpret_cast<intptr_t*>(environment) - 2;  // the last argument
  for (intptr_t passed = 0; passed < kMaxArguments; ++passed, --word) {
    if (*word == passed) return reinterpret_cast<uintptr_t>(word);
  }
  return 0;
}

}  // namespace

constinit uintptr_t initial_stack = 0;

const void* AddressInMusl() { return &_dl_debug_addr; }

const link_map* FirstObject() {
  if (&_r_debug != nullptr) return _r_debug.r_map;
  return IsMusl() ? _dl_debug_addr->r_map : nullptr;
}

const link_map* LinkerObject() {
  uintptr_t base = getauxval(AT_BASE);
  // The kernel started musl's linker as a program: its own headers are in its first page.
  if (base == 0 && IsMusl()) base = getauxval(AT_PHDR) & ~(kPageBytes - 1);
  const link_map* object = base != 0 ? FirstObject() : nullptr;
  while (object != nullptr && object->l_addr != base) object = object->l_next;
  return object;
}

const link_map* NextInSearch(const link_map* object) {
  if (IsMusl()) return object->l_next;
  const uintptr_t linker = getauxval(AT_BASE);
  const auto is_linker = [linker](const link_map* one) { return linker != 0 && one->l_addr == linker; };
  if (is_linker(object)) return nullptr;
  const link_map* next = object->l_next;
  if (next != nullptr && is_linker(next)) next = next->l_next;
  return next != nullptr ? next : LinkerObject();
}

void NoteInitialStack() {
  if (initial_stack != 0) return;
  if (&__libc_stack_end != nullptr) {
    initial_stack = reinterpret_cast<uintptr_t>(__libc_stack_end);
  } else if (&environ != nullptr && environ != nullptr) {
    initial_stack = StackBelow(environ);
  }
}

// For programs that link this file without the library's start.
__attribute__((constructor)) static void NoteAtStart() { NoteInitialStack(); }

}  // namespace holdfast
