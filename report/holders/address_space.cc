#include "report/holders/address_space.h"

#include <elf.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/holders/kernel_words.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr size_t kMaxPieces = 1024;  // of one process_vm_readv: IOV_MAX
// Fields of proc(5)'s stat, after the name.
constexpr size_t kStartTime = 22 - 3, kStartStack = 28 - 3;

bool SeesOtherThreadIds(pid_t pid) {
  const std::string status = ReadOfProcess(pid, "status");
  const size_t at = status.find("\nNSpid:");
  if (at == std::string::npos) return false;
  const absl::string_view line = absl::string_view(status).substr(at + 1);
  const std::vector<absl::string_view> ids = absl::StrSplit(line.substr(0, line.find('\n')), '\t', absl::SkipEmpty());
  return ids.size() > 2;
}

// Returns the state as in proc(5): 'S', 'Z', …; '?' if the thread is gone.
char StateOfThread(pid_t pid, pid_t thread) {
  const std::string stat = ReadOfProcess(pid, absl::StrCat("task/", thread, "/stat"));
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '?' : stat[name_end + 2];
}

}  // namespace

bool IsMemoryFile(const MemoryMapping& mapping) {
  constexpr absl::string_view kPlaces[] = {"/memfd:", "/dev/shm/", "/dev/zero", "/dev/hugepages", "/SYSV"};
  return std::any_of(std::begin(kPlaces), std::end(kPlaces),
                     [&](absl::string_view place) { return absl::StartsWith(mapping.name, place); });
}

bool IsReadOnlyFile(const MemoryMapping& mapping) {
  return !mapping.writable && !mapping.shared && mapping.name.starts_with('/') && !IsMemoryFile(mapping);
}

bool MayHoldPointers(const MemoryMapping& mapping) {
  const std::string& name = mapping.name;
  if (name.starts_with("[v")) return false;  // vdso, vvar, vsyscall
  if (IsMemoryFile(mapping)) return true;    // another mapping of the same memory may have been writable
  if (name.starts_with("/dev/")) return false;
  return mapping.writable || !mapping.shared;
}

size_t AddressSpace::ReadEach(std::span<const MemoryRange> ranges, char* to) const {
  size_t done = 0;
  for (const MemoryRange& range : ranges) {
    if (!Read(range.start, to, range.end - range.start)) break;
    to += range.end - range.start;
    ++done;
  }
  return done;
}

uint64_t AddressSpace::PopulatedBytes(MemoryRange range) {
  uint64_t bytes = 0;
  while (range.start < range.end) {
    const MemoryRange run = PopulatedRun(range.start, range.end);
    if (run.start >= run.end) break;
    bytes += run.end - run.start;
    range.start = run.end;
  }
  return bytes;
}

const MemoryMapping* AddressSpace::MappingAt(uint64_t address) const { return holdfast::MappingAt(mappings_, address); }

ProcessAddressSpace::ProcessAddressSpace(pid_t pid) : pid_(pid), memory_thread_(ThreadWithMemory(pid)), memory_(pid) {}

absl::StatusOr<std::unique_ptr<ProcessAddressSpace>> ProcessAddressSpace::Open(pid_t pid) {
  std::unique_ptr<ProcessAddressSpace> space(new ProcessAddressSpace(pid));
  if (absl::Status status = space->Refresh(); !status.ok()) return status;
  if (space->memory_.is_denied()) return absl::PermissionDeniedError(WhyUnreadable(LookRightsFor(pid), pid, "holders"));
  for (const MemoryMapping& mapping : space->mappings_) {
    char head[EI_NIDENT] = {};
    if (!mapping.name.starts_with('/') || !space->Read(mapping.start, head, sizeof head) ||
        memcmp(head, ELFMAG, SELFMAG) != 0)
      continue;
    if (head[EI_CLASS] == ELFCLASS64) break;
    return absl::UnimplementedError(absl::StrCat("process ", pid, ": is a 32-bit program, which Holdfast cannot read"));
  }
  return space;
}

