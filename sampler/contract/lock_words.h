// The words of musl's locks (1.1 to 1.2.5). glibc's have names in its own headers, which this code is compiled with.
//
// Not larger than glibc's types, and of the same alignment, so a pointer to one of those may be read as one of these. All are hints:
// the try functions decide.
//
// Any thread, signal handlers; also the tool, with a copy.
#ifndef HOLDFAST_SAMPLER_CONTRACT_LOCK_WORDS_H_
#define HOLDFAST_SAMPLER_CONTRACT_LOCK_WORDS_H_

#include <pthread.h>

#include <cstdint>

namespace holdfast {

struct MuslMutex {
  static constexpr uint32_t kKind = 3, kRobust = 4, kInherits = 8;       // of `type`
  static constexpr uint32_t kWaiters = 0x80000000, kOwner = 0x3fffffff;  // of `lock`
  static constexpr uint32_t kOwnerDied = 0x40000000, kNotRecoverable = kOwner;

  uint32_t type;
  uint32_t lock;     // 0: free. A normal mutex has EBUSY, all others the id of the owner
  uint32_t waiters;  // that sleep, or are about to
  uint32_t unused[2];
  uint32_t count;  // of further locks by the owner of a recursive mutex
  const void* previous;
  const void* next;

  bool IsNormal() const { return (type & (kKind | kRobust | kInherits)) == 0; }
  bool IsFree() const { return (__atomic_load_n(&lock, __ATOMIC_RELAXED) & ~kWaiters) == 0; }
  bool HasNoSleepers() const {
    return __atomic_load_n(&waiters, __ATOMIC_RELAXED) == 0 &&
           (__atomic_load_n(&lock, __ATOMIC_RELAXED) & kWaiters) == 0;
  }
  // 0: nobody, or unknown.
  uint32_t Owner() const {
    const uint32_t owner = __atomic_load_n(&lock, __ATOMIC_RELAXED) & kOwner;
    return IsNormal() || owner == kNotRecoverable ? 0 : owner;
  }
};
static_assert(sizeof(MuslMutex) <= sizeof(pthread_mutex_t) && alignof(MuslMutex) == alignof(pthread_mutex_t));

struct MuslRwlock {
  static constexpr uint32_t kCount = 0x7fffffff;  // of `lock`; all bits: a writer has it

  uint32_t lock;
  uint32_t unused[13];

  uint32_t Count() const { return __atomic_load_n(&lock, __ATOMIC_RELAXED) & kCount; }
  bool HasWriter() const { return Count() == kCount; }
  uint32_t Readers() const { return HasWriter() ? 0 : Count(); }
};
static_assert(sizeof(MuslRwlock) == sizeof(pthread_rwlock_t));

struct MuslCondition {
  const void* shared;  // null: of this process alone
  const void* first;   // of the threads that sleep, if not shared
};

struct MuslBarrier {
  uint32_t lock, waiters;
  uint32_t others;  // how many it needs besides the first; with the highest bit if shared by processes
  uint32_t unused[3];
  const uint32_t* round;  // how many came after the first; null: nobody has come
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_LOCK_WORDS_H_
