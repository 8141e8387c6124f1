// What the words of a lock say about who holds it, and which threads wait for each other.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "report/analysis/locks/calls_text.h"
#include "report/observe/outside/look_at_waits.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/lock_words.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Lock>
LockState StateOf(WaitKind kind, const Lock& lock) {
  char bytes[kLockBytes] = {};
  memcpy(bytes, &lock, sizeof lock);
  return StateOfLock(kind, bytes);
}

uint32_t OwnId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

TEST(LookAtWaits, EveryKindOfMutexNamesItsOwner) {
  for (const int type :
       {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP}) {
    for (const int protocol : {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT}) {
      for (const int robust : {PTHREAD_MUTEX_STALLED, PTHREAD_MUTEX_ROBUST}) {
        pthread_mutexattr_t how;
        pthread_mutexattr_init(&how);
        pthread_mutexattr_settype(&how, type);
        pthread_mutexattr_setprotocol(&how, protocol);
        pthread_mutexattr_setrobust(&how, robust);
        pthread_mutex_t mutex;
        pthread_mutex_init(&mutex, &how);
        EXPECT_EQ(StateOf(WaitKind::kMutex, mutex).owner, 0u);
        pthread_mutex_lock(&mutex);
        EXPECT_EQ(StateOf(WaitKind::kMutex, mutex).owner, OwnId()) << type << protocol << robust;
        EXPECT_FALSE(StateOf(WaitKind::kMutex, mutex).owner_died);
        pthread_mutex_unlock(&mutex);
        EXPECT_EQ(StateOf(WaitKind::kMutex, mutex).owner, 0u);
      }
    }
  }
}

TEST(LookAtWaits, ARobustMutexSaysThatItsOwnerDiedUntilItIsMadeConsistent) {
  pthread_mutexattr_t how;
  pthread_mutexattr_init(&how);
  pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &how);
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* lock) -> void* {
        pthread_mutex_lock(static_cast<pthread_mutex_t*>(lock));
        return nullptr;
      },
      &mutex);
  pthread_join(thread, nullptr);
  EXPECT_TRUE(StateOf(WaitKind::kMutex, mutex).owner_died);
  ASSERT_EQ(pthread_mutex_lock(&mutex), EOWNERDEAD);
  EXPECT_EQ(StateOf(WaitKind::kMutex, mutex).owner, OwnId());
  EXPECT_TRUE(StateOf(WaitKind::kMutex, mutex).owner_died);
  pthread_mutex_consistent(&mutex);
  EXPECT_FALSE(StateOf(WaitKind::kMutex, mutex).owner_died);
  pthread_mutex_unlock(&mutex);
}

TEST(LookAtWaits, AReaderWriterLockNamesItsWriterAndCountsItsReaders) {
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  pthread_rwlock_wrlock(&lock);
  EXPECT_EQ(StateOf(WaitKind::kRwlockRead, lock).owner, OwnId());
  EXPECT_EQ(StateOf(WaitKind::kRwlockWrite, lock).readers, 0u);
  pthread_rwlock_unlock(&lock);
  pthread_rwlock_rdlock(&lock);
  pthread_rwlock_rdlock(&lock);
  EXPECT_EQ(StateOf(WaitKind::kRwlockWrite, lock).owner, 0u);
  EXPECT_EQ(StateOf(WaitKind::kRwlockWrite, lock).readers, 2u);
  pthread_rwlock_unlock(&lock);
  pthread_rwlock_unlock(&lock);
}

// A thread was suspended between its two stores: the lock is not free.
TEST(LookAtWaits, LocksWithAnOwnerThatIsNotYetWrittenAreHeld) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  mutex.__data.__lock = 2;
  EXPECT_TRUE(StateOf(WaitKind::kMutex, mutex).is_held_by_unknown);
  pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
  lock.__data.__readers = 3 | 2 << 3;  // a writer holds it, and two readers wait
  EXPECT_TRUE(StateOf(WaitKind::kRwlockRead, lock).is_held_by_unknown);
  EXPECT_EQ(StateOf(WaitKind::kRwlockRead, lock).readers, 0u);
}

