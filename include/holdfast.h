/* Holdfast's API, for facts that the profiler cannot see by itself: labels of threads, requests for snapshots, blocks of the program's
 * own pools, waits for its own locks. C and C++, Linux on x86-64 and arm64; on other systems every call does nothing.
 *
 * Include this header and call; there is nothing to link. In a program that was not started under Holdfast, each call is a load and a
 * branch that is never taken. No function allocates, blocks, fails or changes errno, and any thread may call all of them, also in a
 * signal handler.
 *
 * From another language: `holdfast_v1` is a weak symbol, a table of functions (below). A null address means that Holdfast is not
 * loaded. docs/api.md shows the same in Rust. */
#ifndef HOLDFAST_H_
#define HOLDFAST_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC system_header /* whatever warnings you compile with */
#define HOLDFAST_INLINE static __inline__
#else
#define HOLDFAST_INLINE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One wait, on the stack of the waiting thread, from before the wait to after it. The contents are private. */
struct holdfast_wait {
  uint64_t words[32];
};

/* The exported table. New functions are added at the end; `bytes` is its size. */
struct holdfast_functions {
  size_t bytes;
  void (*snapshot)(void);
  void (*alloc)(const void* block, size_t bytes);
  void (*free)(const void* block);
  void (*lock_wait)(const void* lock, struct holdfast_wait* wait);
  void (*lock_wait_end)(struct holdfast_wait* wait, int acquired);
  void (*lock_release)(const void* lock);
  uint32_t (*label)(const char* key, const char* value);
  uint32_t (*set_labels)(uint32_t labels);
};

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__ILP32__) && defined(__ELF__) && defined(__linux__)
/* Reads the table's address through the GOT, which the dynamic linker fills in. In a program that is not position-independent, the
 * linker would resolve the compiler's own reference to a missing weak symbol to null for good. */
__asm__(".weak holdfast_v1");
HOLDFAST_INLINE const struct holdfast_functions* holdfast_here(void) {
  const struct holdfast_functions* here;
#if defined(__x86_64__)
  __asm__("movq holdfast_v1@GOTPCREL(%%rip), %0" : "=r"(here));
#else
  __asm__("adrp %0, :got:holdfast_v1\n\tldr %0, [%0, :got_lo12:holdfast_v1]" : "=r"(here));
#endif
  return (const struct holdfast_functions*)__builtin_expect((long)here, 0);
}
#else
HOLDFAST_INLINE const struct holdfast_functions* holdfast_here(void) { return 0; }
#endif

/* Requests a snapshot of every kind now, and returns at once. The exporter writes the files a moment later. */
HOLDFAST_INLINE void holdfast_snapshot(void) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->snapshot();
}

/* Reports that a pool, arena or allocator of your own hands out `bytes` at `block`, and takes them back. The blocks are sampled like
 * malloc's and appear in the same profile, with the stack of the call. The pool's own memory appears there as well if it comes from
 * malloc; to avoid counting both, get it by mmap. Call holdfast_free before the block can be handed out again. */
HOLDFAST_INLINE void holdfast_alloc(const void* block, size_t bytes) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->alloc(block, bytes);
}
HOLDFAST_INLINE void holdfast_free(const void* block) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->free(block);
}

/* Reports waits for a lock of your own, identified by an address. Only a thread that must wait reports it; a thread that finds the lock
 * free calls nothing. A wait begins and ends in one thread.
 *
 *     struct holdfast_wait wait;
 *     holdfast_lock_wait(lock, &wait);
 *     ... spin, sleep ...                            waits inside, of any kind, are not counted again
 *     holdfast_lock_wait_end(&wait, 1);              0: gave up
 *
 *     holdfast_lock_release(lock);                   just before others can take it
 *     ... release it ...
 */
HOLDFAST_INLINE void holdfast_lock_wait(const void* lock, struct holdfast_wait* wait) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->lock_wait(lock, wait);
}
HOLDFAST_INLINE void holdfast_lock_wait_end(struct holdfast_wait* wait, int acquired) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->lock_wait_end(wait, acquired);
}
HOLDFAST_INLINE void holdfast_lock_release(const void* lock) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->lock_release(lock);
}

/* Sets a label of the calling thread: a tenant, a kind of request. Its allocations, waits and holds then carry this label in the
 * profiles (`holdfast top --by tenant`, `--tagfocus tenant=acme`, `go tool pprof -tags`). A null or empty value removes the label. A new
 * thread has none. Returns all labels that the thread had before:
 *
 *     uint32_t before = holdfast_label("tenant", name);
 *     ... the request ...
 *     holdfast_set_labels(before);                   restores them; 0: none
 *
 * The number is valid in the whole process: a pool or a coroutine that continues in another thread can pass it on. Use values that
 * repeat: a process has room for about 4,000 different label sets in its life, after that the value is `[overflow]`. Keys are cut
 * after 64 bytes, values after 128, all labels of a thread together after 512. */
HOLDFAST_INLINE uint32_t holdfast_label(const char* key, const char* value) {
  const struct holdfast_functions* here = holdfast_here();
  return here && here->bytes > offsetof(struct holdfast_functions, label) ? here->label(key, value) : 0;
}
HOLDFAST_INLINE uint32_t holdfast_set_labels(uint32_t labels) {
  const struct holdfast_functions* here = holdfast_here();
  return here && here->bytes > offsetof(struct holdfast_functions, set_labels) ? here->set_labels(labels) : 0;
}

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_H_ */
