/* Holdfast, for programs that want to say more than can be seen from outside: when to take a snapshot, what a pool of their own
 * hands out, who waits for a lock of their own. C and C++, x86-64 Linux; elsewhere all of it is nothing.
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
};

#if defined(__x86_64__) && defined(__ELF__) && defined(__linux__)
/* Its address, by way of the table that the dynamic linker fills in, whatever the program is compiled for: a compiler's own
 * reference to a weak symbol is settled by the linker in a program that is not position-independent, as nowhere for ever. */
__asm__(".weak holdfast_v1");
static inline const struct holdfast_functions* holdfast_here(void) {
  const struct holdfast_functions* here;
  __asm__("movq holdfast_v1@GOTPCREL(%%rip), %0" : "=r"(here));
  return (const struct holdfast_functions*)__builtin_expect((long)here, 0);
}
#else
static inline const struct holdfast_functions* holdfast_here(void) { return 0; }
#endif

/* Asks for a snapshot of every kind now. Does not wait for it: it is written beside the program, a moment later. */
static inline void holdfast_snapshot(void) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->snapshot();
}

/* A pool, an arena, an allocator of your own hands out `bytes` at `block`, and takes them back. They are sampled as malloc's are and
 * stand in the same profile, with the stack of the call. What the pool itself took from malloc stands there, too: take it by mmap, or
 * read both as what they are. Call holdfast_free before the block can be handed out again. */
static inline void holdfast_alloc(const void* block, size_t bytes) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->alloc(block, bytes);
}
static inline void holdfast_free(const void* block) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->free(block);
}

/* A lock of your own, known by an address. Only who has to wait says so; who finds it free calls nothing.
 *
 *     struct holdfast_wait wait;
 *     holdfast_lock_wait(lock, &wait);
 *     ... spin, sleep ...                            what waits inside, by whatever means, is not counted again
 *     holdfast_lock_wait_end(&wait, 1);              0: gave up
 *
 *     holdfast_lock_release(lock);                   just before others can have it
 *     ... let it go ...
 */
static inline void holdfast_lock_wait(const void* lock, struct holdfast_wait* wait) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->lock_wait(lock, wait);
}
static inline void holdfast_lock_wait_end(struct holdfast_wait* wait, int acquired) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->lock_wait_end(wait, acquired);
}
static inline void holdfast_lock_release(const void* lock) {
  const struct holdfast_functions* here = holdfast_here();
  if (here) here->lock_release(lock);
}

#ifdef __cplusplus
}
#endif

#endif /* HOLDFAST_H_ */
