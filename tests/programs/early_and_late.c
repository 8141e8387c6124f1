// Allocates when profilers are not ready yet, or no longer: in preinit_array, an ifunc resolver, constructors of libraries,
// exit handlers, destructors of thread keys, destructors.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

extern void* early_block;
extern void* early_zeroed;
static void* preinit_block;
static void* constructor_block;

KNOWN void* at_exit_allocates(void) { return malloc(10); }
KNOWN void* key_destructor_allocates(void) { return malloc(20); }
KNOWN void* main_allocates(void) { return malloc(30); }
KNOWN void* destructor_allocates(void) { return malloc(40); }

static void Preinit(void) {
  preinit_block = malloc(4321);
  memset(preinit_block, 'p', 4321);
  preinit_block = realloc(preinit_block, 5000);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = Preinit;

__attribute__((constructor)) static void Construct(void) {
  constructor_block = malloc(100);
  memset(constructor_block, 'c', 100);
}
__attribute__((destructor)) static void Destruct(void) {
  Use(destructor_allocates());
  free(early_block);
}

static int Seven(void) { return 7; }
// With glibc 2.43 malloc in a resolver crashes, whatever is preloaded.
static int (*ResolveSeven(void))(void) {
#if !__GLIBC_PREREQ(2, 42)
  free(malloc(64));
#endif
  return Seven;
}
int by_ifunc(void) __attribute__((ifunc("ResolveSeven")));

static void AtExit(void) {
  for (int i = 0; i < 3; ++i) Use(at_exit_allocates());
  free(main_allocates());
}

static pthread_key_t key;
static void KeyDestructor(void* value) {
  free(value);
  for (int i = 0; i < 5; ++i) Use(key_destructor_allocates());
}
static void* Thread(void* argument) {
  pthread_setspecific(key, main_allocates());
  return argument;
}

static const char* Kept(const char* p, size_t size, char c) {
  for (size_t i = 0; i < size; ++i) {
    if (p[i] != c) return "lost";
  }
  return "kept";
}

int main(void) {
  printf("preinit %s, library %s and %s, constructor %s, ifunc %d\n", Kept(preinit_block, 4321, 'p'),
         Kept(early_block, 1234, 'e'), Kept(early_zeroed, 700, 0), Kept(constructor_block, 100, 'c'), by_ifunc());
  early_block = realloc(early_block, 100000);
  printf("library's block after realloc %s\n", Kept(early_block, 1234, 'e'));
  free(preinit_block);
  free(early_zeroed);
  free(constructor_block);
  atexit(AtExit);
  pthread_key_create(&key, KeyDestructor);
  pthread_t thread;
  pthread_create(&thread, NULL, Thread, NULL);
  pthread_join(thread, NULL);
  Expect("main_allocates", 2, 60, 0, 0);
  Expect("key_destructor_allocates", 5, 100, 5, 100);
  Expect("at_exit_allocates", 3, 30, 3, 30);
  return 0;
}
