// operator new and delete without malloc, for tests/bench/cpu_shares.py: with malloc, each profiler would measure its own wrapper
// of it, too.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

constexpr size_t kHeader = 16, kClasses = 64, kChunk = 1 << 20;
struct Lists {
  void* free[kClasses];
  char *at, *end;
};
thread_local Lists lists;

}  // namespace

__attribute__((noinline)) void* operator new(size_t bytes) {
  const size_t which = (bytes + 15) / 16, whole = kHeader + 16 * which;
  void* block = which < kClasses ? lists.free[which] : std::malloc(whole);
  if (which < kClasses && block != nullptr) {
    lists.free[which] = *reinterpret_cast<void**>(static_cast<char*>(block) + kHeader);
  } else if (which < kClasses) {
    if (lists.end - lists.at < static_cast<ptrdiff_t>(whole)) {
      lists.at = static_cast<char*>(std::malloc(kChunk));
      lists.end = lists.at + kChunk;
    }
    block = lists.at;
    lists.at += whole;
  }
  *static_cast<size_t*>(block) = which;
  return static_cast<char*>(block) + kHeader;
}

__attribute__((noinline)) void operator delete(void* given) noexcept {
  if (given == nullptr) return;
  char* block = static_cast<char*>(given) - kHeader;
  const size_t which = *reinterpret_cast<size_t*>(block);
  if (which >= kClasses) return std::free(block);
  *static_cast<void**>(given) = lists.free[which];
  lists.free[which] = block;
}
void operator delete(void* given, size_t) noexcept { operator delete(given); }
