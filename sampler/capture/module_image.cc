#include "sampler/capture/module_image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include "sampler/capture/raw_memory.h"
#include "sampler/contract/build_id.h"
#include "sampler/contract/syscalls.h"
#include "sampler/unwind/unwind_bytes.h"

namespace holdfast {
namespace {

constexpr uintptr_t PageUp(uintptr_t address) { return PageOf(address + kPageBytes - 1); }

AddressRange Mapped(const Elf64_Phdr& segment, uint64_t bias) {
  return {PageOf(bias + segment.p_vaddr), PageUp(bias + segment.p_vaddr + segment.p_memsz)};
}

bool IsReadable(const Elf64_Phdr& segment) { return segment.p_type == PT_LOAD && (segment.p_flags & PF_R); }

// Grows `range` over the readable segments that touch it. Load segments are sorted by address.
AddressRange Joined(const ProgramHeaders& headers, uint64_t bias, AddressRange range) {
  for (int i = 0; i < headers.count; ++i) {
    const AddressRange mapped = Mapped(headers.first[i], bias);
    if (IsReadable(headers.first[i]) && mapped.start == range.end) range.end = mapped.end;
  }
  for (int i = headers.count - 1; i >= 0; --i) {
    const AddressRange mapped = Mapped(headers.first[i], bias);
    if (IsReadable(headers.first[i]) && mapped.end == range.start) range.start = mapped.start;
  }
  return range;
}

// Without program headers: the readable pages around the unwind tables.
AddressRange ReadableAround(uintptr_t tables, AddressRange within) {
  constexpr uintptr_t kFarthest = uintptr_t{32} << 20;  // 1.1 ms of probes in each direction
  if (!within.Contains(tables) || !PageReadable(tables)) return {};
  AddressRange readable{PageOf(tables), PageOf(tables) + kPageBytes};
  while (readable.end < within.end && readable.end - tables < kFarthest && PageReadable(readable.end))
    readable.end += kPageBytes;
  while (readable.start > within.start && tables - readable.start < kFarthest &&
         PageReadable(readable.start - kPageBytes))
    readable.start -= kPageBytes;
  return readable;
}

// Where the header at `tables` says that the unwind entries are; 0: not known. Tools that move the header leave them, and
// segments of 64 KiB pages do not touch.
uintptr_t EntriesOf(uintptr_t tables, AddressRange readable) {
  if (!readable.Contains(tables)) return 0;
  DwarfBytes header(tables, readable.end);
  const uint8_t version = header.Byte(), encoding = header.Byte();
  header.Skip(2);  // encodings of the search table
  const uintptr_t entries = header.Pointer(encoding);
  return version == 1 && !header.failed() ? entries : 0;
}

// Whether notes outside of memory known to be readable can be read.
bool NotesReadable(uintptr_t start, uintptr_t end) {
  constexpr uintptr_t kMaxNotes = 16 * kPageBytes;
  if (end - start > kMaxNotes) return false;
  for (uintptr_t page = PageOf(start); page < end; page += kPageBytes) {
    if (!PageReadable(page)) return false;
  }
  return true;
}

}  // namespace

ModuleImage ReadModuleImage(const dl_find_object& found, HeaderSearch search) {
  ModuleImage image;
  image.range = {reinterpret_cast<uintptr_t>(found.dlfo_map_start), reinterpret_cast<uintptr_t>(found.dlfo_map_end)};
  image.bias = found.dlfo_link_map->l_addr;
  const auto tables = reinterpret_cast<uintptr_t>(found.dlfo_eh_frame);

  const ProgramHeaders headers = FindProgramHeaders(found, search);
  if (headers.first == nullptr) {
    image.segments[image.segment_count++] = {image.range.start, image.range.end, 0};
    image.readable = ReadableAround(tables, image.range);
    return image;
  }
  for (const Elf64_Phdr& header : headers) {
    const AddressRange mapped = Mapped(header, image.bias);
    if (header.p_type != PT_LOAD || mapped.start >= mapped.end) continue;
    if (mapped.start < image.range.start) image.range.start = mapped.start;
    if (mapped.end > image.range.end) image.range.end = mapped.end;
    if ((header.p_flags & PF_X) && image.segment_count < ModuleImage::kMaxSegments) {
      image.segments[image.segment_count++] = {mapped.start, mapped.end, PageOf(header.p_offset)};
    }
    if (!IsReadable(header)) continue;
    if (mapped.Contains(tables)) image.readable = Joined(headers, image.bias, mapped);
    if (mapped.Contains(reinterpret_cast<uintptr_t>(found.dlfo_link_map->l_ld)))
      image.elsewhere = Joined(headers, image.bias, mapped);
  }
  const uintptr_t entries = EntriesOf(tables, image.readable);
  for (const Elf64_Phdr& header : headers) {
    const AddressRange mapped = Mapped(header, image.bias);
    if (IsReadable(header) && mapped.Contains(entries) && !image.readable.Contains(entries))
      image.elsewhere = Joined(headers, image.bias, mapped);
  }
  const uintptr_t first_page = PageOf(reinterpret_cast<uintptr_t>(headers.first));
  for (const Elf64_Phdr& header : headers) {
    const uintptr_t start = image.bias + header.p_vaddr;
    const uintptr_t end = start + header.p_memsz;
    if (header.p_type != PT_NOTE || image.build_id != nullptr || end < start) continue;
    const bool beside_headers = start >= first_page && end <= first_page + kPageBytes;
    const bool in_readable = start >= image.readable.start && end <= image.readable.end;
    if (!beside_headers && !in_readable && !NotesReadable(start, end)) continue;
    const BuildId id = FindBuildId(reinterpret_cast<const void*>(start), end - start);
    if (id.count == 0 || id.count > 64) continue;
    image.build_id = id.bytes;
    image.build_id_bytes = static_cast<uint16_t>(id.count);
  }
  return image;
}

}  // namespace holdfast
