// RLIMIT_DATA is 128 MiB: a forked child maps 80 of them. `child_data_limit few` takes its descriptors away first, so that it
// has no profile.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  const struct rlimit data = {128 << 20, 128 << 20}, files = {3, 3};
  if (setrlimit(RLIMIT_DATA, &data) != 0) return 97;
  for (volatile int i = 0; i < 100; ++i) free(malloc(100000));
  const pid_t child = fork();
  if (child == 0) {
    if (argc > 1 && strcmp(argv[1], "few") == 0 && setrlimit(RLIMIT_NOFILE, &files) != 0) _exit(97);
    for (volatile int i = 0; i < 100; ++i) free(malloc(100000));
    _exit(mmap(NULL, 80 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
  }
  int status = 0;
  waitpid(child, &status, 0);
  puts(status == 0 ? "the child has 80 MiB" : "the child has no 80 MiB");
  return status != 0;
}
