#include "report/run/linker_locks.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/table/snapshot.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

// glibc's pthread_mutex_t on x86-64.
struct Mutex {
  uint32_t lock, count, owner, users;
  int32_t kind;
  uint32_t spins;
  uint64_t list[2];
};
#if defined(__x86_64__)
static_assert(sizeof(Mutex) == sizeof(pthread_mutex_t));
#endif

bool IsRecursive(const Mutex& mutex) {
  constexpr uint32_t kLockedAndAwaited = 2;
  return mutex.kind == PTHREAD_MUTEX_RECURSIVE && mutex.lock <= kLockedAndAwaited && mutex.users <= 1 &&
         mutex.spins == 0 && mutex.list[0] == 0 && mutex.list[1] == 0;
}

}  // namespace

std::array<uint64_t, 2> LinkerLocks(pid_t pid, const ModuleInfo& linker) {
  constexpr uint64_t kMaxBytes = 64 << 10, kMaxNamespaces = 16;
  const absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid);
  if (!mappings.ok()) return {};
  const ProcessMemory memory(pid);
  std::array<uint64_t, 2> found{};
  for (const MemoryMapping& mapping : *mappings) {
    if (!mapping.writable || mapping.start < linker.start || mapping.start >= linker.end) continue;
    std::string bytes(std::min(mapping.end - mapping.start, kMaxBytes), '\0');
    if (!memory.Read(mapping.start, bytes.data(), bytes.size())) continue;
    struct {
      uint64_t namespaces;
      std::array<Mutex, 3> mutexes;
    } here;
    for (size_t at = 0; at + sizeof here <= bytes.size(); at += sizeof here.namespaces) {
      memcpy(&here, bytes.data() + at, sizeof here);
      if (here.namespaces == 0 || here.namespaces > kMaxNamespaces ||
          !std::all_of(here.mutexes.begin(), here.mutexes.end(), IsRecursive))
        continue;
      if (found[0] != 0) return {};  // another glibc
      found[0] = mapping.start + at + offsetof(decltype(here), mutexes);
      found[1] = found[0] + sizeof(Mutex);
    }
  }
  return found;
}

}  // namespace holdfast
