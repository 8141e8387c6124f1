// Allocates 100 blocks for each line on standard input and answers it. The line "seal" seals the entries of all objects
// (mseal), as glibc may do when it loads them; `seals_entries now` does that before the first line. Exit status 77: the
// kernel has no mseal.
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

KNOWN void* for_each_line(void) { return malloc(1000); }

static int SealOne(struct dl_phdr_info* object, size_t size, void* sealed) {
  enum { kSeal = 462, kPage = 4096 };
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* header = &object->dlpi_phdr[i];
    if (header->p_type != PT_GNU_RELRO) continue;
    const unsigned long start = (object->dlpi_addr + header->p_vaddr) & -(unsigned long)kPage;
    const unsigned long end = (object->dlpi_addr + header->p_vaddr + header->p_memsz) & -(unsigned long)kPage;
    if (end > start && syscall(kSeal, start, end - start, 0UL) == 0) ++*(int*)sealed;
  }
  return 0;
}

static void Seal(void) {
  int sealed = 0;
  dl_iterate_phdr(SealOne, &sealed);
  if (sealed == 0) exit(77);
}

int main(int argc, char** argv) {
  static char line[100];
  int lines = 0;
  if (argc > 1 && strcmp(argv[1], "now") == 0) Seal();
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (strcmp(line, "seal\n") == 0) Seal();
    for (int i = 0; i < 100; ++i) {
      void* p = for_each_line();
      if (i % 10) free(p);
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
