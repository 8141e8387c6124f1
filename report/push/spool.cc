#include "report/push/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/split.h"

namespace holdfast {
namespace {

constexpr char kEntry[] = "entry", kStill[] = "still", kTold[] = "told", kTemporary[] = ".new", kFree[] = "free";

uint64_t HashOf(std::string_view text) {  // the same in every build
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::string KeyOf(std::string_view process) { return fmt::format("{:016x}", HashOf(process)); }

// "http://localhost:4040" → "localhost_4040.5f0c…"
std::string FolderNameOf(std::string_view server) {
  const size_t scheme = server.find("://");
  std::string_view host = scheme == std::string_view::npos ? server : server.substr(scheme + 3);
  host = host.substr(0, std::min(host.find_first_of("/ "), size_t{80}));
  std::string name;
  for (const char c : host) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    name += plain || (c == '.' && !name.empty()) ? c : '_';
  }
  return name + "." + KeyOf(server);
}

absl::StatusOr<FileDescriptor> OpenSubfolder(int above, const std::string& name, const std::string& path) {
  if (mkdirat(above, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, fmt::format("{}/{}", Printable(path), name));
  }
  FileDescriptor folder(openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info;
  if (!folder.valid() || fstat(folder.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}/{}", Printable(path), name));
  }
  if (info.st_uid != geteuid() && geteuid() != 0) {
    return absl::PermissionDeniedError(fmt::format("{}/{}: another user's folder.", Printable(path), name));
  }
  return folder;
}

template <typename Function>
void ForEachFile(int folder, Function function) {
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(copy), closedir);
  while (const dirent* entry = readdir(listing.get())) {
    struct stat info;
    if (fstatat(folder, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
      function(std::string(entry->d_name), static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec);
    }
  }
}

std::string ReadFileAt(int folder, const std::string& name) {
  const FileDescriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file.valid() ? ReadWhole(fmt::format("/proc/self/fd/{}", file.get())) : std::string();
}

std::string NameOf(const Spool::Waiting& entry) {
  return fmt::format("{:012}.{}.{}", entry.number, entry.process, entry.counts ? kEntry : kStill);
}

std::optional<Spool::Waiting> ParseEntryName(const std::string& name, uint64_t bytes) {
  const std::vector<std::string_view> parts = Split(name, ".");
  if (parts.size() != 3 || (parts[2] != kEntry && parts[2] != kStill)) return std::nullopt;
  Spool::Waiting entry{.process = std::string(parts[1]), .bytes = bytes, .counts = parts[2] == kEntry};
  if (!absl::SimpleAtoi(std::string(parts[0]), &entry.number)) return std::nullopt;
  return entry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const std::string& out, const std::string& server) {
  absl::StatusOr<OutputFolder> profiles = OutputFolder::Open(out);
  if (!profiles.ok()) return profiles.status();
  absl::StatusOr<FileDescriptor> all = OpenSubfolder(profiles->folder().get(), ".push", out);
  if (!all.ok()) return all.status();
  const std::string name = FolderNameOf(server);
  absl::StatusOr<FileDescriptor> folder = OpenSubfolder(all->get(), name, out + "/.push");
  if (!folder.ok()) return folder.status();
  std::unique_ptr<Spool> spool(new Spool(out, *std::move(profiles)));
  spool->folder_ = *std::move(folder);
  spool->lock_ = FileDescriptor(openat(spool->folder_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!spool->lock_.valid()) return absl::ErrnoToStatus(errno, fmt::format("{}/.push/{}/lock", Printable(out), name));
  if (flock(spool->lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    std::string pid = ReadFileAt(spool->folder_.get(), "lock");
    return absl::FailedPreconditionError(
        fmt::format("{}: what is written there is pushed to that server already, by process {}.", Printable(out),
                    pid.empty() ? "?" : Printable(pid)));
  }
  const std::string pid = fmt::format("{}", getpid());
  if (ftruncate(spool->lock_.get(), 0) != 0 || pwrite(spool->lock_.get(), pid.data(), pid.size(), 0) < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}/.push/{}/lock", Printable(out), name));
  }
  absl::StatusOr<SentNote> note = SentNote::Open(spool->folder_.get(), "sent");
  if (!note.ok()) {
    return absl::Status(note.status().code(),
                        fmt::format("{}/.push/{}/{}", Printable(out), name, std::string(note.status().message())));
  }
  spool->note_.emplace(*std::move(note));
  spool->ReadWhatIsThere();
  return spool;
}

Spool::~Spool() {
  const std::lock_guard lock(mutex_);
  WriteDownLocked();
  for (const std::string& file : free_files_) unlinkat(folder_.get(), file.c_str(), 0);
}

void Spool::ReadWhatIsThere() {
  std::vector<Waiting> entries;
  constexpr int64_t kForgotten = int64_t{7} * 24 * 3600;  // of a process that ended without a file
  ForEachFile(folder_.get(), [&](const std::string& name, uint64_t bytes, int64_t time_s) {
    if (name.ends_with(kTemporary) || name.ends_with(std::string(".") + kFree)) {
      unlinkat(folder_.get(), name.c_str(), 0);
    } else if (std::optional<Waiting> entry = ParseEntryName(name, bytes)) {
      entries.push_back(*std::move(entry));
    } else if (name.ends_with(std::string(".") + kTold) && time_s > time(nullptr) - kForgotten) {
      finished_.emplace(name.substr(0, name.find('.')), false);
    }
  });
  std::map<std::string, uint64_t> last;
  for (const auto& [process, finished] : finished_) {
    const std::optional<ToldProcess> told = DecodeTold(ReadFileAt(folder_.get(), process + "." + kTold));
    if (told.has_value()) last[process] = told->last_entry;
    earlier_.insert(process);
    next_number_ = std::max(next_number_, told.has_value() ? told->last_entry + 1 : 1);
  }
  std::sort(entries.begin(), entries.end(), [](const Waiting& a, const Waiting& b) { return a.number < b.number; });
  for (const Waiting& entry : entries) {
    next_number_ = std::max(next_number_, entry.number + 1);
    const auto committed = last.find(entry.process);
    const bool is_whole = !entry.counts || (committed != last.end() && entry.number <= committed->second);
    if (is_whole && entry.number != note_->answered()) {
      in_doubt_ = in_doubt_ || (entry.counts && entry.number == note_->under_way());
      Add(entry);
    } else {
      unlinkat(folder_.get(), NameOf(entry).c_str(), 0);
    }
  }
  next_number_ = std::max({next_number_, note_->answered() + 1, note_->under_way() + 1});
  const int aside = openat(folder_.get(), "aside", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (aside < 0) return;
  aside_ = FileDescriptor(aside);
  std::map<std::pair<int64_t, std::string>, uint64_t> by_age;
  ForEachFile(aside, [&](const std::string& name, uint64_t bytes, int64_t time) { by_age[{time, name}] = bytes; });
  for (const auto& [file, bytes] : by_age) {
    set_aside_.emplace_back(file.second, bytes);
    bytes_ += bytes;
  }
}

std::optional<ToldProcess> Spool::ToldOf(const std::string& process) {
  {
    const std::lock_guard lock(mutex_);
    earlier_.erase(KeyOf(process));
  }
  std::optional<ToldProcess> told = DecodeTold(ReadFileAt(folder_.get(), KeyOf(process) + "." + kTold));
  if (told.has_value() && told->process != process) return std::nullopt;
  return told;
}

std::vector<ToldProcess> Spool::Earlier() const {
  const std::lock_guard lock(mutex_);
  std::vector<ToldProcess> all;
  for (const std::string& key : earlier_) {
    std::optional<ToldProcess> told = DecodeTold(ReadFileAt(folder_.get(), key + "." + kTold));
    if (told.has_value()) all.push_back(*std::move(told));
  }
  return all;
}

absl::Status Spool::Write(const std::string& name, std::string_view bytes, const std::string& under) {
  const FileDescriptor file(openat(folder_.get(), under.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  bool whole = file.valid() && ftruncate(file.get(), static_cast<off_t>(bytes.size())) == 0;
  while (whole && !bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    whole = written > 0;
    if (whole) bytes.remove_prefix(static_cast<size_t>(written));
  }
  // What stood under that name is written over the next time.
  if (whole && (renameat2(folder_.get(), under.c_str(), folder_.get(), name.c_str(), RENAME_EXCHANGE) == 0 ||
                renameat(folder_.get(), under.c_str(), folder_.get(), name.c_str()) == 0)) {
    return absl::OkStatus();
  }
  const int error = errno;
  unlinkat(folder_.get(), under.c_str(), 0);
  return absl::ErrnoToStatus(error, fmt::format("{}/.push: cannot be written to", Printable(out_)));
}

absl::Status Spool::WriteEntryFile(const Waiting& entry, std::string_view bytes) {
  std::string under = fmt::format("{}.{}", next_free_, kFree);
  if (free_files_.empty()) {
    ++next_free_;
  } else {
    under = free_files_.back();
    free_files_.pop_back();
  }
  return Write(NameOf(entry), bytes, under);
}

void Spool::RemoveEntryFile(const Waiting& entry) {
  const std::string name = NameOf(entry);
  if (free_files_.size() < kMostFreeFiles) {
    const std::string free = fmt::format("{}.{}", next_free_++, kFree);
    if (renameat(folder_.get(), name.c_str(), folder_.get(), free.c_str()) == 0) {
      free_files_.push_back(free);
      return;
    }
  }
  unlinkat(folder_.get(), name.c_str(), 0);
}

void Spool::Add(Waiting entry) {
  bytes_ += entry.bytes;
  in_memory_ += entry.content.size();
  ++of_process_[entry.process];
  waiting_.push_back(std::move(entry));
}

// It stays where it is where it cannot be written.
bool Spool::WriteEntry(Waiting* entry) {
  if (!WriteEntryFile(*entry, entry->content).ok()) return false;
  in_memory_ -= entry->content.size();
  entry->content = {};
  return true;
}

void Spool::WriteDown() {
  const std::lock_guard lock(mutex_);
  write_all_ = true;
  WriteDownLocked();
}

void Spool::WriteDownLocked() {
  for (Waiting& entry : waiting_) {
    if (in_memory_ == 0 || (!entry.content.empty() && !WriteEntry(&entry))) return;
  }
}

absl::Status Spool::Put(const std::string& process, const PushEntry& entry, bool counts) {
  std::string bytes = EncodeEntry(entry);
  const std::lock_guard lock(mutex_);
  Waiting waiting{.number = next_number_++, .process = KeyOf(process), .bytes = bytes.size(), .counts = counts};
  if (!counts && !write_all_ && in_memory_ + bytes.size() <= kMostInMemory) {
    waiting.content = std::move(bytes);
    Add(std::move(waiting));
    return absl::OkStatus();
  }
  absl::Status status = WriteEntryFile(waiting, bytes);
  if (!status.ok()) return status;
  if (counts) {
    uncommitted_.push_back(std::move(waiting));
  } else {
    Add(std::move(waiting));
  }
  return status;
}

absl::Status Spool::Commit(ToldProcess* told) {
  const std::lock_guard lock(mutex_);
  const std::string key = KeyOf(told->process), name = key + "." + kTold;
  told->last_entry = next_number_ - 1;
  absl::Status status = Write(name, EncodeTold(*told), name + kTemporary);
  if (!status.ok()) AbandonLocked();
  for (Waiting& entry : uncommitted_) Add(std::move(entry));
  uncommitted_.clear();
  if (status.ok()) finished_.emplace(key, false);
  return status;
}

void Spool::Abandon() {
  const std::lock_guard lock(mutex_);
  AbandonLocked();
}

void Spool::AbandonLocked() {
  for (const Waiting& entry : uncommitted_) unlinkat(folder_.get(), NameOf(entry).c_str(), 0);
  uncommitted_.clear();
}

void Spool::Finish(const std::string& process) {
  const std::lock_guard lock(mutex_);
  const auto found = finished_.find(KeyOf(process));
  if (found == finished_.end()) return;
  earlier_.erase(found->first);
  found->second = true;
  RemoveToldIfDone(found->first);
}

void Spool::RemoveToldIfDone(const std::string& key) {
  const auto found = finished_.find(key);
  if (found == finished_.end() || !found->second || of_process_.contains(key)) return;
  for (const char* ending : {"", kTemporary}) unlinkat(folder_.get(), (key + "." + kTold + ending).c_str(), 0);
  finished_.erase(found);
}

size_t Spool::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

std::optional<std::pair<Spool::Waiting, PushEntry>> Spool::Front() {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty()) {
    const Waiting entry = waiting_.front();
    std::optional<PushEntry> content =
        DecodeEntry(entry.content.empty() ? ReadFileAt(folder_.get(), NameOf(entry)) : entry.content);
    note_->Begin(entry.number);
    if (content.has_value()) return std::pair(entry, *std::move(content));
    Remove(entry);  // somebody damaged it, or took it away
  }
  return std::nullopt;
}

void Spool::Remove(const Waiting& entry) {
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.number == entry.number; });
  if (found == waiting_.end()) return;
  if (found->content.empty()) RemoveEntryFile(entry);
  bytes_ -= found->bytes;
  in_memory_ -= found->content.size();
  const std::string process = found->process;
  waiting_.erase(found);
  if (--of_process_[process] == 0) of_process_.erase(process);
  RemoveToldIfDone(process);
}

void Spool::Sent(const Waiting& entry) {
  note_->Done(entry.number);  // first of all: killed behind this line, it is not sent again
  const std::lock_guard lock(mutex_);
  write_all_ = false;
  Remove(entry);
}

void Spool::SetAside(const Waiting& entry, const PushEntry& content) {
  const std::lock_guard lock(mutex_);
  if (!aside_.valid()) {
    absl::StatusOr<FileDescriptor> aside = OpenSubfolder(folder_.get(), "aside", out_);
    if (aside.ok()) aside_ = *std::move(aside);
  }
  const auto label = [&](std::string_view name) {
    const auto found = std::find_if(content.labels.begin(), content.labels.end(),
                                    [&](const PushLabel& one) { return one.first == name; });
    return found == content.labels.end() ? std::string("0") : found->second;
  };
  const std::string name = fmt::format("{}.{}.{:04}.{}.pb.gz", ProgramForFileName(label("program")), label("pid"),
                                       entry.number, content.family);
  const FileDescriptor file(
      openat(aside_.get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.valid() && write(file.get(), content.pprof.data(), content.pprof.size()) > 0) {
    set_aside_.emplace_back(name, content.pprof.size());
    bytes_ += content.pprof.size();
  }
  Remove(entry);
}

uint64_t Spool::Shrink(uint64_t max_bytes) {
  const std::lock_guard lock(mutex_);
  if (max_bytes == 0) return 0;
  uint64_t dropped = 0;
  const auto is_over = [&] { return bytes_ != 0 && bytes_ + profiles_.bytes() > max_bytes; };
  while (!set_aside_.empty() && is_over()) {
    unlinkat(aside_.get(), set_aside_.front().first.c_str(), 0);
    bytes_ -= set_aside_.front().second;
    set_aside_.pop_front();
  }
  while (!waiting_.empty() && is_over()) {
    Remove(waiting_.front());
    ++dropped;
  }
  return dropped;
}

}  // namespace holdfast
