// Index entries and log lines from the program's own pool, which never returns memory. Requests a snapshot after each round,
// and waits until the snapshot is written.
//
//     pool_users slab|nameless|arena|direct ROUNDS
//
// slab: Slab::get maps 1 MiB at a time. nameless: the same with uninformative function names. arena: Arena::more gets 64 KiB
// at a time from malloc. direct: pool_piece maps memory for index_more, which leaves with a jump.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "include/holdfast.h"

#define NOINLINE __attribute__((noinline))
// No function, as an inlined one would have a frame of its own.
#define MAP(bytes) mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)

namespace {

NOINLINE size_t FilesOf(const char* kind) {
  DIR* folder = opendir(getenv("HOLDFAST_OUT"));
  size_t found = 0;
  while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder))
    found += entry->d_name[0] != '.' && strstr(entry->d_name, kind) != nullptr ? 1 : 0;
  if (folder != nullptr) closedir(folder);
  return found;
}

}  // namespace

struct Slab {
  char* at = nullptr;
  size_t left = 0;
  NOINLINE void* get(size_t bytes) {
    if (left < bytes) at = static_cast<char*>(MAP(left = 1 << 20));
    left -= bytes;
    return at += bytes;
  }
};
static Slab slab;
NOINLINE void* slab_alloc(size_t bytes) { return slab.get(bytes); }

static Slab other;
NOINLINE void* fresh(size_t bytes) {
  if (other.left < bytes) other.at = static_cast<char*>(MAP(other.left = 1 << 20));
  other.left -= bytes;
  return other.at += bytes;
}
NOINLINE void* hand_out(size_t bytes) {
  void* volatile part = fresh(bytes);
  return part;
}

struct Arena {
  char* at = nullptr;
  size_t left = 0;
  NOINLINE void more() { at = static_cast<char*>(malloc(left = 64 << 10)); }
  NOINLINE void* push(size_t bytes) {
    if (left < bytes) more();
    left -= bytes;
    return at += bytes;
  }
};
static Arena arena;

NOINLINE void* pool_piece() {
  void* volatile at = MAP(1 << 20);
  return at;
}
NOINLINE __attribute__((optimize("O2", "optimize-sibling-calls"))) void* index_more() {
  pool_piece();
  return pool_piece();
}

static void* (*take)(size_t);
#define TAKE(bytes) (take != nullptr ? take(bytes) : arena.push(bytes))
NOINLINE void index_document() {
  for (int i = 0; i < 8000; ++i) TAKE(256);
}
NOINLINE void log_event() {
  for (int i = 0; i < 6000; ++i) TAKE(64);
}

int main(int, char** arguments) {
  const char* way = arguments[1];
  const bool maps = strcmp(way, "arena") != 0;
  if (strcmp(way, "slab") == 0) take = slab_alloc;
  if (strcmp(way, "nameless") == 0) take = hand_out;
  for (int i = atoi(arguments[2]); i > 0; --i) {
    if (strcmp(way, "direct") == 0) {
      index_more();
    } else {
      index_document();
      log_event();
    }
    const size_t before = FilesOf(maps ? ".map.pb.gz" : ".heap.pb.gz");
    holdfast_snapshot();
    const timespec moment = {0, 10000000};
    for (int tries = 0; tries < 500 && FilesOf(maps ? ".map.pb.gz" : ".heap.pb.gz") == before; ++tries)
      nanosleep(&moment, nullptr);
  }
  _exit(0);
}
