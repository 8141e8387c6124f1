#include "report/observe/table/table_folder.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "report/base/time_budget.h"
#include "report/observe/table/module_record.h"
#include "report/observe/table/ongoing_reader.h"
#include "report/observe/table/ordered_read.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

// The words share one cache line, in the order of ControlWords.
constexpr off_t kWordsOffset = offsetof(TableHeader, exit_request);
constexpr int64_t kRecentEnd = 60 * kSecond;
constexpr int64_t kLongestBeat = 3 * kSecond;  // between two beats of an exporter, on a busy machine
static_assert(offsetof(TableHeader, exported) == kWordsOffset + 4);
static_assert(offsetof(TableHeader, snapshot_request) == kWordsOffset + 8);
static_assert(offsetof(TableHeader, snapshot_done) == kWordsOffset + 12);
static_assert(offsetof(TableHeader, exit_moment) == kWordsOffset + 16);

absl::Status ErrnoStatus(std::string_view doing) { return absl::ErrnoToStatus(errno, std::string(doing)); }

// Prepares a lease on the file. A process that opens the file meanwhile breaks the lease and sends a signal; choose one that
// is ignored by default.
void ChooseLeaseSignal(const FileDescriptor& file) { fcntl(file.get(), F_SETSIG, SIGURG); }

// The kernel grants a read lease only if nobody has the file open for writing or mapped writable. Call ChooseLeaseSignal
// once before. True: or leases are not possible here.
bool IsWritten(const FileDescriptor& file) {
  if (fcntl(file.get(), F_SETLEASE, F_RDLCK) != 0) return true;
  fcntl(file.get(), F_SETLEASE, F_UNLCK);
  return false;
}

template <typename T>
T Field(int fd, size_t offset, T fallback) {
  T value;
  return ReadRange(fd, reinterpret_cast<char*>(&value), offset, offset + sizeof value) ? value : fallback;
}

// A hole costs the writer of a file nothing, and its reader memory. A copy of a table has holes, because `cp` and tar leave
// out pages of zeros: up to the size that a table has by default, each copy is read.
constexpr uint64_t kLargestWithHoles = 64 << 20;

// Returns the end of the records: what the header says, limited by the file's size. `checked`: an earlier result.
absl::StatusOr<uint64_t> UsedBytes(int fd, uint64_t checked = 0) {
  // `used` may be ahead of `backed`.
  struct {
    uint32_t used = 0, backed = 0;
  } units;
  static_assert(offsetof(TableHeader, backed) == offsetof(TableHeader, used) + sizeof units.used);
  ReadRange(fd, reinterpret_cast<char*>(&units), offsetof(TableHeader, used),
            offsetof(TableHeader, used) + sizeof units);
  const uint64_t used = uint64_t{std::min(units.used, units.backed)} * kUnit;
  if (used == checked && used != 0) return used;
  struct stat info;  // read after `used`, because the file grows first
  if (fstat(fd, &info) != 0) return ErrnoStatus("stat");
  const uint64_t in_pages = static_cast<uint64_t>(info.st_blocks) * 512 + sizeof(TableHeader);
  if (used < sizeof(TableHeader) || used > static_cast<uint64_t>(info.st_size)) {
    return absl::DataLossError(absl::StrCat("a table of ", info.st_size, " bytes that claims to use ", used));
  }
  if (used > std::max(in_pages, kLargestWithHoles)) {
    return absl::DataLossError(absl::StrCat("a table with pages for ", in_pages, " bytes that claims to use ", used,
                                            ": if it is a copy, make it with cp --sparse=never"));
  }
  return used;
}

// CPU samples are recorded with their own interval, so the oldest changes may be forgotten. The process applies a change if
// the count is another one than the last that it applied, which may be any.
absl::StatusOr<bool> ChangeFullCpuIntervals(int table, int file, uint64_t interval) {
  IntervalChange changes[kIntervals];
  constexpr size_t kOffset = offsetof(TableHeader, cpu_intervals), kCount = offsetof(TableHeader, cpu.interval_count);
  if (pread(table, changes, sizeof changes, kOffset) != sizeof changes) return ErrnoStatus("read");
  const auto applied = Field<uint32_t>(table, offsetof(TableHeader, cpu.applied), 0);
  uint32_t count = kIntervals / 2;
  if (count == applied) --count;
  std::copy(changes + kIntervals - (count - 1), changes + kIntervals, changes);
  changes[count - 1] = {NowNs(CLOCK_REALTIME), interval};
  if (pwrite(file, changes, sizeof changes, kOffset) != sizeof changes) return ErrnoStatus("write");
  std::atomic_thread_fence(std::memory_order_release);  // the process sees the writes in their order
  if (pwrite(file, &count, sizeof count, kCount) != sizeof count) return ErrnoStatus("write");
  return true;
}

}  // namespace

