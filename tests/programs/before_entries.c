// Preloaded after the library, so that its constructor runs before: with DISTURB=thread it creates a thread; with
// DISTURB=unseen_thread it does so past the library, by libc's own function; with DISTURB=byte it changes an
// instruction of the executable's free, as a breakpoint does, without a change of its effect.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void* Wait(void* unused) {
  for (;;) pause();
  return unused;
}

__attribute__((constructor)) static void Disturb(void) {
  const char* how = getenv("DISTURB");
  int (*create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = NULL;
  if (how != NULL && strcmp(how, "thread") == 0) create = pthread_create;
  if (how != NULL && strcmp(how, "unseen_thread") == 0)
    *(void**)&create = dlsym(dlopen("libc.so.6", RTLD_NOW), "pthread_create");
  if (create != NULL) {
    pthread_t thread;
    create(&thread, NULL, Wait, NULL);
    pthread_detach(thread);
  }
  if (how != NULL && strcmp(how, "byte") == 0) {
    unsigned char* code = dlsym(RTLD_DEFAULT, "free");  // push %rbx; mov %rdi,%rbx
    void* page = (void*)((unsigned long)code & ~4095ul);
    mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    // The other encoding of the same move.
    if (code[1] == 0x48 && code[2] == 0x89 && code[3] == 0xfb) memcpy(code + 1, "\x48\x8b\xdf", 3);
    mprotect(page, 8192, PROT_READ | PROT_EXEC);
  }
}
