#include "sampler/stacks/module_image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>

#include "sampler/contract/syscalls.h"
#include "sampler/stacks/raw_memory.h"

namespace holdfast {
namespace {

constexpr uintptr_t PageUp(uintptr_t address) { return PageOf(address + kPageBytes - 1); }

struct Headers {
  const Elf64_Phdr* first = nullptr;
  int count = 0;
  const Elf64_Phdr* begin() const { return first; }
  const Elf64_Phdr* end() const { return first + count; }
};

AddressRange Mapped(const Elf64_Phdr& segment, uint64_t bias) {
  return {PageOf(bias + segment.p_vaddr), PageUp(bias + segment.p_vaddr + segment.p_memsz)};
}

bool IsReadable(const Elf64_Phdr& segment) { return segment.p_type == PT_LOAD && (segment.p_flags & PF_R); }

bool Contains(AddressRange range, uintptr_t address) { return address >= range.start && address < range.end; }

// Returns the program headers of an ELF header at `start`, if there is one and it describes `found`. Both must be in
// the first page, where every linker puts them. `mapped`: something is mapped there, which is assumed readable if no
// system call may be made to check.
Headers HeadersAt(uintptr_t start, bool mapped, const dl_find_object& found) {
  if (no_system_calls.load(std::memory_order_relaxed) ? !mapped : !PageReadable(start)) return {};
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(start);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > kPageBytes ||
      header->e_phnum > (kPageBytes - header->e_phoff) / sizeof(Elf64_Phdr)) {
    return {};
  }
  const Headers headers{reinterpret_cast<const Elf64_Phdr*>(start + header->e_phoff), header->e_phnum};
  const uint64_t bias = found.dlfo_link_map->l_addr;
  const auto wanted = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  for (const Elf64_Phdr& segment : headers) {
    if (segment.p_type == PT_LOAD && Contains(Mapped(segment, bias), wanted)) return headers;
  }
  return {};
}

// At the start of the found segment; else at the start of a library's first segment; else those of the main program.
Headers FindHeaders(const dl_find_object& found) {
  Headers headers = HeadersAt(reinterpret_cast<uintptr_t>(found.dlfo_map_start), true, found);
  const uint64_t bias = found.dlfo_link_map->l_addr;
  if (headers.first == nullptr && bias % kPageBytes == 0 && bias != 0) headers = HeadersAt(bias, false, found);
  if (headers.first == nullptr && found.dlfo_link_map->l_name[0] == '\0') {
    headers = HeadersAt(PageOf(getauxval(AT_PHDR)), true, found);
  }
  return headers;
}

// Grows `range` over the readable segments that touch it. Load segments are sorted by address.
void JoinReadable(const Headers& headers, uint64_t bias, AddressRange* range) {
  for (int i = 0; i < headers.count; ++i) {
    const AddressRange mapped = Mapped(headers.first[i], bias);
    if (IsReadable(headers.first[i]) && mapped.start == range->end) range->end = mapped.end;
  }
  for (int i = headers.count - 1; i >= 0; --i) {
    const AddressRange mapped = Mapped(headers.first[i], bias);
    if (IsReadable(headers.first[i]) && mapped.end == range->start) range->start = mapped.start;
  }
}

void FindBuildId(uintptr_t at, uintptr_t end, ModuleImage* image) {
  while (end - at >= sizeof(Elf64_Nhdr)) {
    const auto* note = reinterpret_cast<const Elf64_Nhdr*>(at);
    const uintptr_t name = at + sizeof(*note);
    const uint64_t name_bytes = (uint64_t{note->n_namesz} + 3) & ~uint64_t{3};
    const uint64_t value_bytes = (uint64_t{note->n_descsz} + 3) & ~uint64_t{3};
    if (name_bytes + value_bytes > end - name) return;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz > 0 && note->n_descsz <= 64 &&
        memcmp(reinterpret_cast<void*>(name), "GNU", 4) == 0) {
      image->build_id = reinterpret_cast<const uint8_t*>(name + name_bytes);
      image->build_id_bytes = static_cast<uint16_t>(note->n_descsz);
      return;
    }
    at = name + name_bytes + value_bytes;
  }
}

}  // namespace

ModuleImage ReadModuleImage(const dl_find_object& found) {
  ModuleImage image;
  image.range = {reinterpret_cast<uintptr_t>(found.dlfo_map_start), reinterpret_cast<uintptr_t>(found.dlfo_map_end)};
  image.bias = found.dlfo_link_map->l_addr;
  const auto tables = reinterpret_cast<uintptr_t>(found.dlfo_eh_frame);

  const Headers headers = FindHeaders(found);
  if (headers.first == nullptr) {
    image.segments[image.segment_count++] = {image.range.start, image.range.end, 0};
    return image;
  }
  for (const Elf64_Phdr& header : headers) {
    const AddressRange mapped = Mapped(header, image.bias);
    if (header.p_type != PT_LOAD || mapped.start >= mapped.end) continue;
    if (mapped.start < image.range.start) image.range.start = mapped.start;
    if (mapped.end > image.range.end) image.range.end = mapped.end;
    if ((header.p_flags & PF_X) && image.segment_count < ModuleImage::kMostSegments) {
      image.segments[image.segment_count++] = {mapped.start, mapped.end, PageOf(header.p_offset)};
    }
    if (IsReadable(header) && Contains(mapped, tables)) {
      image.readable = mapped;
      JoinReadable(headers, image.bias, &image.readable);
    }
  }
  const uintptr_t first_page = PageOf(reinterpret_cast<uintptr_t>(headers.first));
  for (const Elf64_Phdr& header : headers) {
    const uintptr_t start = image.bias + header.p_vaddr;
    const uintptr_t end = start + header.p_memsz;
    if (header.p_type != PT_NOTE || image.build_id != nullptr || end < start) continue;
    // Notes are in the first page; others must be within memory known to be readable.
    const bool in_first_page = start >= first_page && end <= first_page + kPageBytes;
    if (in_first_page || (start >= image.readable.start && end <= image.readable.end)) FindBuildId(start, end, &image);
  }
  return image;
}

}  // namespace holdfast
