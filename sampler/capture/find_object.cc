#include "sampler/capture/find_object.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>

#include "sampler/capture/module_reading.h"
#include "sampler/capture/program_headers.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// Ends a list that runs in circles because its memory was freed meanwhile.
constexpr int kMaxObjects = 65536;
constexpr uint32_t kMaxFirstObjects = 768;

struct Extent {
  uintptr_t start, end;
  uintptr_t tables;  // .eh_frame_hdr; 0: none
  const link_map* map;
};

// The objects loaded with the program, sorted by address. Written before first_count, and that before last_of_first.
constinit Extent first_objects[kMaxFirstObjects] = {};
constinit std::atomic<uint32_t> first_count{0};
// The last of them in the list, or null.
constinit std::atomic<const link_map*> last_of_first{nullptr};

// How memory is read that another thread may be unmapping.
enum class Reading : uint8_t {
  kUnknown,
  kCopied,   // by process_vm_readv, which fails instead of faulting
  kGuarded,  // directly, after a probe, while no dlclose is in progress
};
constinit std::atomic<Reading> known_reading{Reading::kUnknown};

// A filter from before the start may kill for process_vm_readv, so nothing is tried below one. An emulator may lack the
// call, or read another process.
HOLDFAST_COLD Reading ChooseReading() {
  Reading chosen = Reading::kGuarded;
  if (!no_system_calls.load(std::memory_order_relaxed) && RawSyscall(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0) == 0) {
    static constinit const uint64_t known = 0x686f6c6466617374;
    uint64_t copy = 0;
    const iovec to = {&copy, sizeof copy}, from = {const_cast<uint64_t*>(&known), sizeof known};
    const long got = RawSyscall(SYS_process_vm_readv, RawSyscall(SYS_getpid), &to, 1, &from, 1, 0);
    if (got == sizeof known && copy == known) chosen = Reading::kCopied;
  }
  known_reading.store(chosen, std::memory_order_relaxed);
  return chosen;
}

// Reads memory that another thread may be unmapping. kGuarded: unloading inside libc (a dlopen that fails) is not seen
// in advance, so the page is probed as well.
class CarefulReader {
 public:
  CarefulReader() : copies_(Copies()), pid_(copies_ ? RawSyscall(SYS_getpid) : 0) {}
  CarefulReader(const CarefulReader&) = delete;
  CarefulReader& operator=(const CarefulReader&) = delete;

  // False: not readable, or a dlclose is in progress where memory is read directly.
  bool Read(uintptr_t from, void* to, size_t bytes) {
    if (from < kPageBytes || from >= kUserEnd || kUserEnd - from < bytes) return false;
    if (copies_) {
      const iovec here = {to, bytes}, there = {reinterpret_cast<void*>(from), bytes};
      return RawSyscall(SYS_process_vm_readv, pid_, &here, 1, &there, 1, 0) == static_cast<long>(bytes);
    }
    if (!reading_.Begin()) return false;
    for (uintptr_t page = PageOf(from); page < from + bytes; page += kPageBytes) {
      if (PageForbidden(page)) return false;
    }
    memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return true;
  }
  template <typename T>
  bool Read(uintptr_t from, T* to) {
    return Read(from, to, sizeof(T));
  }

 private:
  static bool Copies() {
    if (no_system_calls.load(std::memory_order_relaxed)) return false;
    const Reading known = known_reading.load(std::memory_order_relaxed);
    return (known != Reading::kUnknown ? known : ChooseReading()) == Reading::kCopied;
  }

  const bool copies_;
  const long pid_;
  ModuleReading reading_;
};

// A copy of a link_map's public fields.
struct Object {
  const link_map* map = nullptr;
  uintptr_t bias = 0, dynamic = 0;
};

struct PublicFields {
  uintptr_t l_addr, l_name, l_ld, l_next, l_prev;
};
static_assert(sizeof(PublicFields) == sizeof(link_map) && offsetof(link_map, l_next) == offsetof(PublicFields, l_next));

// The list of objects, which another thread may be changing.
class ListReader {
 public:
  // Starts after `last`, which stays; null: at the beginning.
  ListReader(CarefulReader* reader, const link_map* last)
      : reader_(reader),
        next_(reinterpret_cast<uintptr_t>(last != nullptr ? __atomic_load_n(&last->l_next, __ATOMIC_ACQUIRE)
                                                          : FirstObject())) {}

  // False at the end of the list, or where it cannot be read.
  bool Next(Object* object) {
    PublicFields fields;
    if (next_ == 0 || next_ % alignof(link_map) != 0 || count_++ == kMaxObjects || !reader_->Read(next_, &fields))
      return false;
    *object = {reinterpret_cast<const link_map*>(next_), fields.l_addr, fields.l_ld};
    next_ = fields.l_next;
    return true;
  }
  // Whether the whole list was read.
  bool ended() const { return next_ == 0; }

