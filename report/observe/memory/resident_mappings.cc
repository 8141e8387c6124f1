#include "report/observe/memory/resident_mappings.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

constexpr double ResidentRow::*kParts[] = {&ResidentRow::bytes, &ResidentRow::resident, &ResidentRow::swapped,
                                           &ResidentRow::huge};

struct Piece {
  uint64_t start, end;
  size_t row;  // index into rows_
};

class ResidentMappings {
 public:
  ResidentMappings(const LookedUpBlocks& blocks, PageTable* pages, const Deadline& by)
      : blocks_(blocks.blocks), shares_(blocks.shares), pages_(pages), by_(by) {}

  void AddOwn(const std::vector<OwnRange>& ranges, const TableSnapshot& snapshot) {
    absl::flat_hash_map<Offset, const RowInfo*> known;
    for (const RowInfo& row : snapshot.rows) {
      if (row.profile == ProfileKind::kMap || row.has_thread_stacks()) known.emplace(row.place, &row);
    }
    absl::flat_hash_map<Offset, size_t> index;
    absl::flat_hash_set<std::pair<Offset, uint64_t>> mappings;
    for (const OwnRange& range : ranges) {
      const auto of = known.find(range.row);
      if (of == known.end()) continue;  // made after the snapshot
      const auto [place, added] = index.emplace(range.row, rows_.size());
      if (added) {
        const std::vector<TaggedPc>& frames = snapshot.stacks[of->second->stack].frames;
        rows_.push_back({.row = range.row});
        mapped_by_.push_back(frames.empty() ? 0 : frames.front());
      }
      pieces_.push_back({range.start, range.end, place->second});
      if (mappings.emplace(range.row, range.mapping).second) rows_[place->second].objects += 1;
    }
  }

  void AddLibc(const std::vector<LibcRanges>& libc) {
    for (const LibcRanges& of : libc) {
      for (const OwnRange& range : of.ranges) pieces_.push_back({range.start, range.end, rows_.size()});
      rows_.push_back({.libc = of.name, .objects = static_cast<double>(of.mappings)});
      mapped_by_.push_back(UINT64_MAX - rows_.size());  // different from all others
    }
  }

  // Returns false if the deadline passed.
  bool LookUp() {
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.start < b.start; });
    uint64_t done = 0;
    for (const Piece& piece : pieces_) {
      const uint64_t from = std::max(piece.start, done), to = piece.end;
      if (from >= to) continue;  // read while it changed
      done = to;
      const std::optional<PageTable::Share> share = ShareOf(from, to - from, pages_, by_);
      if (!share.has_value()) return false;
      Add(to - from, *share, 1, &rows_[piece.row]);
      if (!TakeOffBlocks(from, to, &rows_[piece.row])) return false;
    }
    return true;
  }

  std::vector<ResidentRow> Take() {
    absl::flat_hash_map<uint64_t, std::vector<ResidentRow*>> groups;
    for (size_t i = 0; i < rows_.size(); ++i) groups[mapped_by_[i]].push_back(&rows_[i]);
    for (auto& [function, rows] : groups) DistributeMissing(rows);
    for (ResidentRow& row : rows_) row.bytes = std::max(row.bytes, row.resident + row.swapped);
    return std::move(rows_);
  }

 private:
  static void Add(uint64_t bytes, const PageTable::Share& share, double times, ResidentRow* row) {
    row->bytes += times * static_cast<double>(bytes);
    row->resident += times * static_cast<double>(share.resident);
    row->swapped += times * static_cast<double>(share.swapped);
    row->huge += times * static_cast<double>(share.huge);
  }

  bool TakeOffBlocks(uint64_t from, uint64_t to, ResidentRow* row) {
    auto at = std::partition_point(blocks_.begin(), blocks_.end(),
                                   [from](const LiveBlock& block) { return block.address < from; });
    if (at != blocks_.begin()) --at;  // may overlap the range
    for (; at != blocks_.end() && at->address < to; ++at) {
      const uint64_t start = std::max(from, at->address), end = std::min(to, at->address + at->bytes);
      if (start >= end) continue;
      PageTable::Share share = shares_[static_cast<size_t>(at - blocks_.begin())];
      if (end - start != at->bytes) {  // the program has mapped something over a part of it
        const std::optional<PageTable::Share> part = ShareOf(start, end - start, pages_, by_);
        if (!part.has_value()) return false;
        share = *part;
      }
      Add(end - start, share, -1 / SampleProbability(at->bytes, at->interval), row);
      row->has_blocks = true;
    }
    return true;
  }

  static void DistributeMissing(const std::vector<ResidentRow*>& rows) {
    for (const auto part : kParts) {
      double missing = 0, there = 0;
      for (const ResidentRow* row : rows) (row->*part < 0 ? missing : there) += std::abs(row->*part);
      const double kept = missing == 0 ? 1 : there > missing ? 1 - missing / there : 0;
      for (ResidentRow* row : rows) {
        row->has_blocks = row->has_blocks || (kept < 1 && row->*part > 0);
        row->*part = std::max(0.0, row->*part) * kept;
      }
    }
  }

  const std::vector<LiveBlock>& blocks_;
  const std::vector<PageTable::Share>& shares_;
  PageTable* const pages_;
  const Deadline& by_;
  std::vector<Piece> pieces_;
  std::vector<ResidentRow> rows_;
  std::vector<uint64_t> mapped_by_;  // for each row: the function that called mmap
};

}  // namespace

bool AddResidentMappings(const std::vector<OwnRange>& own, const std::vector<LibcRanges>& libc,
                         const LookedUpBlocks& blocks, const TableSnapshot& snapshot, PageTable* pages,
                         const Deadline& by, std::vector<ResidentRow>* to) {
  ResidentMappings mappings(blocks, pages, by);
  mappings.AddOwn(own, snapshot);
  mappings.AddLibc(libc);
  if (!mappings.LookUp()) return false;
  for (const ResidentRow& row : mappings.Take()) to->push_back(row);
  return true;
}

}  // namespace holdfast
