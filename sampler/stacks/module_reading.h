// When the memory of a module may be read: its link_map, its headers, its unwind tables, its code.
//
// What was loaded with the program stays as long as the process. What came by dlopen may be unmapped by another thread at
// any moment, unless the program itself has a frame in it; and a walk without unwind tables may be led there by words that
// were left on the stack. So a walk says that it reads, and a dlclose waits until none does:
//
//     walk     ++readers; no dlclose under way? ── read ── --readers        else: guesses end the walk
//     dlclose  ++unloading; wait until nobody reads ── the real dlclose ── --unloading
//
// While a dlclose is under way, a walk goes on by frames that are the program's own: those modules cannot go.
// What libc unloads by itself (a dlopen that fails, iconv) is not seen coming: pages of headers are probed all the same.
//
// Any thread, signal handlers. A walk never waits for a dlclose; a dlclose waits some microseconds, at most some 100 ms.
#ifndef HOLDFAST_SAMPLER_STACKS_MODULE_READING_H_
#define HOLDFAST_SAMPLER_STACKS_MODULE_READING_H_

#include <cstdint>

#include "sampler/contract/attributes.h"

struct link_map;

namespace holdfast {

// Called once, before the program can have loaded anything by itself.
void NoteLastingModules();
// Whether it was there then. False where that is not known, of any pointer.
bool IsLasting(const link_map* map);

// Before a dlclose, and when all is done that follows from it; from any thread, balanced. In between nothing is taken for what it
// was, as another module may come to lie where one went away.
void BeginUnload();
void EndUnload();

// No dlclose is under way: what was seen of a module may be kept.
bool ModulesStay();

// In a child of fork: nobody else reads, nobody unloads.
void ForgetReaders();

// The right of one walk to read modules that may be unloaded. As long as it is held no handler of the program's runs in this
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
  // False: a dlclose is under way. What was found in a module before this call may be gone after it.
  bool Begin();

 private:
  void End();

  uint64_t mask_ = 0;
  bool held_ = false;
  bool blocked_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_MODULE_READING_H_