 private:
  CarefulReader* reader_;
  uintptr_t next_;
  int count_ = 0;
};

// Where program headers are in memory, and how far into their file.
struct HeadersPlace {
  uintptr_t at;
  uint64_t offset;
};

// Adds up program headers.
struct Description {
  Extent extent{~uintptr_t{0}, 0, 0, nullptr};
  // `maps_headers`: a segment maps the headers' part of the file to where they were read.
  bool contains = false, has_dynamic = false, maps_headers = false;

  void Add(const Elf64_Phdr& header, const Object& object, uintptr_t address, const HeadersPlace& headers) {
    const uintptr_t start = object.bias + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      extent.start = std::min(extent.start, PageOf(start));
      extent.end = std::max(extent.end, start + header.p_memsz);
      contains |= address - PageOf(start) < start + header.p_memsz - PageOf(start);
      const uint64_t first = PageOf(header.p_offset);
      const uint64_t last = PageOf(header.p_offset + header.p_filesz + kPageBytes - 1);
      maps_headers |= headers.offset - first < last - first && start - header.p_offset + headers.offset == headers.at;
    }
    if (header.p_type == PT_GNU_EH_FRAME) extent.tables = start;
    has_dynamic |= header.p_type == PT_DYNAMIC && start == object.dynamic;
  }
};

// Reads program headers. False: they are not those of the object.
bool Describe(CarefulReader* reader, const HeadersPlace& place, uint64_t count, const Object& object, uintptr_t address,
              Description* description) {
  constexpr uint64_t kAtOnce = 8, kMaxHeaders = 512;
  if (count == 0 || count > kMaxHeaders) return false;
  *description = {};
  description->extent.map = object.map;
  Elf64_Phdr headers[kAtOnce];
  for (uint64_t i = 0; i < count; i += kAtOnce) {
    const uint64_t part = std::min(kAtOnce, count - i);
    if (!reader->Read(place.at + i * sizeof(Elf64_Phdr), headers, part * sizeof(Elf64_Phdr))) return false;
    for (uint64_t j = 0; j < part; ++j) description->Add(headers[j], object, address, place);
  }
  return description->has_dynamic && description->extent.start < description->extent.end;
}

// A tool that moves the headers may map another copy, with other contents, to where the file has them.
bool DescribeFile(CarefulReader* reader, uintptr_t start, const Object& object, uintptr_t address,
                  Description* description) {
  Elf64_Ehdr header;
  return reader->Read(start, &header) && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_phentsize == sizeof(Elf64_Phdr) &&
         Describe(reader, {start + header.e_phoff, header.e_phoff}, header.e_phnum, object, address, description) &&
         description->maps_headers;
}

// The lowest table that the dynamic section points to. Linkers put these right after the headers.
uintptr_t LowestTable(CarefulReader* reader, const Object& object) {
  constexpr int kMaxEntries = 128;
  const auto* section = reinterpret_cast<const Elf64_Dyn*>(object.dynamic);
  uintptr_t lowest = object.dynamic;
  Elf64_Dyn entry;
  for (int i = 0; i < kMaxEntries; ++i) {
    if (!reader->Read(reinterpret_cast<uintptr_t>(section + i), &entry) || entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_GNU_HASH || entry.d_tag == DT_HASH || entry.d_tag == DT_SYMTAB || entry.d_tag == DT_STRTAB ||
        entry.d_tag == DT_RELA)
      lowest = std::min(lowest, AddressIn(entry, section, object.bias));
  }
  return lowest;
}

// An object begins at its bias, unless its file has addresses of its own (prelink, programs at fixed addresses).
bool DescribeObject(CarefulReader* reader, const Object& object, uintptr_t address, Description* description) {
  if (object.map == nullptr) return false;
  if (DescribeFile(reader, object.bias, object, address, description)) return true;
  if (object.map == FirstObject())
    return Describe(reader, {getauxval(AT_PHDR), 0}, getauxval(AT_PHNUM), object, address, description);
  constexpr int kMaxPages = 64;
  uintptr_t page = PageOf(LowestTable(reader, object));
  for (int i = 0; i < kMaxPages; ++i, page -= kPageBytes) {
    if (DescribeFile(reader, page, object, address, description)) return true;
  }
  return false;
}

// Program headers that a tool has moved to another part of the file (program_headers.h). Reads /proc/self/maps.
bool DescribeRearranged(const Object& object, Description* description) {
  dl_find_object at{};
  at.dlfo_link_map = const_cast<link_map*>(object.map);
  at.dlfo_map_start = reinterpret_cast<void*>(PageOf(object.dynamic));
  *description = {};
  description->extent.map = object.map;
  for (const Elf64_Phdr& header : FindProgramHeaders(at, HeaderSearch::kMappings))
    description->Add(header, object, 0, {});
  return description->has_dynamic;
}

