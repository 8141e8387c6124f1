#include "report/table_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sampler/layout.h"

namespace holdfast {
namespace {

constexpr uint64_t kLargestTable = uint64_t{32} << 30;

// The words lie on one cache line, in the order of ControlWords.
constexpr off_t kWordsOffset = offsetof(TableHeader, exit_request);
static_assert(offsetof(TableHeader, exported) == kWordsOffset + 4);
static_assert(offsetof(TableHeader, snapshot_request) == kWordsOffset + 8);
static_assert(offsetof(TableHeader, snapshot_done) == kWordsOffset + 12);

absl::Status Failed(std::string_view doing) { return absl::ErrnoToStatus(errno, std::string(doing)); }

// Reads exactly [start, end); false when the file is shorter.
bool ReadRange(int fd, char* to, uint64_t start, uint64_t end) {
  while (start < end) {
    const ssize_t got = pread(fd, to, end - start, static_cast<off_t>(start));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    start += static_cast<uint64_t>(got);
  }
  return true;
}

template <typename T>
T Field(int fd, size_t offset, T fallback) {
  T value;
  return ReadRange(fd, reinterpret_cast<char*>(&value), offset, offset + sizeof value) ? value : fallback;
}

void WriteWord(int fd, size_t offset, uint32_t value) {
  // Nothing to do about a failure: the target waits its 2 s and goes on.
  [[maybe_unused]] const ssize_t written = pwrite(fd, &value, sizeof value, static_cast<off_t>(offset));
}

int64_t WallNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace

absl::StatusOr<TableFile> TableFile::Open(const FileDescriptor& folder, const std::string& name) {
  TableFile table;
  // Not blocking: a pipe that somebody put there under our name must not hold us up.
  table.file_ = FileDescriptor(openat(folder.get(), name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!table.file_.valid()) return Failed("open");
  struct stat info;
  if (fstat(table.file_.get(), &info) != 0) return Failed("stat");
  if (!S_ISREG(info.st_mode)) return absl::PermissionDeniedError("not a regular file");
  if (info.st_uid != geteuid()) return absl::PermissionDeniedError(absl::StrCat("belongs to user ", info.st_uid));
  const int fd = table.file_.get();
  if (Field<uint64_t>(fd, offsetof(TableHeader, magic), 0) != kTableMagic) {
    return absl::UnavailableError("not a table, or still being made");
  }
  table.name_ = name;
  char text[sizeof(TableHeader::out)];
  static_assert(sizeof(TableHeader::program) <= sizeof text);
  const auto read_text = [&](size_t offset, size_t size) {
    return ReadRange(fd, text, offset, offset + size) ? std::string(text, strnlen(text, size)) : std::string();
  };
  table.out_ = read_text(offsetof(TableHeader, out), sizeof(TableHeader::out));
  table.program_ = read_text(offsetof(TableHeader, program), sizeof(TableHeader::program));
  table.owner_.pid = Field<uint32_t>(fd, offsetof(TableHeader, pid), 0);
  table.owner_.pid_ns = Field<uint64_t>(fd, offsetof(TableHeader, pid_ns), 0);
  table.owner_.start_ticks = Field<uint64_t>(fd, offsetof(TableHeader, start_ticks), 0);
  table.owner_.stack_end = Field<uint64_t>(fd, offsetof(TableHeader, stack_end), 0);
  table.owner_.table_inode = info.st_ino;
  table.snapshot_every_ns_ = Field<uint64_t>(fd, offsetof(TableHeader, snapshot_every_ns), 0);
  return table;
}

int64_t TableFile::modified_ns() const {
  struct stat info;
  if (fstat(file_.get(), &info) != 0) return WallNs();
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

absl::StatusOr<ControlWords> TableFile::ReadWords() const {
  ControlWords words;
  if (!ReadRange(file_.get(), reinterpret_cast<char*>(&words), kWordsOffset, kWordsOffset + sizeof words)) {
    return absl::DataLossError("the table was cut short");
  }
  return words;
}

absl::StatusOr<Snapshot> TableFile::TakeSnapshot() const {
  const int fd = file_.get();
  const auto used_bytes = [fd] { return uint64_t{Field<uint32_t>(fd, offsetof(TableHeader, used), 0)} * kUnit; };
  const int64_t wall_ns = WallNs();
  struct stat info;
  if (fstat(fd, &info) != 0) return Failed("stat");
  const uint64_t used = used_bytes();
  if (used < sizeof(TableHeader) || used > static_cast<uint64_t>(info.st_size) || used > kLargestTable) {
    return absl::DataLossError(absl::StrCat("a table of ", info.st_size, " bytes that claims to use ", used));
  }
  // The heads of all lists are copied before the records that they lead to, and a record is whole before a head leads to
  // it. What the program adds meanwhile lies behind `used`: a row that is new in the copy of an older stack is fetched
  // by the second range. `used` itself is then that of the end.
  std::vector<uint64_t> copy(used / sizeof(uint64_t));
  if (!ReadRange(fd, reinterpret_cast<char*>(copy.data()), 0, used)) return absl::DataLossError("the table was cut short");
  const uint64_t used_after = used_bytes();
  if (used_after > used && used_after <= static_cast<uint64_t>(info.st_size) && used_after <= kLargestTable) {
    copy.resize(used_after / sizeof(uint64_t));
    if (!ReadRange(fd, reinterpret_cast<char*>(copy.data()) + used, used, used_after)) {
      return absl::DataLossError("the table was cut short");
    }
  }
  auto* head = reinterpret_cast<TableHeader*>(copy.data());
  head->used.store(static_cast<uint32_t>(copy.size()), std::memory_order_relaxed);
  if (head->backed.load(std::memory_order_relaxed) < copy.size()) {
    head->backed.store(static_cast<uint32_t>(copy.size()), std::memory_order_relaxed);
  }
  return ReadSnapshot(copy.data(), copy.size() * sizeof(uint64_t), wall_ns);
}

void TableFile::AnswerExit() const {
  WriteWord(file_.get(), offsetof(TableHeader, exported), 1);
  void* page = mmap(nullptr, sizeof(TableHeader), PROT_READ, MAP_SHARED, file_.get(), 0);
  if (page == MAP_FAILED) return;
  // The kernel looks the page up itself: a truncated file is EFAULT there, not a signal here.
  syscall(SYS_futex, static_cast<char*>(page) + offsetof(TableHeader, exported), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  munmap(page, sizeof(TableHeader));
}

void TableFile::AnswerSnapshot(uint32_t request) const {
  WriteWord(file_.get(), offsetof(TableHeader, snapshot_done), request);
}

void TableFile::SetExporterPid(int32_t pid) const {
  WriteWord(file_.get(), offsetof(TableHeader, exporter_pid), static_cast<uint32_t>(pid));
}

std::vector<std::string> DefaultTableFolders() {
  std::vector<std::string> folders = {"/dev/shm"};
  if (const char* runtime = getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0') folders.emplace_back(runtime);
  return folders;
}

absl::StatusOr<FileDescriptor> OpenFolder(const std::string& path) {
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return Failed(path);
  return folder;
}

std::vector<std::string> ListTableNames(const FileDescriptor& folder) {
  std::vector<std::string> names;
  const int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(copy), closedir);
  const std::string prefix = absl::StrCat(kTablePrefix, geteuid(), ".");
  while (const dirent* entry = readdir(listing.get())) {
    if (absl::StartsWith(entry->d_name, prefix) && absl::EndsWith(entry->d_name, kTableSuffix)) names.emplace_back(entry->d_name);
  }
  return names;
}

std::vector<FoundTable> ListTables(const std::string& path) {
  std::vector<FoundTable> found;
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
  if (!folder.ok()) return found;
  for (const std::string& name : ListTableNames(*folder)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(*folder, name);
    if (!table.ok()) continue;
    found.push_back({name, table->out(), table->program(), table->owner(), LivenessOf(table->owner(), true)});
  }
  return found;
}

}  // namespace holdfast
