#include "interpose/entries/code_patch.h"

#include <string.h>

#include "sampler/arch/processor.h"
#include "sampler/contract/syscalls.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace holdfast {
namespace {

constexpr uintptr_t kReach = uintptr_t{1} << 31;
constexpr uintptr_t kLowest = 64 << 10;  // vm.mmap_min_addr

// Without permissions: nothing may run there before it is filled.
bool ReserveAt(uintptr_t address, size_t bytes) {
  const long made =
      RawSyscall(SYS_mmap, address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (SyscallFailed(made)) return false;
  if (static_cast<uintptr_t>(made) == address) return true;
  RawSyscall(SYS_munmap, made, bytes);  // a kernel that takes the flag for a hint
  return false;
}

uintptr_t PageStart(uintptr_t address) { return address & ~(kPageBytes - 1); }

// A memfd with the bytes from `start` to `end` as they will be.
long FileWith(uintptr_t start, uintptr_t end, uintptr_t address, const void* bytes, size_t count) {
  const long file = RawSyscall(SYS_memfd_create, "holdfast-code", 1 /*MFD_CLOEXEC*/);
  if (SyscallFailed(file)) return -1;
  const bool whole = RawSyscall(SYS_write, file, start, end - start) == static_cast<long>(end - start);
  if (whole && RawSyscall(SYS_pwrite64, file, bytes, count, address - start) == static_cast<long>(count)) return file;
  RawSyscall(SYS_close, file);
  return -1;
}

}  // namespace

uintptr_t ReserveNear(uintptr_t low, uintptr_t high, size_t bytes) {
  // Below: above the executable its heap grows.
  for (uintptr_t gap = 1 << 20; gap < kReach / 2; gap *= 2) {
    const uintptr_t wanted = low > gap + bytes + kLowest ? (low - gap - bytes) & ~uintptr_t{0xffff} : 0;
    if (wanted == 0 || high - wanted >= kReach - kPageBytes) break;
    if (ReserveAt(wanted, bytes)) return wanted;
  }
  if (low > bytes + 2 * kLowest && high - kLowest < kReach - kPageBytes && ReserveAt(kLowest, bytes)) return kLowest;
  for (uintptr_t gap = kReach / 2; gap >= 64 << 20; gap /= 2) {
    const uintptr_t wanted = (high + gap) & ~uintptr_t{0xffff};
    if (wanted + bytes - low < kReach - kPageBytes && ReserveAt(wanted, bytes)) return wanted;
  }
  return 0;
}

void ReleaseNear(uintptr_t address, size_t bytes) { RawSyscall(SYS_munmap, address, bytes); }

CodePatches::~CodePatches() {
  if (memory_file_ >= 0) RawSyscall(SYS_close, memory_file_);
}

bool CodePatches::ByMemoryFile(uintptr_t address, const void* bytes, size_t count) {
  if (!is_open_) {
    is_open_ = true;
    const long opened = RawSyscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR | O_CLOEXEC);
    memory_file_ = SyscallFailed(opened) ? -1 : opened;
  }
  return memory_file_ >= 0 &&
         RawSyscall(SYS_pwrite64, memory_file_, bytes, count, address) == static_cast<long>(count) &&
         memcmp(reinterpret_cast<const void*>(address), bytes, count) == 0;
}

bool CodePatches::ByProtection(uintptr_t address, const void* bytes, size_t count) {
  const uintptr_t start = PageStart(address), end = PageStart(address + count + kPageBytes - 1);
  // Executable all the time: it is the program's code, and a page that has become writable may not be made executable again.
  if (SyscallFailed(RawSyscall(SYS_mprotect, start, end - start, PROT_READ | PROT_WRITE | PROT_EXEC))) return false;
  memcpy(reinterpret_cast<void*>(address), bytes, count);
  RawSyscall(SYS_mprotect, start, end - start, PROT_READ | PROT_EXEC);
  return true;
}

bool CodePatches::ByMapping(uintptr_t address, const void* bytes, size_t count) {
  const uintptr_t start = PageStart(address), end = PageStart(address + count + kPageBytes - 1);
  const long file = FileWith(start, end, address, bytes, count);
  if (file < 0) return false;
  const long made = RawSyscall(SYS_mmap, start, end - start, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0);
  RawSyscall(SYS_close, file);
  return static_cast<uintptr_t>(made) == start;
}

bool CodePatches::WriteBytes(uintptr_t address, const void* bytes, size_t count) {
  // The last way makes the code writable for a moment.
  return ByMemoryFile(address, bytes, count) || ByMapping(address, bytes, count) || ByProtection(address, bytes, count);
}

bool CodePatches::Remember(uintptr_t address, size_t count) {
  if (count_ == kMax || count > sizeof changed_[0].was) return false;
  Changed& changed = changed_[count_];
  changed.address = address;
  changed.count = static_cast<uint8_t>(count);
  memcpy(changed.was, reinterpret_cast<const void*>(address), count);
  ++count_;
  return true;
}

bool CodePatches::Undo() {
  bool undone = true;
  while (count_ > 0) {
    const Changed& changed = changed_[--count_];
    const auto* at = reinterpret_cast<const void*>(changed.address);
    if (memcmp(at, changed.was, changed.count) != 0)
      undone = WriteBytes(changed.address, changed.was, changed.count) && undone;
  }
  return undone;
}

bool CodePatches::WriteNew(uintptr_t address, const uint8_t* bytes, size_t count) {
  const size_t whole = (count + kPageBytes - 1) & ~(kPageBytes - 1);
  const auto map = [&](int permissions, int flags, long file) {
    return static_cast<uintptr_t>(
               RawSyscall(SYS_mmap, address, whole, permissions, MAP_PRIVATE | MAP_FIXED | flags, file, 0)) == address;
  };
  if (map(PROT_READ | PROT_EXEC, MAP_ANONYMOUS, -1) && ByMemoryFile(address, bytes, count)) return true;
  const long file = RawSyscall(SYS_memfd_create, "holdfast-code", 1 /*MFD_CLOEXEC*/);
  if (!SyscallFailed(file)) {
    const bool filled = RawSyscall(SYS_write, file, bytes, count) == static_cast<long>(count) &&
                        RawSyscall(SYS_ftruncate, file, whole) == 0 && map(PROT_READ | PROT_EXEC, 0, file);
    RawSyscall(SYS_close, file);
    if (filled && memcmp(reinterpret_cast<const void*>(address), bytes, count) == 0) return true;
  }
  if (!map(PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1)) return false;
  memcpy(reinterpret_cast<void*>(address), bytes, count);
  return !SyscallFailed(RawSyscall(SYS_mprotect, address, whole, PROT_READ | PROT_EXEC));
}

}  // namespace holdfast