int Fill(const Extent& extent, dl_find_object* found) {
  found->dlfo_flags = 0;
  found->dlfo_map_start = reinterpret_cast<void*>(extent.start);
  found->dlfo_map_end = reinterpret_cast<void*>(extent.end);
  found->dlfo_link_map = const_cast<link_map*>(extent.map);
  found->dlfo_eh_frame = reinterpret_cast<void*>(extent.tables);
  return 0;
}

// The first objects in address order: those at or before an address, and those after.
struct FirstObjectsAround {
  const Extent* before;  // null: none
  const Extent* after;
};
FirstObjectsAround FirstObjectsAt(uintptr_t address) {
  // Acquire: pairs with the release in TabulateFirstObjects.
  const uint32_t count = first_count.load(std::memory_order_acquire);
  Extent* const end = first_objects + count;
  const Extent* after = std::upper_bound(std::begin(first_objects), end, address,
                                         [](uintptr_t value, const Extent& extent) { return value < extent.start; });
  return {after != first_objects ? after - 1 : nullptr, after != end ? after : nullptr};
}

ObjectFinder FinderOfLibc() {
  // The list may still be growing; what is in it now stays: this runs before the program's own code, or in the first
  // call that reaches the library.
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next) {
    const DynamicSymbols symbols = SymbolsAt(map->l_ld, map->l_addr);
    if (const Elf64_Sym* symbol = FindSymbol(symbols, "_dl_find_object", IsDefinition))
      return reinterpret_cast<ObjectFinder>(AddressOf(symbols, *symbol));
  }
  return nullptr;
}

int ChooseFinder(void* address, dl_find_object* found) {
  const ObjectFinder libcs = FinderOfLibc();
  __atomic_store_n(&object_finder, libcs != nullptr ? libcs : SearchForObject, __ATOMIC_RELAXED);
  return object_finder(address, found);
}

}  // namespace

constinit ObjectFinder object_finder = ChooseFinder;

HOLDFAST_COLD int SearchForObject(void* address, dl_find_object* found) {
  const auto pc = reinterpret_cast<uintptr_t>(address);
  // Before the table is read: once it is set, the table is complete.
  const link_map* last = last_of_first.load(std::memory_order_acquire);
  const FirstObjectsAround first = FirstObjectsAt(pc);
  if (first.before != nullptr && pc < first.before->end) return Fill(*first.before, found);
  CarefulReader reader;
  ListReader list(&reader, last);
  Object object, above, below;
  while (list.Next(&object)) {
    if (object.dynamic == 0) continue;
    if (object.dynamic >= pc && (above.map == nullptr || object.dynamic < above.dynamic)) above = object;
    if (object.dynamic < pc && (below.map == nullptr || object.dynamic > below.dynamic)) below = object;
  }
  uintptr_t gap_start = first.before != nullptr ? first.before->end : 0;
  uintptr_t gap_end = first.after != nullptr ? first.after->start : kUserEnd;
  for (const Object& candidate : {above, below}) {
    if (candidate.map == nullptr) continue;
    Description description;
    const bool is_described = DescribeObject(&reader, candidate, pc, &description);
    if (is_described && description.contains) return Fill(description.extent, found);
    const bool is_above = candidate.map == above.map;
    if (is_above) gap_end = std::min(gap_end, is_described ? std::max(pc, description.extent.start) : pc);
    if (!is_above) gap_start = std::max(gap_start, is_described ? std::min(pc, description.extent.end) : pc);
  }
  if (!list.ended()) gap_end = gap_start;
  found->dlfo_map_start = reinterpret_cast<void*>(gap_start);
  found->dlfo_map_end = reinterpret_cast<void*>(gap_end);
  return -1;
}

void NoteFirstObjects() {
  dl_find_object found;
  FindObject(uintptr_t{0}, &found);
  if (object_finder == SearchForObject) TabulateFirstObjects();
}

void TabulateFirstObjects() {
  if (first_count.load(std::memory_order_relaxed) != 0) return;
  uint32_t count = 0;
  const link_map* last = nullptr;
  CarefulReader reader;
  ListReader list(&reader, nullptr);
  for (Object object; count < kMaxFirstObjects && list.Next(&object); last = object.map) {
    Description description;
    // Not in the table, so it must remain in the list that is searched.
    if (!DescribeObject(&reader, object, 0, &description) && !DescribeRearranged(object, &description)) break;
    const Extent& extent = description.extent;
    uint32_t at = count++;
    for (; at > 0 && first_objects[at - 1].start > extent.start; --at) first_objects[at] = first_objects[at - 1];
    first_objects[at] = extent;
  }
  first_count.store(count, std::memory_order_release);
  last_of_first.store(last, std::memory_order_release);
}

}  // namespace holdfast
