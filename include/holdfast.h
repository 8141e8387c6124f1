/* Holdfast, for programs that want to say more than can be seen from outside: for whom a thread works, when to take a snapshot,
 * what a pool of their own hands out, who waits for a lock of their own. C and C++, x86-64 Linux; elsewhere all of it is nothing.
 *
 * Include it and call; nothing is linked. Where the program was not started under Holdfast, each call is a load and a branch that
 * is never taken. Nothing here allocates, blocks, fails or changes errno, and everything may be called by any thread, also in a
 * signal handler.
 *
 * From another language: `holdfast_v1` is a weak symbol, a table of functions (below); a null address means that there is no
 * Holdfast. docs/api.md has that in Rust. */
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

/* One wait, on the stack of the thread that waits, from before it to after it. What is in it is not yours. */
struct holdfast_wait {
  uint64_t words[32];
};

/* What the library exports. Only ever longer: `bytes` says how long. */
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

#if defined(__x86_64__) && !defined(__ILP32__) && defined(__ELF__) && defined(__linux__)
/* Its address, by way of the table that the dynamic linker fills in, whatever the program is compiled for: a compiler's own
 * reference to a weak symbol is settled by the linker in a program that is not position-independent, as nowhere for ever. */
__asm__(".weak holdfast_v1");
HOLDFAST_INLINE const struct holdfast_functions* holdfast_here(void) {
  const struct holdfast_functions* here;
  __asm__("movq holdfast_v1@GOTPCREL(%%rip), %0" : "=r"(here));
  return (const struct holdfast_functions*)__builtin_expect((long)here, 0);
}
#else
HOLDFAST_INLINE const struct holdfast_functions* holdfast_here(void) { return 0; }
#endif

/* Asks for a snapshot of every kind now. Does not wait for it: it is written beside the program, a moment later. */
HOLDFAST_INLINE void holdfast_snapshot(void) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->snapshot();
}

/* A pool, an arena, an allocator of your own hands out `bytes` at `block`, and takes them back. They are sampled as malloc's are and
 * stand in the same profile, with the stack of the call. What the pool itself took from malloc stands there, too: take it by mmap, or
 * read both as what they are. Call holdfast_free before the block can be handed out again. */
HOLDFAST_INLINE void holdfast_alloc(const void* block, size_t bytes) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->alloc(block, bytes);
}
HOLDFAST_INLINE void holdfast_free(const void* block) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->free(block);
}

/* A lock of your own, known by an address. Only who has to wait says so; who finds it free calls nothing. A wait begins and ends in
 * one thread.
 *
 *     struct holdfast_wait wait;
 *     holdfast_lock_wait(lock, &wait);
 *     ... spin, sleep ...                            what waits inside, by whatever means, is not counted again
 *     holdfast_lock_wait_end(&wait, 1);              0: gave up
 *
 *     holdfast_lock_release(lock);                   just before others can have it
 *     ... let it go ...
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

/* For whom the calling thread works from now on: a tenant, a kind of request. Whatever it allocates, waits for or holds up has this
 * label in the profiles (`holdfast top --by tenant`, `--tagfocus tenant=acme`, `go tool pprof -tags`). A null or empty value takes
 * it away. A new thread has none. Returns all the labels that the thread had before:
 *
 *     uint32_t before = holdfast_label("tenant", name);
 *     ... the request ...
 *     holdfast_set_labels(before);                   as they were; 0: none
 *
 * Such a number holds in the whole process: a pool or a coroutine that goes on in another thread hands it over. Meant for names
 * that come again: there is room for some 4,000 different sets of labels in the life of a process, then the value is
 * `[overflow]`. Of a key 64 bytes count, of a value 128, of all of a thread's 512. */
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