// Such a mutex has its ceiling in the lock word, also while it is free.
TEST(LookAtWaits, AFreeMutexThatProtectsPrioritiesIsNotHeld) {
  constexpr int kProtects = 0x40, kCeiling = 5 << 19;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  mutex.__data.__kind = kProtects;
  mutex.__data.__lock = kCeiling;
  EXPECT_FALSE(StateOf(WaitKind::kMutex, mutex).is_held_by_unknown);
  mutex.__data.__lock = kCeiling | 1;
  EXPECT_TRUE(StateOf(WaitKind::kMutex, mutex).is_held_by_unknown);
}

// musl does not write down who holds these, so a held lock without an owner is not free.
TEST(LookAtWaits, MuslLocksThatNameNobodyAreHeldAllTheSame) {
  const auto is_held = [](WaitKind kind, const auto& lock) {
    char bytes[kLockBytes] = {};
    memcpy(bytes, &lock, sizeof lock);
    return StateOfLock(kind, bytes, /*is_musl=*/true).is_held_by_unknown;
  };
  MuslRwlock readers_and_writer = {};
  EXPECT_FALSE(is_held(WaitKind::kRwlockRead, readers_and_writer));
  readers_and_writer.lock = MuslRwlock::kCount;
  EXPECT_TRUE(is_held(WaitKind::kRwlockRead, readers_and_writer));
  MuslMutex mutex = {};
  EXPECT_FALSE(is_held(WaitKind::kMutex, mutex));
  mutex.lock = EBUSY | MuslMutex::kWaiters;
  EXPECT_TRUE(is_held(WaitKind::kMutex, mutex));
}

TEST(LookAtWaits, MissingPermissionsAreExplained) {
  using ::testing::EndsWith;
  using ::testing::HasSubstr;
  const std::string as_root = "as root: holdfast stuck 4242";
  EXPECT_THAT(WhyUnreadable({}, 4242, "stuck"), EndsWith("another user's; " + as_root));
  // mariadbd --user=mysql: the exporter is that user, too, and may not look all the same.
  EXPECT_THAT(WhyUnreadable({.is_same_user = true}, 4242, "stuck"),
              EndsWith("changed its user after it was started, or forbids others to look into it; " + as_root));
  EXPECT_THAT(WhyUnreadable({.is_same_user = true, .yama_scope = 1}, 4242, "stuck"),
              EndsWith(as_root + ", or sysctl -w kernel.yama.ptrace_scope=0"));
  EXPECT_THAT(WhyUnreadable({.is_root = true}, 4242, "stuck"), HasSubstr("--cap-add SYS_PTRACE"));
  EXPECT_THAT(WhyUnreadable({.is_root = true, .may_trace_all = true}, 4242, "stuck"), HasSubstr("security module"));
  EXPECT_THAT(WhyUnreadable({.is_root = true, .may_trace_all = true, .yama_scope = 3}, 4242, "stuck"),
              HasSubstr("next boot"));
  EXPECT_THAT(WhyUnreadable({}, 4242, "holders"), EndsWith("as root: holdfast holders 4242"));
}

TEST(LookAtWaits, EachCircleIsFoundOnceAndTailsAreNoPartOfIt) {
  const uint32_t none = kNoIndex;
  EXPECT_THAT(CirclesOf({none, 0, 1}), IsEmpty());
  EXPECT_THAT(CirclesOf({0}), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(CirclesOf({1, 0}), ElementsAre(ElementsAre(0, 1)));
  // 0 and 4 wait for members of the circle 1, 2, 3; 5 and 6 for each other.
  EXPECT_THAT(CirclesOf({2, 2, 3, 1, 0, 6, 5}), ElementsAre(ElementsAre(2, 3, 1), ElementsAre(5, 6)));
}

}  // namespace
}  // namespace holdfast
