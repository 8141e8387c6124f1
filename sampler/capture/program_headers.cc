#include "sampler/capture/program_headers.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>

#include "sampler/capture/module_path.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// The kernel and ld.so load no file with more.
constexpr uint64_t kMaxHeaders = kPageBytes / sizeof(Elf64_Phdr);

bool AllReadable(uintptr_t at, uint64_t bytes) {
  if (at + bytes < at) return false;
  for (uintptr_t page = PageOf(at); page < at + bytes; page += kPageBytes) {
    if (!PageReadable(page)) return false;
  }
  return true;
}

uintptr_t StartOf(const dl_find_object& found) { return reinterpret_cast<uintptr_t>(found.dlfo_map_start); }

bool Describe(const ProgramHeaders& headers, const dl_find_object& found) {
  const link_map& map = *found.dlfo_link_map;
  bool contains = false, dynamic_is_elsewhere = false;
  for (const Elf64_Phdr& header : headers) {
    const uintptr_t start = map.l_addr + header.p_vaddr;
    contains |= header.p_type == PT_LOAD && StartOf(found) - PageOf(start) < start + header.p_memsz - PageOf(start);
    dynamic_is_elsewhere |= header.p_type == PT_DYNAMIC && start != reinterpret_cast<uintptr_t>(map.l_ld);
  }
  return contains && !dynamic_is_elsewhere;
}

ProgramHeaders HeadersAt(uintptr_t at, uint64_t count, const dl_find_object& found) {
  if (at == 0 || at % alignof(Elf64_Phdr) != 0 || count == 0 || count > kMaxHeaders) return {};
  const ProgramHeaders headers{reinterpret_cast<const Elf64_Phdr*>(at), static_cast<int>(count)};
  return Describe(headers, found) ? headers : ProgramHeaders{};
}

// Headers that are `offset` bytes into the file. Whole pages are mapped. What is at `at` may be another copy, with other
// contents than the file's headers: then no segment maps that part of the file there.
ProgramHeaders HeadersOfFile(uintptr_t at, uint64_t offset, uint64_t count, const dl_find_object& found) {
  const ProgramHeaders headers = HeadersAt(at, count, found);
  for (const Elf64_Phdr& header : headers) {
    const uint64_t start = PageOf(header.p_offset), end = PageOf(header.p_offset + header.p_filesz + kPageBytes - 1);
    if (header.p_type == PT_LOAD && offset - start < end - start &&
        found.dlfo_link_map->l_addr + header.p_vaddr - header.p_offset + offset == at)
      return headers;
  }
  return {};
}

// The ELF header at `start`, if there is one. `mapped`: something is mapped there, which is assumed readable if the
// kernel cannot be asked (a filter forbids it, or an emulator answers otherwise).
const Elf64_Ehdr* ElfHeaderAt(uintptr_t start, bool mapped) {
  if (start % kPageBytes != 0 || start == 0) return nullptr;
  if (mapped ? PageForbidden(start) : !PageReadable(start)) return nullptr;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(start);
  const bool fits = memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
                    header->e_phentsize == sizeof(Elf64_Phdr);
  return fits ? header : nullptr;
}

// The headers of the ELF header at `start`, at the same distance as in the file. In its page they need no further probe.
ProgramHeaders HeadersOfFileAt(uintptr_t start, bool mapped, const dl_find_object& found) {
  const Elf64_Ehdr* header = ElfHeaderAt(start, mapped);
  if (header == nullptr) return {};
  const uint64_t bytes = uint64_t{header->e_phnum} * sizeof(Elf64_Phdr);
  const bool in_page = header->e_phoff <= kPageBytes && bytes <= kPageBytes - header->e_phoff;
  if (!in_page && !AllReadable(start + header->e_phoff, bytes)) return {};
  return HeadersOfFile(start + header->e_phoff, header->e_phoff, header->e_phnum, found);
}

// The search in /proc/self/maps.
struct InMappings {
  const dl_find_object* found;
  uint64_t offset = 0, count = 0, bytes = 0;
  ProgramHeaders headers = {};
};

bool IsTable(uintptr_t at, void* search) {
  auto* in = static_cast<InMappings*>(search);
  if (AllReadable(at, in->bytes)) in->headers = HeadersOfFile(at, in->offset, in->count, *in->found);
  return in->headers.first != nullptr;
}

bool IsElfHeaderOfTable(uintptr_t at, void* search) {
  auto* in = static_cast<InMappings*>(search);
  const Elf64_Ehdr* header = ElfHeaderAt(at, false);
  if (header == nullptr || header->e_phnum == 0 || header->e_phnum > kMaxHeaders) return false;
  in->offset = header->e_phoff;
  in->count = header->e_phnum;
  in->bytes = in->count * sizeof(Elf64_Phdr);
  return true;
}

ProgramHeaders FindInMappings(const dl_find_object& found) {
  InMappings in{&found};
  const uintptr_t start = FindMappedOffset(StartOf(found), 0, IsElfHeaderOfTable, &in);
  if (start == 0) return {};
  FindMappedOffset(StartOf(found), in.offset, IsTable, &in);
  return in.headers;
}

}  // namespace

ProgramHeaders FindProgramHeaders(const dl_find_object& found, HeaderSearch search) {
  const link_map& map = *found.dlfo_link_map;
  ProgramHeaders headers = HeadersOfFileAt(StartOf(found), true, found);
  // The found segment is not the first: that one is at the bias, unless the file has addresses of its own.
  if (headers.first == nullptr && map.l_addr != StartOf(found)) headers = HeadersOfFileAt(map.l_addr, false, found);
  if (headers.first == nullptr && map.l_name[0] == '\0') {
    const uintptr_t at = getauxval(AT_PHDR);
    const uint64_t count = getauxval(AT_PHNUM);
    if (no_system_calls.load(std::memory_order_relaxed) || AllReadable(at, count * sizeof(Elf64_Phdr)))
      headers = HeadersAt(at, count, found);
  }
  if (headers.first == nullptr && search == HeaderSearch::kMappings) headers = FindInMappings(found);
  return headers;
}

}  // namespace holdfast
