// Allocates 100 blocks for each line on standard input and answers it. The line "seal" seals the entries of all objects
// (mseal), as glibc may do when it loads them; `seals_entries now` does that before the first line, and `seals_entries large` too,
// after it has made more than 1 GiB resident (with 64 MiB of memory). The line "load PATH" loads a library and seals only its
// entries. Exit status 77: the kernel has no mseal.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "known.h"

KNOWN void* for_each_line(void) { return malloc(1000); }

static const char* only = "";  // entries of this library are sealed; "": of all

static int SealOne(struct dl_phdr_info* object, size_t size, void* sealed) {
  enum { kSeal = 462, kPage = 4096 };
  if (only[0] != 0 && strcmp(object->dlpi_name, only) != 0) return 0;
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

static void BecomeLarge(void) {
  enum { kBytes = 64 << 20, kTimes = 18 };
  const int memory = memfd_create("large", 0);
  if (ftruncate(memory, kBytes) != 0) abort();
  for (int i = 0; i < kTimes; ++i) {
    if (mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0) == MAP_FAILED) abort();
  }
}

int main(int argc, char** argv) {
  static char line[4200];
  int lines = 0;
  if (argc > 1 && strcmp(argv[1], "large") == 0) BecomeLarge();
  if (argc > 1) Seal();
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, "load ", 5) == 0) {
      if (dlopen(line + 5, RTLD_NOW) == NULL) abort();
      only = line + 5;
    }
    if (only[0] != 0 || strcmp(line, "seal") == 0) Seal();
    only = "";
    for (int i = 0; i < 100; ++i) {
      void* p = for_each_line();
      if (i % 10) free(p);
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
