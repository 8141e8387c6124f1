// Fragments the heap more and more: each round allocates blocks that are larger than all before, and shrinks each to a few bytes. The holes
// between them join nothing, and no later block fits into one. Lives for a second first, as younger processes have no account of
// memory, and asks for a snapshot after each round.
//
//     fragments ROUNDS
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "include/holdfast.h"

enum { kBytesOfRound = 3 << 20, kFew = 24, kFirst = 1200, kLarger = 160 };

static size_t files(void) {
  DIR* folder = opendir(getenv("HOLDFAST_OUT"));
  size_t found = 0;
  for (const struct dirent* entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;)
    found += entry->d_name[0] != '.' && strstr(entry->d_name, ".heap.pb.gz") != NULL ? 1 : 0;
  if (folder != NULL) closedir(folder);
  return found;
}

static void rest(long ms) {
  const struct timespec moment = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&moment, NULL);
}

static void** kept;
static __attribute__((noinline)) void handle_batch(size_t size) {
  const size_t count = kBytesOfRound / size;
  void*** blocks = malloc(count * sizeof(void**));
  for (size_t i = 0; i < count; ++i) blocks[i] = memset(malloc(size), 1, size);
  for (size_t i = 0; i < count; ++i) {
    void** few = realloc(blocks[i], kFew);
    *few = kept;
    kept = few;
  }
  free(blocks);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  memset(malloc(8 << 20), 1, 8 << 20);
  rest(1100);
  for (int round = 0; round < atoi(argv[1]); ++round) {
    handle_batch(kFirst + kLarger * (size_t)round);
    const size_t before = files();
    holdfast_snapshot();
    rest(50);
    for (int tries = 0; tries < 500 && files() == before; ++tries) rest(10);
  }
  _exit(0);
}
