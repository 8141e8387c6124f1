#include "report/memory/mappings.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "report/table/process_info.h"

namespace holdfast {
namespace {

constexpr size_t kWindow = 8192;  // entries: 64 KiB
constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62, kMappedOnce = uint64_t{1} << 56;

// PAGEMAP_SCAN, which older headers do not have: the kernel's Documentation/admin-guide/mm/pagemap.rst.
struct ScannedRegion {
  uint64_t start, end, categories;
};
struct ScanArguments {
  uint64_t size, flags, start, end, walk_end, regions, regions_length, max_pages;
  uint64_t inverted, must_have, any_of, told;
};
constexpr uint64_t kIsPresent = 1 << 3, kIsSwapped = 1 << 4, kIsZeros = 1 << 5;
constexpr size_t kRegions = 64;  // told at once
constexpr unsigned long kScan = _IOWR('f', 16, ScanArguments);

// "7f12-7f34 rw-p 00000000 00:00 0    [heap]"
bool ParseHead(const std::string& line, MemoryMapping* mapping) {
  char rights[5] = {};
  int name = 0;
  if (sscanf(line.c_str(), "%lx-%lx %4s %*x %*x:%*x %*u %n", &mapping->start, &mapping->end, rights, &name) != 3 ||
      name == 0)
    return false;
  mapping->readable = rights[0] == 'r';
  mapping->writable = rights[1] == 'w';
  mapping->shared = rights[3] == 's';
  mapping->name = line.substr(std::min(static_cast<size_t>(name), line.size()));
  return true;
}

}  // namespace

std::vector<MemoryMapping> ParseMappings(std::string_view smaps) {
  std::vector<MemoryMapping> mappings;
  for (const absl::string_view text : absl::StrSplit(absl::string_view(smaps.data(), smaps.size()), '\n')) {
    const std::string line(text);
    MemoryMapping mapping;
    if (ParseHead(line, &mapping)) {
      mappings.push_back(std::move(mapping));
      continue;
    }
    char field[32];
    uint64_t kib = 0;
    if (mappings.empty() || sscanf(line.c_str(), "%31[A-Za-z_]: %lu kB", field, &kib) != 2) continue;
    const std::string_view name = field;
    if (name == "Rss") mappings.back().resident = kib << 10;
    if (name == "Swap") mappings.back().swapped = kib << 10;
    if (name == "AnonHugePages") mappings.back().huge = kib << 10;
    if (name == "Private_Hugetlb" || name == "Shared_Hugetlb") mappings.back().hugetlb += kib << 10;
  }
  return mappings;
}

static absl::StatusOr<std::vector<MemoryMapping>> ReadFrom(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && (errno == ENOENT || errno == ESRCH))
    return absl::NotFoundError(absl::StrCat(path, ": not there: the process has ended"));
  if (!file.valid()) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, ": ", strerror(errno), errno == EACCES || errno == EPERM ? " (as its user, or as root)" : ""));
  }
  std::vector<MemoryMapping> mappings = ParseMappings(ReadWhole(path));
  if (mappings.empty())
    return absl::NotFoundError(absl::StrCat(path, ": empty: the process has ended, or is no program"));
  return mappings;
}

absl::StatusOr<std::vector<MemoryMapping>> ReadMappings(pid_t pid) {
  return ReadFrom(fmt::format("/proc/{}/smaps", ThreadWithMemory(pid)));
}
absl::StatusOr<std::vector<MemoryMapping>> ReadMemoryMap(pid_t pid) {
  return ReadFrom(fmt::format("/proc/{}/maps", ThreadWithMemory(pid)));
}

PageTable::PageTable(pid_t pid)
    : file_(open(fmt::format("/proc/{}/pagemap", ThreadWithMemory(pid)).c_str(), O_RDONLY | O_CLOEXEC)) {}

uint64_t PageTable::EntryOf(uint64_t page) {
  if (page < first_ || page - first_ >= window_.size()) {
    window_.resize(kWindow);
    first_ = page;
    const ssize_t got =
        pread(file_.get(), window_.data(), kWindow * sizeof(uint64_t), static_cast<off_t>(page * sizeof(uint64_t)));
    window_.resize(got > 0 ? static_cast<size_t>(got) / sizeof(uint64_t) : 0);
    failed_ = failed_ || window_.empty();
    if (window_.empty()) return 0;
    LeaveOutZeros();
  }
  return window_[page - first_];
}

