#include "report/holders/populated_pages.h"

#include <algorithm>

#include "report/observe/memory/mappings.h"
#include "report/observe/memory/pagemap.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr size_t kMaxEntries = 8192;
constexpr uint64_t kReadAhead = uint64_t{2} << 20;  // what one page of the page table describes

}  // namespace

bool AnyContains(const std::vector<MemoryRange>& ranges, uint64_t address) {
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), address,
                                     [](uint64_t at, const MemoryRange& range) { return at < range.start; });
  return next != ranges.begin() && std::prev(next)->Contains(address);
}

PopulatedPages::PopulatedPages(pid_t pid, Kind kind)
    : kind_(kind), file_(OpenOfProcess(ThreadWithMemory(pid), "pagemap")) {}

void PopulatedPages::Add(uint64_t start, uint64_t end) {
  if (start >= end) return;
  // A swapped-out page may follow a resident one.
  if (!runs_.empty() && runs_.back().end == start) {
    runs_.back().end = end;
  } else {
    runs_.push_back({start, end});
  }
}

bool PopulatedPages::LoadByScan(uint64_t from, uint64_t end) {
  ScannedPages regions[512];
  const PagemapScan scan =
      ScanPagemap(file_.get(), from / page_bytes_ * page_bytes_, (end + page_bytes_ - 1) / page_bytes_ * page_bytes_,
                  kPresentPages | kSwappedPages, regions, 0, kFilePages);
  if (scan.count < 0) return false;
  for (int i = 0; i < scan.count; ++i) {
    if (kind_ == Kind::kAll || (regions[i].categories & kFilePages) == 0) Add(regions[i].start, regions[i].end);
  }
  loaded_ = {from, std::max<uint64_t>(scan.end, from)};
  return true;
}

void PopulatedPages::LoadByEntries(uint64_t from, uint64_t end) {
  entries_.resize(
      std::min<uint64_t>(kMaxEntries, (end - from / page_bytes_ * page_bytes_ + page_bytes_ - 1) / page_bytes_));
  const size_t got = PreadAll(file_.get(), reinterpret_cast<char*>(entries_.data()), entries_.size() * sizeof(uint64_t),
                              from / page_bytes_ * sizeof(uint64_t)) /
                     sizeof(uint64_t);
  for (size_t i = 0; i < got; ++i) {
    const uint64_t page = (from / page_bytes_ + i) * page_bytes_;
    const bool exists = IsPresent(entries_[i]) || IsSwappedOut(entries_[i]);
    if (exists && (kind_ == Kind::kAll || !IsOfFile(entries_[i]))) Add(page, page + page_bytes_);
  }
  loaded_ = {from, std::max((from / page_bytes_ + got) * page_bytes_, from)};
}

void PopulatedPages::Load(uint64_t from, uint64_t end) {
  runs_.clear();
  next_ = 0;
  loaded_ = {from, from};
  if (!file_.valid()) return;
  // Small reads often follow each other. The kernel refuses a range that ends above the highest address.
  const uint64_t ahead = std::max(end, from < UINT64_MAX - kReadAhead ? from + kReadAhead : from);
  scans_ = scans_ && (LoadByScan(from, ahead) || LoadByScan(from, end));
  if (!scans_) LoadByEntries(from, end);
}

MemoryRange PopulatedPages::FirstRun(uint64_t from, uint64_t end) {
  while (from < end) {
    if (!loaded_.Contains(from)) {
      Load(from, end);
      if (loaded_.end <= from) return {from, end};
    }
    if (next_ > 0 && runs_[next_ - 1].end > from) next_ = 0;
    while (next_ < runs_.size() && runs_[next_].end <= from) ++next_;
    if (next_ < runs_.size()) {
      if (runs_[next_].start >= end) return {end, end};
      // The run may continue after the loaded part.
      if (runs_[next_].end == loaded_.end && loaded_.end < end && loaded_.start != from) {
        Load(from, end);
        continue;
      }
      return {std::max(from, runs_[next_].start), std::min(end, runs_[next_].end)};
    }
    from = loaded_.end;
  }
  return {end, end};
}

}  // namespace holdfast