absl::StatusOr<TableFile> TableFile::Open(const FileDescriptor& folder, const std::string& name, uid_t user) {
  TableFile table;
  // O_NONBLOCK, because a pipe planted under our name must not block us.
  table.file_ =
      FileDescriptor(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!table.file_.valid()) return ErrnoStatus("open");
  struct stat info;
  if (fstat(table.file_.get(), &info) != 0) return ErrnoStatus("stat");
  if (!S_ISREG(info.st_mode)) return absl::PermissionDeniedError("not a regular file");
  if (info.st_uid != user) return absl::PermissionDeniedError(absl::StrCat("belongs to user ", info.st_uid));
  // One read for all fields: a build opens thousands of tables.
  constexpr size_t kHeadBytes = offsetof(TableHeader, counters);
  alignas(TableHeader) char bytes[kHeadBytes] = {};
  CopyUpwards(table.file_.get(), bytes, 0, kHeadBytes);  // for a truncated file, the existing part
  const auto field = [&bytes]<typename T>(size_t offset, T fallback) {
    memcpy(&fallback, bytes + offset, sizeof fallback);
    return fallback;
  };
  if (field(offsetof(TableHeader, magic), uint64_t{0}) != kTableMagic) {
    return absl::UnavailableError("not a table, or still being created");
  }
  const auto version = field(offsetof(TableHeader, version), uint32_t{0});
  if (version != kLayoutVersion) {
    return absl::FailedPreconditionError(absl::StrCat("layout version ", version, ", this holdfast reads ",
                                                      kLayoutVersion, ": use the holdfast that profiled the program"));
  }
  ChooseLeaseSignal(table.file_);
  table.name_ = name;
  const auto text = [&bytes](size_t offset, size_t size) {
    return std::string(bytes + offset, strnlen(bytes + offset, size));
  };
  table.out_ = text(offsetof(TableHeader, out), sizeof(TableHeader::out));
  table.program_ = text(offsetof(TableHeader, program), sizeof(TableHeader::program));
  table.snapshot_when_ = text(offsetof(TableHeader, snapshot_when), sizeof(TableHeader::snapshot_when));
  table.owner_.pid = field(offsetof(TableHeader, pid), uint32_t{0});
  table.owner_.pid_ns = field(offsetof(TableHeader, pid_ns), uint64_t{0});
  table.owner_.start_ticks = field(offsetof(TableHeader, start_ticks), uint64_t{0});
  table.owner_.stack_end = field(offsetof(TableHeader, stack_end), uint64_t{0});
  table.owner_.start_monotonic_ns = field(offsetof(TableHeader, start_monotonic_ns), int64_t{0});
  table.owner_.table_name = name;
  table.snapshot_every_ns_ = field(offsetof(TableHeader, snapshot_every_ns), uint64_t{0});
  table.out_id_ = field(offsetof(TableHeader, out_id), FolderId{});
  table.peak_ = field(offsetof(TableHeader, peak), uint32_t{0}) == 1;
  table.merge_ = field(offsetof(TableHeader, merge), uint32_t{0}) == 1;
  return table;
}

std::optional<TableFile::Rights> TableFile::ReadWith() const {
  struct stat info;
  if (geteuid() != 0 || fstat(file_.get(), &info) != 0) return std::nullopt;
  if (info.st_uid != 0) return Rights{info.st_uid, info.st_gid != 0 ? info.st_gid : kNobody};
  // See MarkOutOfReach in sampler/table/table_owner.h.
  if ((info.st_mode & S_IWUSR) == 0) return Rights{kNobody, kNobody};
  // The program may have changed its user with a direct system call instead of libc's functions.
  const std::optional<uid_t> user = OtherUserThanRoot(owner_);
  return user.has_value() ? std::optional<Rights>({*user, kNobody}) : std::nullopt;
}

void TableFile::Renamed(const std::string& name) { name_ = owner_.table_name = name; }

