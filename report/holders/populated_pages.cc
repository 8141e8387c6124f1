#include "report/holders/populated_pages.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <iterator>

#include "report/table/process_files.h"
#include "report/table/process_info.h"

namespace holdfast {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kMostEntries = 8192;
constexpr uint64_t kPresentEntry = uint64_t{1} << 63, kSwappedEntry = uint64_t{1} << 62;
// MADV_GUARD_INSTALL makes such entries, which look swapped: there is no page.
constexpr uint64_t kGuardEntry = uint64_t{1} << 58;

// PAGEMAP_SCAN, which older headers lack: see the kernel's Documentation/admin-guide/mm/pagemap.rst.
struct ScanRegion {
  uint64_t start, end, categories;
};
struct ScanRequest {
  uint64_t size = 0, flags = 0, start = 0, end = 0, walk_end = 0, regions = 0, regions_length = 0, max_pages = 0;
  uint64_t inverted = 0, must_have = 0, any_of = 0, reported = 0;
};
constexpr uint64_t kPresentPage = 1 << 3, kSwappedPage = 1 << 4;
constexpr unsigned long kPagemapScan = _IOWR('f', 16, ScanRequest);

}  // namespace

PopulatedPages::PopulatedPages(pid_t pid) : file_(OpenOfProcess(ThreadWithMemory(pid), "pagemap")) {}

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
  ScanRegion regions[512];
  ScanRequest scan = {.size = sizeof scan,
                      .start = from / kPageBytes * kPageBytes,
                      .end = (end + kPageBytes - 1) / kPageBytes * kPageBytes,
                      .regions = reinterpret_cast<uint64_t>(regions),
                      .regions_length = std::size(regions),
                      .any_of = kPresentPage | kSwappedPage,
                      .reported = kPresentPage | kSwappedPage};
  const int count = ioctl(file_.get(), kPagemapScan, &scan);
  if (count < 0) return false;
  for (int i = 0; i < count; ++i) Add(regions[i].start, regions[i].end);
  loaded_ = {from, std::max<uint64_t>(scan.walk_end, from)};
  return true;
}

void PopulatedPages::LoadByEntries(uint64_t from, uint64_t end) {
  entries_.resize(
      std::min<uint64_t>(kMostEntries, (end - from / kPageBytes * kPageBytes + kPageBytes - 1) / kPageBytes));
  const size_t got = PreadAll(file_.get(), reinterpret_cast<char*>(entries_.data()), entries_.size() * sizeof(uint64_t),
                              from / kPageBytes * sizeof(uint64_t)) /
                     sizeof(uint64_t);
  for (size_t i = 0; i < got; ++i) {
    const bool exists =
        (entries_[i] & kPresentEntry) != 0 || ((entries_[i] & kSwappedEntry) != 0 && (entries_[i] & kGuardEntry) == 0);
    const uint64_t page = (from / kPageBytes + i) * kPageBytes;
    if (exists) Add(page, page + kPageBytes);
  }
  loaded_ = {from, std::max((from / kPageBytes + got) * kPageBytes, from)};
}

void PopulatedPages::Load(uint64_t from, uint64_t end) {
  runs_.clear();
  next_ = 0;
  loaded_ = {from, from};
  if (!file_.valid()) return;
  scans_ = scans_ && LoadByScan(from, end);
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
      return {std::max(from, runs_[next_].start), std::min(end, runs_[next_].end)};
    }
    from = loaded_.end;
  }
  return {end, end};
}

}  // namespace holdfast
