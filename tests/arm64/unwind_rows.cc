// Prints the unwind rows of an arm64 file, for scripts/arm64, which compares them with readelf's.
//
//     unwind_rows FILE <ADDRESSES            one hexadecimal address a line, as in the file
//     27614 sp+48 c-48 c-40                  the address, the CFA, and the places of x29 and of the return address from the CFA;
//                                            u: in its register. "end" for an outermost frame, "cannot" without a row
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "sampler/unwind/unwind_cfi.h"

using namespace holdfast;

namespace {

std::string FromCfa(int64_t offset) {
  char text[32];
  snprintf(text, sizeof text, "c%+lld", static_cast<long long>(offset));
  return text;
}

void Print(uintptr_t address, UnwindRow row) {
  if (row.kind() != UnwindRow::kStep) {
    printf("%lx %s\n", address, row.kind() == UnwindRow::kEnd ? "end" : "cannot");
    return;
  }
  const bool keeps_fp = row.fp_rule() == UnwindRow::kSame;
  const std::string fp = keeps_fp ? "u" : FromCfa(row.fp_offset());
  const std::string pc = row.returns_by_register() ? "u" : FromCfa(static_cast<int64_t>(row.ReturnPlace(0)));
  printf("%lx %s%+lld %s %s\n", address, row.from_fp() ? "x29" : "sp", static_cast<long long>(row.cfa_offset()),
         fp.c_str(), pc.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  const int file = count == 2 ? open(arguments[1], O_RDONLY) : -1;
  Elf64_Ehdr header;
  if (file < 0 || pread(file, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return 2;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  const size_t bytes = segments.size() * sizeof(Elf64_Phdr);
  if (pread(file, segments.data(), bytes, static_cast<off_t>(header.e_phoff)) != static_cast<ssize_t>(bytes)) return 2;
  uintptr_t end = 0, tables = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD) end = std::max<uintptr_t>(end, segment.p_vaddr + segment.p_memsz);
    if (segment.p_type == PT_GNU_EH_FRAME) tables = segment.p_vaddr;
  }
  void* memory = mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || tables == 0) return 2;
  const auto base = reinterpret_cast<uintptr_t>(memory);
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    if (pread(file, reinterpret_cast<void*>(base + segment.p_vaddr), segment.p_filesz,
              static_cast<off_t>(segment.p_offset)) != static_cast<ssize_t>(segment.p_filesz))
      return 2;
  }
  unsigned long address = 0;
  while (scanf("%lx", &address) == 1)
    Print(address, BuildUnwindRow(reinterpret_cast<const void*>(base + tables), {base, base + end}, base + address));
}
