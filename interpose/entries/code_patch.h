// Changes code in memory, in three ways. Each works where others are forbidden (PR_SET_MDWE, systemd's
// MemoryDenyWriteExecute): through /proc/self/mem, which keeps the mapping; by a memfd that replaces the page; by
// mprotect.
//
// One thread, which does not run the code that is changed.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_CODE_PATCH_H_
#define HOLDFAST_INTERPOSE_ENTRIES_CODE_PATCH_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

// Reserves `bytes` from which [low, high) can be reached by a near jump, and the other way round. 0: none are free.
uintptr_t ReserveNear(uintptr_t low, uintptr_t high, size_t bytes);
void ReleaseNear(uintptr_t address, size_t bytes);

class CodePatches {
 public:
  static constexpr int kMax = 1024;
  struct Changed {
    uintptr_t address;
    uint8_t count, was[8];
  };

  // `room` is for kMax of them: 24 KiB, too much for the stack of a program that has little.
  explicit CodePatches(Changed* room) : changed_(room) {}
  CodePatches(const CodePatches&) = delete;
  CodePatches& operator=(const CodePatches&) = delete;
  ~CodePatches();

  // Fills reserved memory, and makes it executable.
  bool WriteNew(uintptr_t address, const uint8_t* bytes, size_t count);
  // Remembers at most 8 bytes, which are going to change.
  bool Remember(uintptr_t address, size_t count);
  // Writes remembered bytes, and what is between them. False: use WriteRemembered for each.
  bool WriteTogether(uintptr_t address, const void* bytes, size_t count) { return ByMemoryFile(address, bytes, count); }
  bool WriteRemembered(uintptr_t address, const void* bytes, size_t count) { return WriteBytes(address, bytes, count); }
  // Restores everything that has changed. False: something remains changed.
  bool Undo();

 private:
  bool WriteBytes(uintptr_t address, const void* bytes, size_t count);
  bool ByMemoryFile(uintptr_t address, const void* bytes, size_t count);
  static bool ByProtection(uintptr_t address, const void* bytes, size_t count);
  static bool ByMapping(uintptr_t address, const void* bytes, size_t count);

  Changed* const changed_;
  int count_ = 0;
  long memory_file_ = -1;
  bool is_open_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_CODE_PATCH_H_
