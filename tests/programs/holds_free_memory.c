// Has free memory of a known shape inside malloc. Prints `mallinfo FREE TOP` in bytes and "ready". For each line of input,
// calls malloc_trim(0) and prints `trimmed BYTES`, what the kernel got back.
//
//     holds_free_memory pieces      40,000 blocks of 1,000 bytes, every second one freed
//     holds_free_memory pages       runs of 64 blocks of 1,000 bytes freed between blocks that stay
//     holds_free_memory arenas N    the same as pages in each of N threads, which then wait
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBlock = 1000, kBlocks = 40000 };
static int keep_one_in;
static pthread_barrier_t is_done;
static void* last;

static void fragment(void) {
  void** blocks = malloc(kBlocks * sizeof(void*));
  for (int i = 0; i < kBlocks; ++i) memset(blocks[i] = malloc(kBlock), 1, kBlock);
  last = malloc(kBlock);  // so that nothing joins the top
  for (int i = 0; i < kBlocks; ++i) {
    if (i % keep_one_in != 0) free(blocks[i]);
  }
}

static void* thread(void* unused) {
  fragment();
  pthread_barrier_wait(&is_done);
  pause();
  return unused;
}

static long resident(void) {
  long kib = 0;
  FILE* file = fopen("/proc/self/smaps_rollup", "r");  // statm is up to a quarter of a MiB behind before Linux 6.2
  if (file == NULL || fscanf(file, "%*[^\n] Rss: %ld", &kib) != 1) exit(3);
  fclose(file);
  return kib * 1024;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  // All in bins, where the heads of the blocks beside say that they are free.
  mallopt(M_MXFAST, 0);
  setvbuf(stdout, NULL, _IOLBF, 256);
  keep_one_in = strcmp(argv[1], "pieces") == 0 ? 2 : 65;
  if (argc == 3) {
    const int threads = atoi(argv[2]);
    pthread_barrier_init(&is_done, NULL, (unsigned)threads + 1);
    pthread_t one;
    for (int i = 0; i < threads; ++i) {
      if (pthread_create(&one, NULL, thread, NULL) != 0) return 3;
    }
    pthread_barrier_wait(&is_done);
  } else {
    fragment();
  }
  const struct mallinfo2 info = mallinfo2();
  printf("mallinfo %zu %zu\n", info.fordblks, info.keepcost);
  printf("ready\n");
  while (getchar() != EOF) {
    const long before = resident();
    malloc_trim(0);
    printf("trimmed %ld\n", before - resident());
  }
  return 0;
}
