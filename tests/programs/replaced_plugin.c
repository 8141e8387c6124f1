// For replaced_file.c. The function that allocates is not exported.
#include <stdlib.h>
__attribute__((noinline)) static void* hook_keeps_config(void) {
  void* volatile made = malloc(2000);
  return made;
}
void* on_event(void) {
  void* volatile made = hook_keeps_config();
  return made;
}
