// mmap, munmap, mremap, brk, sbrk, shmat and shmdt; and the same through libc's variadic `syscall`, which comes here if
// the number is one of theirs (interpose/process/process_hooks.cc). libc's own calls, of malloc and for threads'
// stacks, bypass the PLT: the exporter finds their mappings from outside (report/observe/memory/libc_mappings.h).
//
// Each of these functions is entered once per system call of the program. The real function runs first, and its effect
// is recorded before the program learns of it.
#include <errno.h>
#include <stdarg.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/arch/entry_points.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/maps/allocator_code.h"
#include "sampler/contract/syscalls.h"
#include "sampler/record/maps.h"

namespace holdfast {
namespace {

uintptr_t AddressOf(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
void* PointerTo(long address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

// As the kernel rounds: to whole pages, of the size that the flags name (2 MiB if they name none).
size_t Rounded(size_t bytes, int flags) {
  size_t page = PageBytes();
  if (UNLIKELY((flags & MAP_HUGETLB) != 0)) {
    const int shift = flags >> MAP_HUGE_SHIFT & MAP_HUGE_MASK;
    page = size_t{1} << (shift != 0 ? shift : 21);
  }
  return (bytes + page - 1) & ~(page - 1);
}

MappingKind KindOf(const CallerRegisters& caller, int flags) {
  if (allocator_code.Holds(caller.pc)) return MappingKind::kArena;
  if ((flags & MAP_ANONYMOUS) == 0) return MappingKind::kFile;
  return (flags & MAP_STACK) != 0 ? MappingKind::kStack : MappingKind::kAnonymous;
}

void NoteMapped(const CallerRegisters& caller, const void* block, size_t bytes, int flags) {
  if (block != MAP_FAILED) RecordMapped(caller, AddressOf(block), Rounded(bytes, flags), KindOf(caller, flags));
}

void NoteMoved(const CallerRegisters& caller, const void* old, size_t old_bytes, size_t bytes, int flags,
               const void* moved, uint64_t ticket) {
  if (moved == MAP_FAILED) return;
  // 0 bytes: a second mapping of shared memory.
  const bool stays = old_bytes == 0 || (flags & MREMAP_DONTUNMAP) != 0;
  RecordMoved(caller, {AddressOf(old), Rounded(old_bytes, 0), stays, AddressOf(moved), Rounded(bytes, 0)}, ticket);
}

// Records that the end of the heap has moved.
void NoteBreak(const CallerRegisters& caller, uintptr_t was, uintptr_t is, uint64_t ticket) {
  const MappingKind kind = allocator_code.Holds(caller.pc) ? MappingKind::kArena : MappingKind::kBrk;
  if (is > was) RecordMapped(caller, was, is - was, kind);
  if (is < was) RecordUnmapped(is, was - is, ticket);
}

void NoteAttached(const CallerRegisters& caller, int id, const void* block) {
  if (block == MAP_FAILED) return;
  shmid_ds about;
  if (no_system_calls.load(std::memory_order_relaxed) || SyscallFailed(RawSyscall(SYS_shmctl, id, IPC_STAT, &about)))
    return CountUnknownMapping();
  RecordMapped(caller, AddressOf(block), Rounded(about.shm_segsz, 0), MappingKind::kShm);
}

// Before the shim is ready: an allocator that starts up maps memory.
long Early(long number, long a, long b, long c, long d, long e, long f) {
  return HoldfastEarlySyscall(number, a, b, c, d, e, f);
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT void* mmap(void* hint, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (UNLIKELY(!Ready()))
    return PointerTo(
        Early(SYS_mmap, reinterpret_cast<long>(hint), static_cast<long>(bytes), protection, flags, file, offset));
  void* const block = real.mmap(hint, bytes, protection, flags, file, offset);
  if (RecordsMappings()) NoteMapped(HOLDFAST_CALLER(), block, bytes, flags);
  return block;
}

HOLDFAST_EXPORT void* mmap64(void* hint, size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  if (UNLIKELY(!Ready()))
    return PointerTo(
        Early(SYS_mmap, reinterpret_cast<long>(hint), static_cast<long>(bytes), protection, flags, file, offset));
  void* const block = real.mmap64(hint, bytes, protection, flags, file, offset);
  if (RecordsMappings()) NoteMapped(HOLDFAST_CALLER(), block, bytes, flags);
  return block;
}

HOLDFAST_EXPORT int munmap(void* start, size_t bytes) noexcept {
  if (UNLIKELY(!Ready()))
    return static_cast<int>(Early(SYS_munmap, reinterpret_cast<long>(start), static_cast<long>(bytes), 0, 0, 0, 0));
  if (!RecordsMappings()) return real.munmap(start, bytes);
  const uint64_t ticket = TakeMappingTicket();
  const int result = real.munmap(start, bytes);
  if (result == 0) RecordUnmapped(AddressOf(start), Rounded(bytes, 0), ticket);
  return result;
}

// The fifth argument exists with MREMAP_FIXED and MREMAP_DONTUNMAP; the calling convention allows reading it in any
// case.
HOLDFAST_EXPORT void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  va_list list;
  va_start(list, flags);
  void* const target = va_arg(list, void*);
  va_end(list);
  if (UNLIKELY(!Ready()))
    return PointerTo(Early(SYS_mremap, reinterpret_cast<long>(old), static_cast<long>(old_bytes),
                           static_cast<long>(bytes), flags, reinterpret_cast<long>(target), 0));
  if (!RecordsMappings()) return real.mremap(old, old_bytes, bytes, flags, target);
  const uint64_t ticket = TakeMappingTicket();
  void* const moved = real.mremap(old, old_bytes, bytes, flags, target);
  NoteMoved(HOLDFAST_CALLER(), old, old_bytes, bytes, flags, moved, ticket);
  return moved;
}

// Before the shim is ready libc must not be bypassed: it remembers the end itself.
HOLDFAST_EXPORT int brk(void* end) noexcept {
  if (UNLIKELY(!Ready())) {
    errno = ENOMEM;
    return -1;
  }
  if (!RecordsMappings()) return real.brk(end);
  const uint64_t ticket = TakeMappingTicket();
  const uintptr_t was = AddressOf(real.sbrk(0));
  const int result = real.brk(end);
  // Reads the real end: an end below the start of the heap is refused, and libc returns 0.
  if (result == 0) NoteBreak(HOLDFAST_CALLER(), was, AddressOf(real.sbrk(0)), ticket);
  return result;
}

HOLDFAST_EXPORT void* sbrk(intptr_t bytes) noexcept {
  if (UNLIKELY(!Ready())) {
    errno = ENOMEM;
    return PointerTo(-1);
  }
  if (bytes == 0 || !RecordsMappings()) return real.sbrk(bytes);
  const uint64_t ticket = TakeMappingTicket();
  void* const was = real.sbrk(bytes);
  if (was == PointerTo(-1)) return was;
  // An end below the start of the heap is refused, as in brk. For growth, libc's result is more reliable: another
  // thread may grow it, too.
  const uintptr_t is = bytes > 0 ? AddressOf(was) + static_cast<uintptr_t>(bytes) : AddressOf(real.sbrk(0));
  NoteBreak(HOLDFAST_CALLER(), AddressOf(was), is, ticket);
  return was;
}

HOLDFAST_EXPORT void* shmat(int id, const void* hint, int flags) noexcept {
  if (UNLIKELY(!Ready())) return PointerTo(Early(SYS_shmat, id, reinterpret_cast<long>(hint), flags, 0, 0, 0));
  void* const block = real.shmat(id, hint, flags);
  if (RecordsMappings()) NoteAttached(HOLDFAST_CALLER(), id, block);
  return block;
}

HOLDFAST_EXPORT int shmdt(const void* start) noexcept {
  if (UNLIKELY(!Ready())) return static_cast<int>(Early(SYS_shmdt, reinterpret_cast<long>(start), 0, 0, 0, 0, 0));
  const uint64_t ticket = TakeMappingTicket();
  const int result = real.shmdt(start);
  if (result == 0 && RecordsMappings()) RecordDetached(AddressOf(start), ticket);
  return result;
}

// One of these, through `syscall`.
HOLDFAST_HIDDEN long HoldfastMappingCall(long number, long a, long b, long c, long d, long e, long f) {
  const CallerRegisters caller = HOLDFAST_CALLER();
  const uint64_t ticket = TakeMappingTicket();
  // The kernel returns the end, even if it has not changed.
  const long was = number == SYS_brk ? real.syscall(SYS_brk, 0) : 0;
  const long result = real.syscall(number, a, b, c, d, e, f);
  if (result == -1) return result;
  switch (number) {
    case SYS_mmap:
      NoteMapped(caller, PointerTo(result), static_cast<size_t>(b), static_cast<int>(d));
      break;
    case SYS_munmap:
      RecordUnmapped(static_cast<uintptr_t>(a), Rounded(static_cast<size_t>(b), 0), ticket);
      break;
    case SYS_mremap:
      NoteMoved(caller, PointerTo(a), static_cast<size_t>(b), static_cast<size_t>(c), static_cast<int>(d),
                PointerTo(result), ticket);
      break;
    case SYS_brk:
      NoteBreak(caller, static_cast<uintptr_t>(was), static_cast<uintptr_t>(result), ticket);
      break;
    case SYS_shmat:
      NoteAttached(caller, static_cast<int>(a), PointerTo(result));
      break;
    case SYS_shmdt:
      RecordDetached(static_cast<uintptr_t>(a), ticket);
      break;
    default:
      break;
  }
  return result;
}

}  // extern "C"
