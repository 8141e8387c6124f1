#include "report/observe/memory/resident_rows.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "report/observe/memory/joined_mappings.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/own_ranges.h"
#include "report/observe/memory/resident_mappings.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

constexpr uint64_t kPiece = uint64_t{64} << 20;  // bytes between checks of the clock

// Returns the thread stacks that libc has mapped: around the stack pointer of a sleeping thread, above a guard page. That
// is a mapping of its own, or since glibc 2.42 a page of the same mapping, which may then have several stacks.
// `left_out`: the number of threads that are running or have no guard page.
std::vector<OwnRange> ThreadStacks(pid_t pid, const TableFile& table, const std::vector<MemoryMapping>& mappings,
                                   const TableSnapshot& snapshot, const std::vector<bool>& gone, const PageTable& pages,
                                   uint64_t* left_out) {
  std::vector<OwnRange> stacks;
  std::map<uint32_t, pid_t> as_we_see;
  for (size_t i = 0; i < snapshot.live_threads.size(); ++i) {
    const LiveThreadInfo& thread = snapshot.live_threads[i];
    const RowInfo& row = snapshot.rows[thread.row];
    if (gone[i] || thread.id == 0 || !row.has_thread_stacks()) continue;
    if (as_we_see.empty()) {
      for (const auto& [id, inner] : ThreadsOf(pid, !table.owner().IsOfOurNamespace())) as_we_see.emplace(inner, id);
    }
    const auto id = as_we_see.find(thread.id);
    if (id == as_we_see.end()) continue;  // the thread has ended meanwhile
    const std::optional<BlockedCall> call = BlockedCallOf(pid, id->second);
    const auto at = std::partition_point(mappings.begin(), mappings.end(), [&](const MemoryMapping& mapping) {
      return call.has_value() && mapping.end <= call->sp;
    });
    std::optional<uint64_t> start;
    if (call.has_value() && at != mappings.end() && at->start <= call->sp && IsPrivateMemory(*at)) {
      start = pages.EndOfGuardBelow(call->sp, std::max(at->start, call->sp - std::min(call->sp, row.class_bytes)));
      const auto index = static_cast<size_t>(at - mappings.begin());
      // The kernel may have joined a stack without a guard with one that has a guard. musl rounds stacks up to a page.
      if (!start.has_value() && HasGuardBelow(mappings, index) &&
          call->sp - at->start < row.class_bytes + pages.page_bytes())
        start = at->start;
    }
    *left_out += start.has_value() ? 0 : 1;
    if (!start.has_value()) continue;
    stacks.push_back({*start, std::min(at->end, *start + row.class_bytes), false, row.place, thread.id});
  }
  return stacks;
}

// Adds the mappings of the program and of libc, if they can be read.
bool AddMappings(pid_t pid, const TableFile& table, const TableSnapshot& snapshot, const std::vector<bool>& gone,
                 const LookedUpBlocks& blocks, PageTable* pages, const Deadline& by, Residency* found) {
  const bool wanted = (snapshot.profiles & KindBit(ProfileKind::kMap)) != 0;
  absl::StatusOr<std::vector<OwnRange>> own = std::vector<OwnRange>();
  if (wanted) own = ReadMappedRanges(table);
  if (!own.ok()) own = std::vector<OwnRange>();
  const absl::StatusOr<MapOfProcess> map = ReadMapOfProcess(pid);
  std::vector<LibcRanges> libc;
  if (map.ok()) {
    libc = LibcRangesOf(map->mappings, *own, map->arenas, ReplacesMalloc(snapshot.modules));
    const std::vector<OwnRange> stacks =
        ThreadStacks(pid, table, map->mappings, snapshot, gone, *pages, &found->stacks_left_out);
    if (wanted) own->insert(own->end(), stacks.begin(), stacks.end());
  }
  return AddResidentMappings(*own, libc, blocks, snapshot, pages, by, &found->rows);
}

}  // namespace

std::optional<PageTable::Share> ShareOf(uint64_t address, uint64_t bytes, PageTable* pages, const Deadline& by) {
  PageTable::Share share;
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    if (by.Passed()) return std::nullopt;
    if (bytes - at > kPiece) at = pages->FirstPopulated(address + at, address + bytes) - address;
    if (at == bytes) break;
    const PageTable::Share piece = pages->Of(address + at, std::min(kPiece, bytes - at));
    share.resident += piece.resident;
    share.swapped += piece.swapped;
    share.huge += piece.huge;
  }
  return share;
}

std::optional<std::vector<PageTable::Share>> AddResidentRows(const std::vector<LiveBlock>& blocks, PageTable* pages,
                                                             const Deadline& by, std::vector<ResidentRow>* to) {
  absl::flat_hash_map<Offset, ResidentRow> rows;
  std::vector<PageTable::Share> shares;
  shares.reserve(blocks.size());
  for (const LiveBlock& block : blocks) {
    const std::optional<PageTable::Share> share = ShareOf(block.address, block.bytes, pages, by);
    if (!share.has_value()) return std::nullopt;
    const double p = SampleProbability(block.bytes, block.interval), variance = (1 - p) / (p * p);
    ResidentRow& row = rows[block.row];
    row.row = block.row;
    row.objects += 1 / p;
    row.objects_variance += variance;
    const auto add = [&](uint64_t part, double* sum, double* sum_variance) {
      const auto of = static_cast<double>(part);
      *sum += of / p;
      *sum_variance += of * of * variance;
    };
    add(block.bytes, &row.bytes, &row.bytes_variance);
    add(share->resident, &row.resident, &row.resident_variance);
    add(share->swapped, &row.swapped, &row.swapped_variance);
    add(share->huge, &row.huge, &row.huge_variance);
    shares.push_back(*share);
  }
  for (const auto& [place, row] : rows) to->push_back(row);
  return shares;
}

absl::StatusOr<Residency> ReadResidency(pid_t pid, const TableFile& table, const TableSnapshot& snapshot,
                                        const std::vector<bool>& gone, const Deadline& by) {
  PageTable pages(pid);
  if (pages.is_denied()) return absl::PermissionDeniedError("its page table may not be read (/proc/PID/pagemap)");
  const absl::StatusOr<std::vector<LiveBlock>> blocks = ReadLiveBlocks(table);
  if (!blocks.ok()) return blocks.status();
  Residency found;
  const auto shares = AddResidentRows(*blocks, &pages, by, &found.rows);
  if (!shares.has_value()) return absl::DeadlineExceededError("its page table takes too long to be read");
  const bool mapped = AddMappings(pid, table, snapshot, gone, {*blocks, *shares}, &pages, by, &found);
  // The process may have ended or executed another program: then the page table was another's, or none.
  if (pages.has_failed() || table.liveness() == Liveness::kDead)
    return absl::NotFoundError("its page table could not be read to the end");
  if (!mapped) found.mappings_left_out = "the page table of what is mapped takes too long to be read";
  found.huge_known = pages.tells_huge();
  return found;
}

}  // namespace holdfast
