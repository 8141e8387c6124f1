// Has room in its constant data for a message, as an allocator that is linked in has its own; does nothing.
#include <stdio.h>

static const char message[64] = "room for a message of an allocator, written by the test";

int main(int count, char** arguments) {
  (void)arguments;
  if (count > 1) puts(message);
  return 0;
}
