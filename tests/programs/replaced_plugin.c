// For replaced_file.c. The function that allocates is not exported.
#include <stdlib.h>
#ifndef HOOK
#define HOOK hook_keeps_config
#endif
__attribute__((noinline)) static void* HOOK(void) {
  void* volatile made = malloc(2000);
  return made;
}
void* on_event(void) {
  void* volatile made = HOOK();
  return made;
}
