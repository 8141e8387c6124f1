// When the memory of a module may be read: its link_map, its headers, its unwind tables, its code.
//
// Modules loaded with the program stay as long as the process (lasting_modules.h). Another thread may unmap a dlopened module at any
// moment, unless the program itself has a frame in it; and stale words on the stack may lead a walk without unwind
// tables there. So a walk registers as a reader, and a dlclose waits until there are none:
//
//     walk     ++readers; no dlclose in progress? ── read ── --readers        else: guesses end the walk
//     dlclose  ++unloading; wait until nobody reads ── the real dlclose ── --unloading
//
// During a dlclose, a walk continues through the program's own frames: their modules cannot go. Unloading by libc
// itself (a dlopen that fails, iconv) is not seen in advance: so pages of headers are probed as well.
//
// Any thread, signal handlers. A walk never waits for a dlclose; a dlclose waits some microseconds, at most about 100
// ms.
#ifndef HOLDFAST_SAMPLER_CAPTURE_MODULE_READING_H_
#define HOLDFAST_SAMPLER_CAPTURE_MODULE_READING_H_

#include <cstdint>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Call before a dlclose, and after all its consequences are handled; from any thread, balanced. In between nothing
// known about a module is trusted, because another module may be loaded at the addresses of one that went away.
void BeginUnload();
void EndUnload();

// No dlclose is in progress: what was read from a module may be kept.
bool ModulesStay();

// For a child of fork: no other thread reads or unloads.
void ForgetReaders();

// The right of one walk to read modules that may be unloaded. While it is held, no handler of the program runs in this
// thread: it might jump out, or unload something itself.
class ModuleReading {
 public:
  ModuleReading() = default;
  ~ModuleReading() {
    if (UNLIKELY(held_)) End();
  }
  ModuleReading(const ModuleReading&) = delete;
  ModuleReading& operator=(const ModuleReading&) = delete;

  bool held() const { return held_; }
  // False: a dlclose is in progress. Anything found in a module before this call may be gone after it.
  bool Begin();

 private:
  void End();

  uint64_t mask_ = 0;
  bool held_ = false;
  bool blocked_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_MODULE_READING_H_
