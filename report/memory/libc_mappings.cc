#include "report/memory/libc_mappings.h"

#include <algorithm>
#include <utility>

#include "report/memory/arenas.h"

namespace holdfast {
namespace {

// How much of a mapping lies in ranges, which may overlap: they were read while they changed.
uint64_t BytesWithin(const MemoryMapping& mapping, const std::vector<AddressRange>& ranges) {
  uint64_t within = 0, seen = mapping.start;
  auto at = std::partition_point(ranges.begin(), ranges.end(),
                                 [&](const AddressRange& range) { return range.start < mapping.start; });
  if (at != ranges.begin()) --at;  // may reach into it
  for (; at != ranges.end() && at->start < mapping.end; ++at) {
    const uint64_t from = std::max(at->start, seen), to = std::min(at->end, mapping.end);
    if (from >= to) continue;
    within += to - from;
    seen = to;
  }
  return within;
}

}  // namespace

std::vector<LibcMapping> LibcMappingsOf(const std::vector<MemoryMapping>& mappings,
                                        const std::vector<AddressRange>& own, const std::set<uint64_t>& arenas) {
  LibcMapping heap{.name = "[glibc heap]", .kind = MappingKind::kBrk};
  LibcMapping threads{.name = "[glibc arenas]", .kind = MappingKind::kArena};
  for (const MemoryMapping& mapping : mappings) {
    LibcMapping* to = mapping.name == "[heap]" ? &heap : arenas.contains(mapping.start) ? &threads : nullptr;
    if (to == nullptr) continue;
    const uint64_t bytes = mapping.end - mapping.start - BytesWithin(mapping, own);
    if (bytes == 0) continue;
    to->bytes += bytes;
    ++to->mappings;
  }
  std::vector<LibcMapping> found;
  for (const LibcMapping& one : {heap, threads}) {
    if (one.mappings > 0) found.push_back(one);
  }
  return found;
}

absl::StatusOr<std::vector<LibcMapping>> ReadLibcMappings(pid_t pid, const TableFile& table) {
  absl::StatusOr<std::vector<AddressRange>> own = ReadMappedRanges(table);
  if (!own.ok()) return own.status();
  absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid);
  if (!mappings.ok()) return mappings.status();
  const ProcessMemory memory(pid);
  PageTable pages(pid);
  const std::set<uint64_t> arenas = FindArenas(memory, &pages, false, &*mappings);
  return LibcMappingsOf(*mappings, *own, arenas);
}

}  // namespace holdfast
