// Executes itself twice: one pid with three images, which must not be mixed.
//   exec_itself [image]
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

KNOWN void* image_one_allocates(void) { return malloc(100); }
KNOWN void* image_two_allocates(void) { return malloc(200); }
KNOWN void* image_three_allocates(void) { return malloc(300); }

int main(int argc, char** argv) {
  const int image = argc > 1 ? atoi(argv[1]) : 1;
  for (int i = 0; i < 100 * image; ++i) {
    void* p = image == 1 ? image_one_allocates() : image == 2 ? image_two_allocates() : image_three_allocates();
    if (i % 4) free(p);
  }
  if (image < 3) {
    char next[] = {(char)('1' + image), 0};
    fflush(stdout);
    execl("/proc/self/exe", "exec_itself", next, (char*)NULL);
    return 9;
  }
  Expect("image_one_allocates", 100, 10000, 25, 2500);
  Expect("image_two_allocates", 200, 40000, 50, 10000);
  Expect("image_three_allocates", 300, 90000, 75, 22500);
  return 0;
}
