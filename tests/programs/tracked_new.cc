// An executable with a malloc and with operators new of its own that keep account: each block has a header before it.
//
//     tracked_new [ROUNDS]     1,000 rounds, or as many
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "known.h"

// ---- The allocator: blocks of 1,024 bytes, the one freed last is given out first ----
namespace {
constexpr size_t kBlock = 1024, kHead = 16;
alignas(16) char room[8 << 20];
size_t used;
void* freed;
size_t accounted;  // bytes in use by operators
}  // namespace

extern "C" {
KNOWN void* malloc(size_t bytes) {
  const size_t whole = (bytes + kHead + kBlock - 1) / kBlock * kBlock;
  if (whole == kBlock && freed != nullptr) {
    void* block = freed;
    memcpy(&freed, block, sizeof freed);
    return block;
  }
  if (bytes > sizeof room || used + whole > sizeof room) return nullptr;
  used += whole;
  return room + used - whole + kHead;
}
KNOWN void free(void* block) {
  if (block == nullptr) return;
  memcpy(block, &freed, sizeof freed);
  freed = block;
}
KNOWN void* calloc(size_t count, size_t each) {
  void* block = malloc(count * each);
  return block != nullptr ? memset(block, 0, count * each) : nullptr;
}
KNOWN void* realloc(void* old, size_t bytes) {
  if (old == nullptr) return malloc(bytes);
  return bytes <= kBlock - kHead ? old : nullptr;
}

// ---- The account ----
KNOWN void* tracked_alloc(size_t bytes, size_t header) {
  char* block = static_cast<char*>(malloc(bytes + header));
  if (block == nullptr) abort();
  memcpy(block + header - sizeof bytes, &bytes, sizeof bytes);
  accounted += bytes;
  return block + header;
}
KNOWN void tracked_free(void* after, size_t header) {
  if (after == nullptr) return;
  char* block = static_cast<char*>(after) - header;
  size_t bytes;
  memcpy(&bytes, block + header - sizeof bytes, sizeof bytes);
  accounted -= bytes;
  free(block);
}
}  // extern "C"

// Each takes its block by another way: through two functions, through malloc itself, and with room for its alignment.
void* operator new(size_t bytes) { return tracked_alloc(bytes, 16); }
void operator delete(void* block) noexcept { tracked_free(block, 16); }
void operator delete(void* block, size_t) noexcept { tracked_free(block, 16); }
void* operator new(size_t bytes, std::align_val_t) { return tracked_alloc(bytes, 64); }
void operator delete(void* block, std::align_val_t) noexcept { tracked_free(block, 64); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { tracked_free(block, 64); }
void* operator new[](size_t bytes) {
  char* block = static_cast<char*>(malloc(bytes + 32));
  accounted += bytes;
  Use(block);
  return block + 32;
}
void operator delete[](void* block) noexcept {
  Use(block);
  free(static_cast<char*>(block) - 32);
}

extern "C" KNOWN void* array_new(size_t bytes) {
  void* block = ::operator new[](bytes);
  Use(block);
  return block;
}

int main(int count, char** arguments) {
  const size_t rounds = count > 1 ? static_cast<size_t>(atol(arguments[1])) : 1000;
  static void* kept[500];
  for (size_t i = 0; i < rounds; ++i) {
    void* block = ::operator new(300);
    memset(block, 1, 300);
    if (i < 500)
      kept[i] = block;
    else
      ::operator delete(block);
    ::operator delete(::operator new(200, std::align_val_t(64)), std::align_val_t(64));
    ::operator delete[](array_new(100));
  }
  Use(kept);
  const size_t live = rounds < 500 ? rounds : 500;
  Expect("tracked_alloc", 2 * rounds, rounds * (316 + 264), live, live * 316);
  Expect("array_new", rounds, rounds * 100, 0, 0);
  return 0;
}
