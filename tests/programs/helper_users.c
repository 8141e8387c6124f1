// Memory that grows through functions which everything is made by, in the shapes of two servers in C. Asks for a snapshot after each
// round, and waits until the snapshot is written.
//
//     helper_users strings|contexts ROUNDS
//
// strings: new_string, on a wrapper of malloc, makes the strings of requests, replies and keys; keys stay.
// contexts: memory contexts get blocks of 8 KiB and more from malloc, and hand out parts. Plans stay; the memory of a query is given back
// after it.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clocks.h"
#include "heap_files.h"
#include "include/holdfast.h"

#define NOINLINE __attribute__((noinline))

// No call is the last thing that a function does, as that would be a jump.
#define KEPT(call)            \
  void* volatile made = call; \
  return made

// ---- strings ----

NOINLINE void* zmalloc_usable(size_t size) { KEPT(malloc(size)); }
NOINLINE void* new_string(size_t size) { KEPT(zmalloc_usable(size)); }
NOINLINE void* new_entry(void) { KEPT(zmalloc_usable(300)); }
NOINLINE void read_request(void) { free(new_string(900)); }
NOINLINE void write_reply(void) { free(new_string(700)); }
NOINLINE void log_slow(void) { free(new_string(500)); }
static void* all[2];
NOINLINE void keep(void* block, int of) {
  *(void**)block = all[of];
  all[of] = block;
}
NOINLINE void set_key(void) {
  keep(new_string(1200), 0);
  keep(new_entry(), 1);
}
NOINLINE void serve_strings(void) {
  for (int i = 0; i < 800; ++i) {
    read_request();
    set_key();
    if (i % 50 == 0) log_slow();
    write_reply();
  }
}

// ---- contexts ----

struct block {
  struct block* next;
  size_t left;
};
struct context {
  struct block* blocks;
  size_t next_size;
};
static struct context *current, plans, query;
static NOINLINE void* alloc_set(struct context* context, size_t size) {
  if (context->blocks == NULL || context->blocks->left < size) {
    if (context->next_size < (8 << 10)) context->next_size = 8 << 10;
    struct block* block = malloc(context->next_size);
    block->next = context->blocks;
    block->left = context->next_size - sizeof(struct block);
    context->blocks = block;
    if (context->next_size < (1 << 20)) context->next_size *= 2;
  }
  context->blocks->left -= size;
  return (char*)(context->blocks + 1) + context->blocks->left;
}
NOINLINE void* MemoryContextAlloc(struct context* context, size_t size) { KEPT(alloc_set(context, size)); }
NOINLINE void* MemoryContextAllocZero(struct context* context, size_t size) {
  KEPT(memset(alloc_set(context, size), 0, size));
}
NOINLINE void* palloc(size_t size) { KEPT(alloc_set(current, size)); }
NOINLINE void reset(struct context* context) {
  for (struct block* block = context->blocks; block != NULL;) {
    struct block* next = block->next;
    free(block);
    block = next;
  }
  context->blocks = NULL;
  context->next_size = 0;
}
NOINLINE void* copy_node(void) { KEPT(palloc(96)); }
NOINLINE void parse_query(void) { memset(copy_node(), 1, 96); }
NOINLINE void plan_query(void) {
  memset(copy_node(), 2, 96);
  MemoryContextAllocZero(&query, 128);
}
NOINLINE void save_plan(void) {
  struct context* before = current;
  current = &plans;
  for (int i = 0; i < 20; ++i) memset(copy_node(), 3, 96);
  MemoryContextAlloc(&plans, 64);
  current = before;
}
NOINLINE void serve_queries(void) {
  for (int i = 0; i < 800; ++i) {
    current = &query;
    parse_query();
    plan_query();
    save_plan();
    reset(&query);
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  for (int round = 0; round < atoi(argv[2]); ++round) {
    if (strcmp(argv[1], "contexts") == 0) {
      serve_queries();
    } else {
      serve_strings();
    }
    const size_t before = HeapFiles();
    holdfast_snapshot();
    for (int tries = 0; tries < 500 && HeapFiles() == before; ++tries) Sleep(10);
  }
  _exit(0);
}
