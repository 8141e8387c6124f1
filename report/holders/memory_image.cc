#include "report/holders/memory_image.h"

#include <sys/uio.h>

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr size_t kMaxPieces = 1024;  // of one process_vm_readv: IOV_MAX

bool SeesOtherThreadIds(pid_t pid) {
  const std::string status = ReadOfProcess(pid, "status");
  const size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return false;
  const absl::string_view line = absl::string_view(status).substr(at + 1);
  const std::vector<absl::string_view> ids = absl::StrSplit(line.substr(0, line.find('\n')), '\t', absl::SkipEmpty());
  return ids.size() > 2;
}

}  // namespace

bool MayHoldPointers(const MemoryMapping& mapping) {
  const std::string& name = mapping.name;
  if (name.starts_with("[v")) return false;  // vdso, vvar, vsyscall
  const bool is_memory =
      name.starts_with("/dev/shm/") || name.starts_with("/dev/zero") || name.starts_with("/dev/hugepages");
  if (name.starts_with("/dev/") && !is_memory) return false;
  return mapping.writable || (mapping.is_anonymous() && !mapping.shared);
}

size_t MemoryImage::ReadEach(std::span<const MemoryRange> ranges, char* to) const {
  size_t done = 0;
  for (const MemoryRange& range : ranges) {
    if (!Read(range.start, to, range.end - range.start)) break;
    to += range.end - range.start;
    ++done;
  }
  return done;
}

const MemoryMapping* MemoryImage::MappingAt(uint64_t address) const {
  const auto next = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                     [](uint64_t at, const MemoryMapping& mapping) { return at < mapping.start; });
  if (next == mappings_.begin() || address >= std::prev(next)->end) return nullptr;
  return &*std::prev(next);
}

ProcessImage::ProcessImage(pid_t pid) : pid_(pid), memory_thread_(ThreadWithMemory(pid)), memory_(pid) {}

absl::StatusOr<std::unique_ptr<ProcessImage>> ProcessImage::Open(pid_t pid) {
  std::unique_ptr<ProcessImage> image(new ProcessImage(pid));
  if (absl::Status status = image->Refresh(); !status.ok()) return status;
  if (image->memory_.is_denied()) return absl::PermissionDeniedError(WhyUnreadable(LookRightsFor(pid), pid));
  return image;
}

absl::Status ProcessImage::Refresh() {
  absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid_);
  if (!mappings.ok()) return mappings.status();
  mappings_ = *std::move(mappings);
  FindExecutable();
  pages_ = std::make_unique<PopulatedPages>(pid_);
  threads_.clear();
  uint32_t number = 0;
  for (const auto& [thread, inner] : ThreadsOf(pid_, SeesOtherThreadIds(pid_))) {
    ImageThread one{
        .id = thread, .inner_id = inner, .number = ++number, .name = ThreadName(pid_, thread), .registers = {}};
    if (const std::optional<BlockedCall> call = BlockedCallOf(pid_, thread)) {
      one.pc = call->pc;
      one.sp = call->sp;
      one.registers.assign(call->arguments.begin(), call->arguments.end());
    }
    threads_.push_back(std::move(one));
  }
  return absl::OkStatus();
}

void ProcessImage::FindExecutable() {
  executable_.assign(mappings_.size(), false);
  const std::string map = ReadOfProcess(memory_thread_, "maps");
  for (const absl::string_view line : absl::StrSplit(map, '\n')) {
    // 7f00a000-7f00b000 r-xp 00001000 fe:00 1234   /usr/lib/libc.so.6
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    uint64_t start = 0;
    if (words.size() < 3 || words[1].size() < 3 || words[1][2] != 'x' ||
        !absl::SimpleHexAtoi(words[0].substr(0, words[0].find('-')), &start))
      continue;
    if (const MemoryMapping* mapping = MappingAt(start); mapping != nullptr && mapping->start == start)
      executable_[static_cast<size_t>(mapping - mappings_.data())] = true;
  }
}

bool ProcessImage::Read(uint64_t address, void* to, size_t bytes) const {
  iovec local{to, bytes}, remote{reinterpret_cast<void*>(address), bytes};
  if (process_vm_readv(memory_thread_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes)) return true;
  // Also reads memory that the process itself has made inaccessible, and works under seccomp filters.
  return memory_.Read(address, to, bytes);
}

size_t ProcessImage::ReadEach(std::span<const MemoryRange> ranges, char* to) const {
  iovec remote[kMaxPieces];
  size_t done = 0;
  while (done < ranges.size()) {
    const size_t count = std::min(kMaxPieces, ranges.size() - done);
    size_t bytes = 0;
    for (size_t i = 0; i < count; ++i) {
      const MemoryRange& range = ranges[done + i];
      remote[i] = {reinterpret_cast<void*>(range.start), range.end - range.start};
      bytes += remote[i].iov_len;
    }
    iovec local{to, bytes};
    const ssize_t got = process_vm_readv(memory_thread_, &local, 1, remote, count, 0);
    size_t left = got < 0 ? 0 : static_cast<size_t>(got), complete = 0;
    while (complete < count && remote[complete].iov_len <= left) left -= remote[complete++].iov_len;
    for (size_t i = 0; i < complete; ++i) to += remote[i].iov_len;
    done += complete;
    if (complete == count) continue;
    if (!memory_.Read(ranges[done].start, to, ranges[done].end - ranges[done].start)) return done;
    to += ranges[done].end - ranges[done].start;
    ++done;
  }
  return done;
}

MemoryRange ProcessImage::PopulatedRun(uint64_t from, uint64_t end) { return pages_->FirstRun(from, end); }

std::optional<uint64_t> ProcessImage::SwitchesWhileAsleep() const {
  uint64_t sum = 0;
  for (const auto& [thread, inner] : ThreadsOf(pid_, false)) {
    const std::string status = ReadOfProcess(pid_, absl::StrCat("task/", thread, "/status"));
    bool sleeps = false;
    int counts = 0;
    for (absl::string_view line : absl::StrSplit(status, '\n')) {
      uint64_t count = 0;
      if (absl::ConsumePrefix(&line, "State:")) {
        line = absl::StripLeadingAsciiWhitespace(line);
        sleeps = !line.empty() && (line[0] == 'S' || line[0] == 'T' || line[0] == 't');
      } else if (absl::ConsumePrefix(&line, "voluntary_ctxt_switches:") ||
                 absl::ConsumePrefix(&line, "nonvoluntary_ctxt_switches:")) {
        if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(line), &count)) return std::nullopt;
        sum += count;
        ++counts;
      }
    }
    if (!sleeps || counts != 2) return std::nullopt;
    sum += (uint64_t{1} << 40);  // counts the threads, too
  }
  return sum;
}

}  // namespace holdfast
