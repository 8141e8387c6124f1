#include "report/observe/memory/mappings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "report/observe/memory/pagemap.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr size_t kWindow = 8192;  // entries: 64 KiB
// For smaller blocks it is not worth asking whether they are populated.
constexpr uint64_t kLarge = uint64_t{4} << 20;

// "7f12-7f34 rw-p 00000000 00:00 0    [heap]"
bool ParseHead(const std::string& line, MemoryMapping* mapping) {
  char rights[5] = {};
  int name = 0;
  if (sscanf(line.c_str(), "%lx-%lx %4s %*x %*x:%*x %*u %n", &mapping->start, &mapping->end, rights, &name) != 3 ||
      name == 0)
    return false;
  mapping->readable = rights[0] == 'r';
  mapping->writable = rights[1] == 'w';
  mapping->executable = rights[2] == 'x';
  mapping->shared = rights[3] == 's';
  mapping->name = line.substr(std::min(static_cast<size_t>(name), line.size()));
  return true;
}

}  // namespace

const MemoryMapping* MappingAt(std::span<const MemoryMapping> mappings, uint64_t address) {
  const auto next = std::upper_bound(mappings.begin(), mappings.end(), address,
                                     [](uint64_t at, const MemoryMapping& mapping) { return at < mapping.start; });
  return next == mappings.begin() || address >= std::prev(next)->end ? nullptr : &*std::prev(next);
}

bool HasGuardBelow(std::span<const MemoryMapping> mappings, size_t index) {
  if (index == 0) return false;
  const MemoryMapping& below = mappings[index - 1];
  return below.end == mappings[index].start && below.is_anonymous() && !below.readable && !below.writable &&
         !below.executable;
}

std::vector<MemoryMapping> ParseMappings(std::string_view smaps) {
  std::vector<MemoryMapping> mappings;
  // Some programs have 50,000 mappings with 25 lines each.
  constexpr std::pair<std::string_view, uint64_t MemoryMapping::*> kFields[] = {
      {"Rss:", &MemoryMapping::resident},
      {"Anonymous:", &MemoryMapping::anonymous},
      {"Swap:", &MemoryMapping::swapped},
      {"AnonHugePages:", &MemoryMapping::huge},
      {"Private_Hugetlb:", &MemoryMapping::hugetlb},
      {"Shared_Hugetlb:", &MemoryMapping::hugetlb}};
  while (!smaps.empty()) {
    const std::string_view line = smaps.substr(0, smaps.find('\n'));
    smaps.remove_prefix(std::min(line.size() + 1, smaps.size()));
    const bool is_field = !line.empty() && line[0] >= 'A' && line[0] <= 'Z';
    if (!is_field) {
      if (MemoryMapping mapping; ParseHead(std::string(line), &mapping)) mappings.push_back(std::move(mapping));
      continue;
    }
    constexpr std::string_view kFlags = "VmFlags:";
    if (line.starts_with(kFlags) && !mappings.empty())
      mappings.back().sealed = (std::string(line) + " ").find(" sl ") != std::string::npos;
    for (const auto& [name, field] : kFields) {
      if (!line.starts_with(name) || mappings.empty()) continue;
      uint64_t kib = 0;
      if (sscanf(std::string(line.substr(name.size())).c_str(), "%lu kB", &kib) == 1)
        mappings.back().*field += kib << 10;
    }
  }
  return mappings;
}

static absl::StatusOr<std::vector<MemoryMapping>> ReadFrom(pid_t pid, const char* name) {
  const std::string path = fmt::format("/proc/{}/{}", pid, name);
  const FileDescriptor file = OpenOfProcess(pid, name);
  if (!file.valid() && (errno == ENOENT || errno == ESRCH))
    return absl::NotFoundError(absl::StrCat(path, ": no such file: the process has exited"));
  if (!file.valid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, ": ", strerror(errno),
                     errno == EACCES || errno == EPERM ? " (run holdfast as its user, or as root)" : ""));
  }
  std::vector<MemoryMapping> mappings = ParseMappings(ReadWhole(file));
  if (mappings.empty())
    return absl::NotFoundError(absl::StrCat(path, ": empty: the process has exited, or is a kernel thread"));
  return mappings;
}

absl::StatusOr<std::vector<MemoryMapping>> ReadMappings(pid_t pid) { return ReadFrom(ThreadWithMemory(pid), "smaps"); }
absl::StatusOr<std::vector<MemoryMapping>> ReadMemoryMap(pid_t pid) { return ReadFrom(ThreadWithMemory(pid), "maps"); }

PageTable::PageTable(pid_t pid) : file_(OpenOfProcess(ThreadWithMemory(pid), "pagemap")) {}

