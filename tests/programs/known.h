// For programs with known totals: named functions that do the work, and lines that say what the profile must contain.
//
//     expect FUNCTION alloc_objects alloc_space inuse_objects inuse_space
//
// goes to standard output; tests/e2e compares it with the samples that have FUNCTION as their leaf. The programs are
// compiled without tail calls and without the compiler's own optimizations of malloc, so that the caller of malloc is as in
// the source.
#ifndef HOLDFAST_TESTS_PROGRAMS_KNOWN_H_
#define HOLDFAST_TESTS_PROGRAMS_KNOWN_H_

#include <stddef.h>
#include <stdio.h>

#define KNOWN __attribute__((noinline, noclone, used))

static inline void Expect(const char* function, size_t objects, size_t bytes, size_t live_objects, size_t live_bytes) {
  printf("expect %s %zu %zu %zu %zu\n", function, objects, bytes, live_objects, live_bytes);
  fflush(stdout);
}

// Keeps a pointer (and what was stored through it) alive for the optimizer.
static inline void Use(void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

#endif  // HOLDFAST_TESTS_PROGRAMS_KNOWN_H_
