// waits_for_input with operators new and delete in several forms: 100 blocks for each line; it keeps 10 of them.
#include <cstdio>
#include <new>

#include "known.h"

namespace {

struct alignas(64) Aligned {
  char bytes[1024];
};
struct Plain {
  char bytes[1000];
};

}  // namespace

extern "C" KNOWN void* for_each_line(int i) {
  switch (i % 4) {
    case 0:
      return new Plain;
    case 1:
      return new (std::nothrow) Plain;
    case 2:
      return new Aligned;
    default:
      return new Plain[1];
  }
}

extern "C" KNOWN void free_one(int i, void* block) {
  switch (i % 4) {
    case 0:
    case 1:
      return delete static_cast<Plain*>(block);
    case 2:
      return delete static_cast<Aligned*>(block);
    default:
      return delete[] static_cast<Plain*>(block);
  }
}

int main() {
  char line[100];
  int lines = 0;
  setvbuf(stdin, nullptr, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != nullptr) {
    for (int i = 0; i < 100; ++i) {
      void* block = for_each_line(i);
      if (i % 10 != 0) free_one(i, block);
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
}
