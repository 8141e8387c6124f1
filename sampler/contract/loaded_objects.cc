#include "sampler/contract/loaded_objects.h"

#include <elf.h>
#include <sys/auxv.h>

// glibc's, in the dynamic linker.
#pragma weak _r_debug
extern "C" {
extern void* __libc_stack_end __attribute__((weak));
extern char** environ __attribute__((weak));
}

namespace holdfast {
namespace {

// The linker writes the address of its list into DT_DEBUG of every dynamic executable.
const r_debug* DebugOfExecutable() {
  const auto* headers = reinterpret_cast<const Elf64_Phdr*>(getauxval(AT_PHDR));
  const uint64_t count = headers != nullptr ? getauxval(AT_PHNUM) : 0;
  uintptr_t bias = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (headers[i].p_type == PT_PHDR) bias = reinterpret_cast<uintptr_t>(headers) - headers[i].p_vaddr;
  }
  for (uint64_t i = 0; i < count; ++i) {
    if (headers[i].p_type != PT_DYNAMIC) continue;
    for (const auto* entry = reinterpret_cast<const Elf64_Dyn*>(bias + headers[i].p_vaddr); entry->d_tag != DT_NULL;
         ++entry) {
      if (entry->d_tag == DT_DEBUG) return reinterpret_cast<const r_debug*>(entry->d_un.d_ptr);
    }
  }
  return nullptr;
}

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

const link_map* FirstObject() {
  if (&_r_debug != nullptr) return _r_debug.r_map;
  static constinit const r_debug* published = nullptr;
  if (published == nullptr) published = DebugOfExecutable();
  return published != nullptr ? published->r_map : nullptr;
}

const link_map* LinkerObject() {
  const uintptr_t base = getauxval(AT_BASE);
  const link_map* object = base != 0 ? FirstObject() : nullptr;
  while (object != nullptr && object->l_addr != base) object = object->l_next;
  return object;
}

const link_map* NextInSearch(const link_map* object) {
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
