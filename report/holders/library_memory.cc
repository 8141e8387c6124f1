#include "report/holders/library_memory.h"

#include <algorithm>
#include <array>
#include <span>

#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/observe/table/process_info.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/own_memory.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaxLibraryData = 1 << 20;  // without its zero-initialized data

void AddRangesOf(AddressSpace* space, uint64_t list, std::vector<MemoryRange>* ranges) {
  std::array<uint64_t, sizeof(OwnMemoryList) / sizeof(uint64_t)> words;
  if (!space->Read(list, words.data(), sizeof words)) return;
  constexpr size_t kFirst = offsetof(OwnMemoryList, ranges) / sizeof(uint64_t);
  for (size_t i = 0; i < std::min<uint64_t>(words[2], kMaxOwnMemory); ++i) {
    const MemoryRange range{words[kFirst + 2 * i], words[kFirst + 2 * i + 1]};
    if (range.start != 0 && range.start < range.end) ranges->push_back(range);
  }
}

}  // namespace

bool IsHoldfastTable(const MemoryMapping& mapping) {
  const std::string_view file = BaseName(WithoutDeletedMark(mapping.name));
  return file.starts_with("holdfast.") && file.ends_with(kTableSuffix);
}

std::vector<MemoryRange> FindLibraryMemory(AddressSpace* space) {
  std::vector<uint64_t> lists;
  for (const MemoryMapping& mapping : space->mappings()) {
    if (!mapping.writable || mapping.end - mapping.start > kMaxLibraryData || !IsHoldfastLibrary(mapping.name))
      continue;
    ForEachPiece(space, mapping.start, mapping.end, [&](uint64_t at, std::span<const uint64_t> words) {
      for (size_t i = 0; i + 1 < words.size(); ++i) {
        if (words[i] == kOwnMemoryMark[0] && words[i + 1] == kOwnMemoryMark[1])
          lists.push_back(at + i * sizeof(uint64_t));
      }
    });
  }
  std::vector<MemoryRange> ranges;
  for (const uint64_t list : lists) AddRangesOf(space, list, &ranges);
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  for (size_t i = 1; i < ranges.size(); ++i) ranges[i].start = std::max(ranges[i].start, ranges[i - 1].end);
  std::erase_if(ranges, [](const MemoryRange& range) { return range.start >= range.end; });
  return ranges;
}

}  // namespace holdfast