int64_t TableFile::modified_ns() const {
  struct stat info;
  if (fstat(file_.get(), &info) != 0) return NowNs(CLOCK_REALTIME);
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

uid_t TableFile::user() const {
  struct stat info;
  return fstat(file_.get(), &info) == 0 ? info.st_uid : geteuid();
}

uint64_t TableFile::bytes() const {
  struct stat info;
  return fstat(file_.get(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
}

FolderId TableFile::OutIdHere() const { return out_id_.known() ? out_id_ : FolderIdOf(out_); }

std::string TableFile::key() const {
  struct stat info = {};
  fstat(file_.get(), &info);
  return absl::StrCat(name_, " ", info.st_dev, " ", info.st_ino);
}

bool TableFile::IsSameFile(const TableFile& other) const {
  struct stat ours, theirs;
  return fstat(file_.get(), &ours) == 0 && fstat(other.file_.get(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

absl::StatusOr<ControlWords> TableFile::ReadWords() const {
  ControlWords words;
  if (!ReadRange(file_.get(), reinterpret_cast<char*>(&words), kWordsOffset, kWordsOffset + sizeof words)) {
    return absl::DataLossError("the table is truncated");
  }
  return words;
}

std::vector<ModuleInfo> TableFile::ModulesSince(uint32_t* newest) const {
  constexpr size_t kMax = 10'000;  // bounds a cyclic list
  const int fd = file_.get();
  std::vector<ModuleInfo> modules;
  const auto first = Field<Offset>(fd, offsetof(TableHeader, modules), 0);
  std::string after;
  for (Offset at = first; at != *newest && at >= sizeof(TableHeader) / kUnit && modules.size() < kMax;) {
    const uint64_t start = uint64_t{at} * kUnit;
    // Usually all of it: one segment, a build id and a path.
    alignas(Module) char record[sizeof(Module) + 256];
    const size_t got = PreadAll(fd, record, sizeof record, start);
    if (got < sizeof(Module)) break;
    const auto* module = reinterpret_cast<const Module*>(record);
    after.assign(record + sizeof(Module), std::min<uint64_t>(BytesAfter(*module), got - sizeof(Module)));
    const size_t known = after.size();
    after.resize(BytesAfter(*module));
    const uint64_t rest = start + sizeof(Module) + known;
    if (!ReadRange(fd, after.data() + known, rest, rest + after.size() - known)) break;
    modules.push_back(ModuleInfoOf(*module, after.data()));
    at = module->next;
  }
  *newest = first;
  return modules;
}

// The file is touched when the program ends normally, when an exporter begins to serve it, and by each of the
// exporter's beats. The end of a program that was killed without an exporter is unknown.
int64_t TableFile::EndedAt() const {
  const int64_t now_ns = NowNs(CLOCK_REALTIME), touched_ns = modified_ns();
  const bool in_order = Field<uint32_t>(file_.get(), offsetof(TableHeader, exit_request), 0) != 0;
  const bool was_served = Field<uint32_t>(file_.get(), offsetof(TableHeader, exporter_pid), 0) != 0;
  if (!in_order && (!was_served || now_ns - touched_ns < kLongestBeat)) return now_ns;
  return std::clamp(touched_ns, std::min(Field<int64_t>(file_.get(), offsetof(TableHeader, start_wall_ns), 0), now_ns),
                    now_ns);
}

// Copies modules newer than `known` again, because their places in the copy may have older content. Returns false if
// the file was truncated.
bool ReadModulesAgain(int fd, char* copy, uint64_t end, Offset known) {
  Offset at = reinterpret_cast<TableHeader*>(copy)->modules;
  for (uint64_t left = end; at != known && at >= sizeof(TableHeader) / kUnit;) {
    const uint64_t start = uint64_t{at} * kUnit, fixed = start + sizeof(Module);
    if (fixed > end) break;
    if (!ReadRange(fd, copy + start, start, fixed)) return false;
    const auto* module = reinterpret_cast<const Module*>(copy + start);
    const uint64_t more = BytesAfter(*module);
    if (more > end - fixed || sizeof(Module) + more > left) break;  // the reader of the copy will report the damage
    left -= sizeof(Module) + more;
    const Offset next = module->next;
    if (!ReadRange(fd, copy + fixed, fixed, fixed + more)) return false;
    at = next;
  }
  return true;
}

// The program keeps writing during the copy. Three rounds, each from the previous end to the end of what is now used,
// copy everything that the list heads in the copy refer to:
//  round 1   the header, then the records. A record is complete before a head refers to it.
//  round 2   stacks published while the header was copied; rows added to stacks of round 1 meanwhile
//  round 3   rows added to the stacks of round 2 meanwhile
// After a round without anything new, the next one would have nothing to copy.
// Anything newer is in no list of the copy, because rows are added at the front and refer to older ones. Records are
// allocated in no order. But the target of a list inside a record is after the record, so it is copied after the list's
// head, and is whole: see ordered_read.h.
absl::StatusOr<TableSnapshot> TableFile::TakeSnapshot() const {
  const int fd = file_.get();
  const bool runs = IsWritten(file_);
  const int64_t wall_ns = runs ? NowNs(CLOCK_REALTIME) : EndedAt();
  std::optional<int64_t> program_ns;
  // The wall clock may have been set while the process ran, but rarely since its end a moment ago.
  const int64_t since_end_ns = runs ? 0 : NowNs(CLOCK_REALTIME) - wall_ns;
  if (since_end_ns >= 0 && since_end_ns < kRecentEnd && SharesOurClock(owner_)) program_ns = NowNs() - since_end_ns;
  struct Free {
    void operator()(char* bytes) const { free(bytes); }
  };
  std::unique_ptr<char, Free> copy;
  uint64_t capacity = 0, end = 0;
  Offset first_modules = 0;
  for (int round = 0; round < 3; ++round) {
    const absl::StatusOr<uint64_t> in_use = UsedBytes(fd, end);
    if (!in_use.ok()) return in_use.status();
    const uint64_t used = *in_use;
    if (used < end) return absl::DataLossError("the table shrinks");
    if (used == end && round > 0) break;
    if (used > capacity) {
      capacity = (used + used / 8 + (1 << 20)) / 64 * 64;
      std::unique_ptr<char, Free> larger(static_cast<char*>(aligned_alloc(alignof(TableHeader), capacity)));
      if (larger == nullptr) return absl::ResourceExhaustedError("out of memory");
      if (end > 0) memcpy(larger.get(), copy.get(), end);
      copy = std::move(larger);
    }
    if (!CopyUpwards(fd, copy.get() + end, end, used)) return absl::DataLossError("the table is truncated");
    auto* head = reinterpret_cast<TableHeader*>(copy.get());
    // Read again after the heads of the stacks, so that no stack passes through a module that is missing in the copy.
    if (round == 0) first_modules = head->modules.exchange(Field<Offset>(fd, offsetof(TableHeader, modules), 0));
    head->used = head->backed = static_cast<uint32_t>(used / kUnit);
    end = used;
  }
  if (!ReadModulesAgain(fd, copy.get(), end, first_modules)) return absl::DataLossError("the table is truncated");
  const int64_t monotonic_ns = ReadOngoingAgain(fd, copy.get(), end);
  // Checked after the copy: anything that a program writes after giving up its rights is not in it.
  if (ReadWith().has_value()) return absl::AbortedError("its program may have changed its user");
  absl::StatusOr<TableSnapshot> snapshot = ReadSnapshot(copy.get(), end, wall_ns, program_ns);
  if (!snapshot.ok()) return snapshot;
  if (snapshot->exit_request != 0)
    snapshot->records_hash = absl::HashOf(std::string_view(copy.get(), end).substr(sizeof(TableHeader)));
  // Only waits need to know whether the process has ended meanwhile.
  const bool still_runs = runs && (snapshot->ongoing.empty() || IsWritten(file_));
  EndOngoingAt(still_runs ? monotonic_ns : LastSignOfLife(*snapshot, monotonic_ns), &*snapshot);
  return snapshot;
}

std::optional<uint64_t> TableFile::RecordsHash() const {
  const int fd = file_.get();
  const absl::StatusOr<uint64_t> used = UsedBytes(fd);
  if (!used.ok()) return std::nullopt;
  std::string records(*used - sizeof(TableHeader), '\0');
  if (!ReadRange(fd, records.data(), sizeof(TableHeader), *used)) return std::nullopt;
  return absl::HashOf(std::string_view(records));
}

uint64_t TableFile::OngoingOwnerAt(uint64_t place) const {
  return Field<uint64_t>(file_.get(), place + offsetof(OngoingWait, owner), 0);
}

bool SomebodyWrites(const FileDescriptor& file) {
  ChooseLeaseSignal(file);
  return IsWritten(file);
}

Liveness TableFile::liveness() const { return IsWritten(file_) ? LivenessOf(owner_) : Liveness::kDead; }
Liveness TableFile::liveness(std::optional<pid_t> pid, const std::optional<ProcStat>& stat) const {
  return IsWritten(file_) ? LivenessOf(owner_, pid, stat) : Liveness::kDead;
}

void TableFile::WriteWord(size_t offset, uint32_t value) const {
  const FileDescriptor file(
      open(absl::StrCat("/proc/self/fd/", file_.get()).c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
  // An error needs no handling: a process that waits for the word continues after 2 s.
  [[maybe_unused]] const ssize_t written = pwrite(file.get(), &value, sizeof value, static_cast<off_t>(offset));
}

void TableFile::WriteWordAndWake(size_t offset, uint32_t value) const {
  WriteWord(offset, value);
  constexpr size_t kBytes = kWordsOffset + 64;  // the fewer pages, the sooner they are unmapped
  static_assert(offsetof(TableHeader, leak_check) + sizeof value <= kBytes);
  void* page = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file_.get(), 0);
  if (page == MAP_FAILED) return;
  // The kernel resolves the page itself: for a truncated file it returns EFAULT, and there is no signal here.
  syscall(SYS_futex, static_cast<char*>(page) + offset, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  munmap(page, kBytes);
}

void TableFile::AnswerExit() const { WriteWordAndWake(offsetof(TableHeader, exported), 1); }

bool TableFile::AnswerExitMoment() const {
  const absl::StatusOr<ControlWords> words = ReadWords();
  if (!words.ok() || words->exit_moment != ExitMoment::kAsked) return false;
  WriteWordAndWake(offsetof(TableHeader, exit_moment), static_cast<uint32_t>(ExitMoment::kCopied));
  return true;
}

bool TableFile::AwaitsLeakCheck() const {
  const auto state = static_cast<LeakCheckState>(Field<uint32_t>(file_.get(), offsetof(TableHeader, leak_check), 0));
  return state == LeakCheckState::kAsked || state == LeakCheckState::kBegun;
}

void TableFile::AnswerLeakCheck(LeakCheckState state) const {
  WriteWordAndWake(offsetof(TableHeader, leak_check), static_cast<uint32_t>(state));
}

void TableFile::AnswerSnapshot(uint32_t request) const { WriteWord(offsetof(TableHeader, snapshot_done), request); }

void TableFile::SetExporterPid(int32_t pid) const {
  WriteWord(offsetof(TableHeader, exporter_pid), static_cast<uint32_t>(pid));
}

void TableFile::SetBeat(uint32_t beat) const {
  WriteWord(offsetof(TableHeader, exporter_beat), beat);
  WriteWord(offsetof(TableHeader, exporter_beat_s), static_cast<uint32_t>(NowNs() / kSecond));
}

bool TableFile::WantsResident() const { return Field<uint32_t>(file_.get(), offsetof(TableHeader, resident), 0) != 0; }
bool TableFile::TakesOrphans() const {
  return Field<uint32_t>(file_.get(), offsetof(TableHeader, takes_orphans), 0) != 0;
}
bool TableFile::SetResident(bool wanted) const {
  WriteWord(offsetof(TableHeader, resident), wanted ? 1 : 0);
  return WantsResident() == wanted;
}

bool TableFile::RecordsNoMore() const {
  return (Field<uint32_t>(file_.get(), offsetof(TableHeader, profiles), 0) & kDetachedBit) != 0 ||
         Field<uint32_t>(file_.get(), offsetof(TableHeader, exit_request), 0) != 0;
}
bool TableFile::WantsWall() const {
  return Field<uint32_t>(file_.get(), offsetof(TableHeader, wall), 0) != 0 &&
         (Field<uint32_t>(file_.get(), offsetof(TableHeader, profiles), 0) & kDetachedBit) == 0;
}
bool TableFile::SetWall(bool wanted) const {
  WriteWord(offsetof(TableHeader, wall), wanted ? 1 : 0);
  return (Field<uint32_t>(file_.get(), offsetof(TableHeader, wall), 0) != 0) == wanted;
}
std::optional<int64_t> TableFile::ExecutedAt() const {
  const bool is_attached = (Field<uint32_t>(file_.get(), offsetof(TableHeader, profiles), 0) & kAttachedBit) != 0;
  // A forked child makes its table at its first sample, which says nothing of when it began.
  const bool is_forked = Field<uint32_t>(file_.get(), offsetof(TableHeader, forked), 0) != 0;
  if (is_attached || is_forked || owner_.start_monotonic_ns == 0 || !SharesOurClock(owner_)) return std::nullopt;
  return owner_.start_monotonic_ns;
}
std::vector<OngoingWaitInfo> TableFile::OngoingNow() const { return ReadOngoingNow(file_.get()); }

// An exporter that checks whether anybody maps the file holds a lease on it, for some microseconds.
absl::StatusOr<FileDescriptor> TableFile::OpenForWriting() const {
  const std::string path = absl::StrCat("/proc/self/fd/", file_.get());
  for (int attempt = 0;; ++attempt) {
    FileDescriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.valid()) return file;
    if (errno != EWOULDBLOCK || attempt == 1000) return ErrnoStatus("open for writing");
    const timespec pause = {0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
}

absl::StatusOr<uint32_t> TableFile::RequestSnapshot() const {
  const absl::StatusOr<FileDescriptor> file = OpenForWriting();
  if (!file.ok()) return file.status();
  // If two processes ask at the same time, each waits for its own number or a higher one.
  flock(file->get(), LOCK_EX);
  constexpr size_t kOffset = offsetof(TableHeader, snapshot_request);
  const uint32_t request = Field<uint32_t>(file_.get(), kOffset, 0) + 1;
  if (pwrite(file->get(), &request, sizeof request, kOffset) != sizeof request) return ErrnoStatus("write");
  futimens(file->get(), nullptr);  // notifies the exporter
  return request;
}

absl::StatusOr<bool> TableFile::ChangeInterval(IntervalOf of, uint64_t interval, uint32_t kinds) const {
  const absl::StatusOr<FileDescriptor> file = OpenForWriting();
  if (!file.ok()) return file.status();
  flock(file->get(), LOCK_EX);
  const auto [changes, counter] =
      of == IntervalOf::kHeap
          ? std::pair(offsetof(TableHeader, heap_intervals), offsetof(TableHeader, heap_interval_count))
      : of == IntervalOf::kLocks
          ? std::pair(offsetof(TableHeader, lock_intervals), offsetof(TableHeader, lock_interval_count))
          : std::pair(offsetof(TableHeader, cpu_intervals), offsetof(TableHeader, cpu.interval_count));
  const auto write = [&](size_t offset, const auto& value) {
    std::atomic_thread_fence(std::memory_order_release);  // the process sees the writes in their order
    return pwrite(file->get(), &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
  };
  const auto count = Field<uint32_t>(file_.get(), counter, 0);
  if (count == 0 || count > kIntervals) return absl::DataLossError("corrupt (no interval in force)");
  const auto newest = Field<IntervalChange>(file_.get(), changes + (count - 1) * sizeof(IntervalChange), {});
  const auto profiles = Field<uint32_t>(file_.get(), offsetof(TableHeader, profiles), 0);
  if (interval != 0 && (profiles & kinds) != kinds && !write(offsetof(TableHeader, profiles), profiles | kinds))
    return ErrnoStatus("write");
  // Samples that have ended by themselves, because the program had a timer of its own, are tried again.
  const bool has_ended = of == IntervalOf::kCpu && interval != 0 &&
                         Field(file_.get(), offsetof(TableHeader, cpu.applied), 0U) == count &&
                         Field(file_.get(), offsetof(TableHeader, cpu.state), CpuState::kOn) != CpuState::kOn;
  if (newest.interval == interval && !has_ended) return false;
  // The count that the process has applied may be from before the oldest changes were forgotten: skip it.
  const bool is_applied =
      of == IntervalOf::kCpu && Field(file_.get(), offsetof(TableHeader, cpu.applied), 0U) == count + 1;
  const uint32_t next = count + (is_applied ? 2 : 1);
  if (next > kIntervals && of == IntervalOf::kCpu) return ChangeFullCpuIntervals(file_.get(), file->get(), interval);
  if (count == kIntervals) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it was changed ", kIntervals - 1, " times, and the table has no space for another change"));
  }
  // The process reads the count, so write the interval first.
  const IntervalChange change = {NowNs(CLOCK_REALTIME), interval};
  for (uint32_t i = count; i < next; ++i) {
    if (!write(changes + i * sizeof(IntervalChange), change)) return ErrnoStatus("write");
  }
  if (!write(counter, next)) return ErrnoStatus("write");
  return true;
}

}  // namespace holdfast