// Each exec gives the process another stack, another executable, or both. Neither is known once main has ended.
absl::Status ProcessAddressSpace::CheckProgram() {
  const std::string stat = ReadOfProcess(pid_, "stat");
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(stat).substr(std::min(stat.rfind(')') + 2, stat.size())), ' ');
  if (fields.size() <= kStartStack) return absl::OkStatus();  // it has exited, as the memory map will say
  if (!absl::SimpleAtoi(fields[kStartStack], &stack_start_) || stack_start_ <= 1) stack_start_ = 0;
  const Program now{std::string(fields[kStartTime]), stack_start_,
                    std::string(WithoutDeletedMark(ExecutableOfProcess(pid_)))};
  const Program before = std::exchange(program_, now);
  const bool differs = (!before.start_time.empty() && before.start_time != now.start_time) ||
                       (before.stack_start != 0 && now.stack_start != 0 && before.stack_start != now.stack_start) ||
                       (!before.executable.empty() && !now.executable.empty() && before.executable != now.executable);
  return differs ? absl::AbortedError("the process began another program during the scan. Try again")
                 : absl::OkStatus();
}

absl::Status ProcessAddressSpace::Refresh() {
  if (absl::Status status = CheckProgram(); !status.ok()) return status;
  memory_thread_ = ThreadWithMemory(pid_);
  absl::StatusOr<std::vector<MemoryMapping>> mappings = ReadMemoryMap(pid_);
  if (!mappings.ok()) return mappings.status();
  mappings_ = *std::move(mappings);
  FindExecutable();
  pages_ = std::make_unique<PopulatedPages>(pid_);
  private_pages_ = std::make_unique<PopulatedPages>(pid_, PopulatedPages::Kind::kPrivate);
  threads_.clear();
  uint32_t number = 0;
  for (const auto& [thread, inner] : ThreadsOf(pid_, SeesOtherThreadIds(pid_))) {
    ++number;
    if (const char state = StateOfThread(pid_, thread); state == 'Z' || state == 'X') continue;  // pthread_exit
    TargetThread one{
        .id = thread, .inner_id = inner, .number = number, .name = ThreadName(pid_, thread), .registers = {}};
    if (const std::optional<BlockedCall> call = BlockedCallOf(pid_, thread)) {
      one.pc = call->pc;
      one.sp = call->sp;
      one.registers.assign(call->arguments.begin(), call->arguments.end());
    }
    threads_.push_back(std::move(one));
  }
  kernel_words_ = ReadKernelWords(pid_, memory_thread_);
  return absl::OkStatus();
}

void ProcessAddressSpace::FindExecutable() {
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

bool ProcessAddressSpace::Read(uint64_t address, void* to, size_t bytes) const {
  iovec local{to, bytes}, remote{reinterpret_cast<void*>(address), bytes};
  if (process_vm_readv(memory_thread_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes)) return true;
  // Also reads memory that the process itself has made inaccessible, and works under seccomp filters.
  return memory_.Read(address, to, bytes);
}

size_t ProcessAddressSpace::ReadEach(std::span<const MemoryRange> ranges, char* to) const {
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

MemoryRange ProcessAddressSpace::PopulatedRun(uint64_t from, uint64_t end) {
  const MemoryMapping* mapping = MappingAt(from);
  if (mapping == nullptr || !IsReadOnlyFile(*mapping)) return pages_->FirstRun(from, end);
  return private_pages_->FirstRun(from, end);
}

std::optional<uint64_t> ProcessAddressSpace::SwitchesWhileAsleep() const {
  uint64_t sum = 0;
  for (const auto& [thread, inner] : ThreadsOf(pid_, false)) {
    const std::optional<ThreadSwitches> switches = SwitchesOf(pid_, thread);
    if (!switches.has_value() || !switches->sleeps) return std::nullopt;
    sum += switches->count + (uint64_t{1} << 40);  // counts the threads, too
  }
  return sum;
}

}  // namespace holdfast
