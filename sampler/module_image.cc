#include "sampler/module_image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstring>

#include "sampler/raw_memory.h"
#include "sampler/syscalls.h"

namespace holdfast {
namespace {

constexpr uintptr_t PageUp(uintptr_t address) { return PageOf(address + kPageBytes - 1); }

// The program headers, or null: both headers have to lie in the first page, where every linker puts them.
const Elf64_Phdr* ProgramHeaders(const dl_find_object& found, int* count) {
  const auto start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  // Execute-only text would be no place to look; without system calls it cannot be asked, and is not found in practice.
  if (!no_system_calls.load(std::memory_order_relaxed) && !PageReadable(start)) return nullptr;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(start);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > kPageBytes ||
      header->e_phnum > (kPageBytes - header->e_phoff) / sizeof(Elf64_Phdr)) {
    return nullptr;
  }
  *count = header->e_phnum;
  return reinterpret_cast<const Elf64_Phdr*>(start + header->e_phoff);
}

AddressRange Mapped(const Elf64_Phdr& segment, uint64_t bias) {
  return {PageOf(bias + segment.p_vaddr), PageUp(bias + segment.p_vaddr + segment.p_memsz)};
}

bool IsReadable(const Elf64_Phdr& segment) { return segment.p_type == PT_LOAD && (segment.p_flags & PF_R); }

// Grows `range` over the readable segments that touch it. Load segments are sorted by address.
void JoinReadable(const Elf64_Phdr* headers, int count, uint64_t bias, AddressRange* range) {
  for (int i = 0; i < count; ++i) {
    const AddressRange mapped = Mapped(headers[i], bias);
    if (IsReadable(headers[i]) && mapped.start == range->end) range->end = mapped.end;
  }
  for (int i = count - 1; i >= 0; --i) {
    const AddressRange mapped = Mapped(headers[i], bias);
    if (IsReadable(headers[i]) && mapped.end == range->start) range->start = mapped.start;
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
  const AddressRange whole{reinterpret_cast<uintptr_t>(found.dlfo_map_start),
                           reinterpret_cast<uintptr_t>(found.dlfo_map_end)};
  image.bias = found.dlfo_link_map->l_addr;
  const auto tables = reinterpret_cast<uintptr_t>(found.dlfo_eh_frame);

  int count = 0;
  const Elf64_Phdr* headers = ProgramHeaders(found, &count);
  for (int i = 0; headers != nullptr && i < count; ++i) {
    if (headers[i].p_type != PT_LOAD) continue;
    const AddressRange mapped = Mapped(headers[i], image.bias);
    if (mapped.start < whole.start || mapped.start >= mapped.end || mapped.start >= PageUp(whole.end)) continue;
    if ((headers[i].p_flags & PF_X) && image.segment_count < ModuleImage::kMostSegments) {
      image.segments[image.segment_count++] = {mapped.start, mapped.end, PageOf(headers[i].p_offset)};
    }
    if (IsReadable(headers[i]) && tables >= mapped.start && tables < mapped.end) {
      image.readable = mapped;
      JoinReadable(headers, count, image.bias, &image.readable);
    }
  }
  for (int i = 0; headers != nullptr && i < count && image.build_id == nullptr; ++i) {
    if (headers[i].p_type != PT_NOTE) continue;
    const uintptr_t start = image.bias + headers[i].p_vaddr;
    const uintptr_t end = start + headers[i].p_memsz;
    // Notes lie in the first segment; one that is elsewhere has to be inside what is known to be readable.
    if (start >= whole.start && end >= start && (end <= whole.start + kPageBytes || end <= image.readable.end) &&
        (end <= whole.start + kPageBytes || start >= image.readable.start)) {
      FindBuildId(start, end, &image);
    }
  }
  if (image.segment_count == 0) image.segments[image.segment_count++] = {whole.start, whole.end, 0};
  return image;
}

}  // namespace holdfast