// What was only read is a page of zeros that all have, which counts for nobody (nor in VmRSS). It looks like a page that is shared with
// a forked process; the kernel is asked which it is, from Linux 6.7 on.
void PageTable::LeaveOutZeros() {
  const auto may_be = [](uint64_t entry) { return (entry & kPresent) != 0 && (entry & kMappedOnce) == 0; };
  if (std::none_of(window_.begin(), window_.end(), may_be)) return;
  ScannedRegion regions[kRegions];
  const uint64_t end = (first_ + window_.size()) * kPage;
  for (uint64_t from = first_ * kPage; from < end;) {
    ScanArguments scan = {.size = sizeof scan,
                          .start = from,
                          .end = end,
                          .regions = reinterpret_cast<uint64_t>(regions),
                          .regions_length = std::size(regions),
                          .must_have = kIsZeros,
                          .told = kIsZeros};
    const int count = ioctl(file_.get(), kScan, &scan);
    if (count < 0 || scan.walk_end <= from) return;
    for (int i = 0; i < count; ++i) {
      for (uint64_t page = regions[i].start / kPage; page < regions[i].end / kPage; ++page)
        window_[page - first_] &= ~kPresent;
    }
    from = scan.walk_end;
  }
}

// By what there is, not by page: a TiB of which little was touched takes no longer than that. Nothing where the kernel does not know
// how, before Linux 6.7.
std::optional<PageTable::Share> PageTable::Scanned(uint64_t address, uint64_t bytes) {
  Share share;
  ScannedRegion regions[kRegions];
  const uint64_t end = address + bytes, last = (end + kPage - 1) / kPage * kPage;
  for (uint64_t from = address / kPage * kPage; from < last;) {
    ScanArguments scan = {.size = sizeof scan,
                          .start = from,
                          .end = last,
                          .regions = reinterpret_cast<uint64_t>(regions),
                          .regions_length = std::size(regions),
                          .any_of = kIsPresent | kIsSwapped,
                          .told = kIsPresent | kIsSwapped | kIsZeros};
    const int count = ioctl(file_.get(), kScan, &scan);
    if (count < 0 || scan.walk_end <= from) return std::nullopt;
    for (int i = 0; i < count; ++i) {
      const ScannedRegion& region = regions[i];
      if ((region.categories & kIsZeros) != 0) continue;
      const uint64_t there = std::min(region.end, end) - std::max(region.start, address);
      ((region.categories & kIsPresent) != 0 ? share.resident : share.swapped) += there;
    }
    from = scan.walk_end;
  }
  return share;
}

bool PageTable::IsUsed(uint64_t address) {
  uint64_t entry = 0;
  const auto at = static_cast<off_t>(address / kPage * sizeof entry);
  return !file_.valid() || (pread(file_.get(), &entry, sizeof entry, at) == static_cast<ssize_t>(sizeof entry) &&
                            (entry & (kPresent | kSwapped)) != 0);
}

bool PageTable::IsResident(uint64_t address, uint64_t bytes) {
  if (!file_.valid()) return false;
  for (uint64_t page = address / kPage; page * kPage < address + bytes; ++page) {
    if ((EntryOf(page) & kPresent) == 0) return false;
  }
  return true;
}

PageTable::Share PageTable::Of(uint64_t address, uint64_t bytes) {
  Share share;
  if (!file_.valid() || bytes > UINT64_MAX - kPage - address) return share;
  if (bytes > kWindow * kPage) {
    if (const std::optional<Share> scanned = Scanned(address, bytes)) return *scanned;
  }
  for (uint64_t at = address; at < address + bytes;) {
    const uint64_t end = std::min((at / kPage + 1) * kPage, address + bytes), entry = EntryOf(at / kPage);
    if (window_.empty()) break;  // behind the end of the address space
    if ((entry & kPresent) != 0)
      share.resident += end - at;
    else if ((entry & kSwapped) != 0)
      share.swapped += end - at;
    at = end;
  }
  return share;
}

}  // namespace holdfast
