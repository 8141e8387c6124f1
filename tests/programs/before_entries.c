// Preloaded after the library, so that its constructor runs before: with DISTURB=thread it starts a thread; with
// DISTURB=byte it changes an instruction of the executable's free, as a breakpoint does, without a change of its effect.
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
  if (how != NULL && strcmp(how, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, Wait, NULL);
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