PageTable::PageState PageTable::StateOf(uint64_t page) {
  if (page < first_ || page - first_ >= window_.size()) {
    entries_.resize(kWindow);
    first_ = page;
    const ssize_t got =
        pread(file_.get(), entries_.data(), kWindow * sizeof(uint64_t), static_cast<off_t>(page * sizeof(uint64_t)));
    entries_.resize(got > 0 ? static_cast<size_t>(got) / sizeof(uint64_t) : 0);
    failed_ = failed_ || entries_.empty();
    window_.clear();
    bool any = false;
    for (const uint64_t entry : entries_) {
      const bool here = IsPresent(entry);
      any |= here;
      window_.push_back(here ? kHere : IsSwappedOut(entry) ? kSwappedOut : kAway);
    }
    if (window_.empty()) return kAway;
    if (any) LookForHuge();
  }
  return window_[page - first_];
}

// A page that was only read is the shared zero page, which counts for nobody (nor in VmRSS), and huge pages look like
// small ones. Since Linux 6.7 the kernel can tell them apart.
void PageTable::LookForHuge() {
  ScannedPages regions[64];
  const uint64_t end = (first_ + window_.size()) * page_bytes_;
  for (uint64_t from = first_ * page_bytes_; from < end && scans_;) {
    const PagemapScan scan = ScanPagemap(file_.get(), from, end, kZeroPages | kHugePages, regions);
    if (scan.count < 0) scans_ = false;
    if (scan.count < 0 || scan.end <= from) return;
    for (int i = 0; i < scan.count; ++i) {
      for (uint64_t page = regions[i].start / page_bytes_; page < regions[i].end / page_bytes_; ++page) {
        PageState& state = window_[page - first_];
        if (state == kHere) state = (regions[i].categories & kZeroPages) != 0 ? kAway : kHereHuge;
      }
    }
    from = scan.end;
  }
}

uint64_t PageTable::FirstPopulated(uint64_t from, uint64_t end) {
  if (!scans_ || is_denied()) return from;
  ScannedPages region[1] = {};
  const PagemapScan scan =
      ScanPagemap(file_.get(), from / page_bytes_ * page_bytes_, (end + page_bytes_ - 1) / page_bytes_ * page_bytes_,
                  kPresentPages | kSwappedPages, region, /*max_pages=*/1);
  if (scan.count < 0) scans_ = false;
  return scan.count < 0 ? from : scan.count == 0 ? end : std::clamp(region[0].start, from, end);
}

bool PageTable::IsResident(uint64_t address, uint64_t bytes) {
  if (!file_.valid()) return false;
  for (uint64_t page = address / page_bytes_; page * page_bytes_ < address + bytes; ++page) {
    if (const PageState state = StateOf(page); window_.empty() || (state != kHere && state != kHereHuge)) return false;
  }
  return true;
}

std::optional<uint64_t> PageTable::EndOfGuardBelow(uint64_t address, uint64_t from) const {
  std::vector<uint64_t> entries;
  for (uint64_t end = address / page_bytes_, first = from / page_bytes_; end > first;) {
    const uint64_t start = end - std::min<uint64_t>(end - first, kWindow);
    entries.resize(end - start);
    const ssize_t bytes = static_cast<ssize_t>((end - start) * sizeof(uint64_t));
    if (pread(file_.get(), entries.data(), static_cast<size_t>(bytes), static_cast<off_t>(start * sizeof(uint64_t))) !=
        bytes)
      return std::nullopt;
    for (uint64_t page = end; page > start; --page) {
      if (IsGuard(entries[page - 1 - start])) return page * page_bytes_;
    }
    end = start;
  }
  return std::nullopt;
}

PageTable::Share PageTable::Of(uint64_t address, uint64_t bytes) {
  Share share;
  if (!file_.valid() || bytes > UINT64_MAX - address) return share;
  const uint64_t end = address + bytes;
  for (uint64_t at = address; at < end;) {
    if (end - at >= kLarge && (at / page_bytes_ < first_ || at / page_bytes_ - first_ >= window_.size())) {
      at = FirstPopulated(at, end);
      if (at == end) break;
    }
    const uint64_t next = std::min((at / page_bytes_ + 1) * page_bytes_, end);
    const PageState state = StateOf(at / page_bytes_);
    if (window_.empty()) break;  // after the end of the address space
    if (state == kHere || state == kHereHuge) share.resident += next - at;
    if (state == kHereHuge) share.huge += next - at;
    if (state == kSwappedOut) share.swapped += next - at;
    at = next;
  }
  return share;
}

}  // namespace holdfast
