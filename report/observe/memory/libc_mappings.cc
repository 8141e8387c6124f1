#include "report/observe/memory/libc_mappings.h"

#include <algorithm>
#include <utility>

#include "report/base/libc_names.h"
#include "report/observe/memory/arenas.h"
#include "sampler/contract/module_flags.h"

namespace holdfast {
namespace {

// Returns the parts of a mapping outside these ranges. The ranges may overlap, because they changed while they were
// read.
std::vector<OwnRange> Outside(const MemoryMapping& mapping, const std::vector<OwnRange>& ranges) {
  std::vector<OwnRange> outside;
  uint64_t seen = mapping.start;
  auto at = std::partition_point(ranges.begin(), ranges.end(),
                                 [&](const OwnRange& range) { return range.start < mapping.start; });
  if (at != ranges.begin()) --at;  // may overlap the mapping
  for (; at != ranges.end() && at->start < mapping.end; ++at) {
    if (seen < at->start) outside.push_back({seen, at->start});
    seen = std::max(seen, at->end);
  }
  if (seen < mapping.end) outside.push_back({seen, mapping.end});
  return outside;
}

}  // namespace

bool UsesMusl(const std::vector<MemoryMapping>& mappings) {
  return HasCodeOfMusl(mappings, [](const MemoryMapping& mapping) {
    return mapping.executable ? std::string_view(mapping.name) : std::string_view();
  });
}

std::vector<LibcRanges> LibcRangesOf(const std::vector<MemoryMapping>& mappings, const std::vector<OwnRange>& own,
                                     const std::set<uint64_t>& arenas, bool replaces_malloc) {
  const char* of_libc = UsesMusl(mappings) ? kMuslHeap : kGlibcHeap;
  LibcRanges heap{.name = replaces_malloc ? kOtherHeap : of_libc, .kind = MappingKind::kBrk};
  LibcRanges threads{.name = kGlibcArenas, .kind = MappingKind::kArena};
  for (const MemoryMapping& mapping : mappings) {
    LibcRanges* to = mapping.name == "[heap]" ? &heap : arenas.contains(mapping.start) ? &threads : nullptr;
    if (to == nullptr) continue;
    const std::vector<OwnRange> ranges = Outside(mapping, own);
    to->ranges.insert(to->ranges.end(), ranges.begin(), ranges.end());
    to->mappings += ranges.empty() ? 0 : 1;
  }
  std::vector<LibcRanges> found;
  for (LibcRanges* one : {&heap, &threads}) {
    if (one->mappings > 0) found.push_back(std::move(*one));
  }
  return found;
}

std::vector<LibcMapping> LibcMappingsOf(const std::vector<MemoryMapping>& mappings, const std::vector<OwnRange>& own,
                                        const std::set<uint64_t>& arenas, bool replaces_malloc) {
  std::vector<LibcMapping> found;
  for (const LibcRanges& of : LibcRangesOf(mappings, own, arenas, replaces_malloc)) {
    found.push_back({.name = of.name, .kind = of.kind, .mappings = of.mappings});
    for (const OwnRange& range : of.ranges) found.back().bytes += range.end - range.start;
  }
  return found;
}

bool ReplacesMalloc(const std::vector<ModuleInfo>& modules) {
  return std::any_of(modules.begin(), modules.end(),
                     [](const ModuleInfo& module) { return (module.flags & kModuleReplacesMalloc) != 0; });
}

absl::StatusOr<MapOfProcess> ReadMapOfProcess(pid_t pid) {
  absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid);
  if (!mappings.ok()) return mappings.status();
  PageTable pages(pid);
  std::set<uint64_t> arenas = FindArenas(ProcessMemory(pid), &pages, ArenasSay::kWhere, &*mappings);
  return MapOfProcess{*std::move(mappings), std::move(arenas)};
}

absl::StatusOr<std::vector<LibcMapping>> ReadLibcMappings(pid_t pid, const TableFile& table,
                                                          const std::vector<ModuleInfo>& modules) {
  const absl::StatusOr<std::vector<OwnRange>> own = ReadMappedRanges(table);
  if (!own.ok()) return own.status();
  const absl::StatusOr<MapOfProcess> map = ReadMapOfProcess(pid);
  if (!map.ok()) return map.status();
  return LibcMappingsOf(map->mappings, *own, map->arenas, ReplacesMalloc(modules));
}

}  // namespace holdfast
