// A plugin with a destructor that takes as long as the program wants: it calls `on_close`.
#include <stddef.h>

void (*on_close)(void);
__attribute__((destructor)) static void Close(void) {
  if (on_close != NULL) on_close();
}
