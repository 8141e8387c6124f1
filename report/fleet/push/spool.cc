#include "report/fleet/push/spool.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/folder_names.h"
#include "report/base/printable.h"
#include "report/base/split.h"
#include "report/base/time_budget.h"
#include "report/fleet/push/server_profile.h"

namespace holdfast {
namespace {

constexpr char kEntry[] = "entry", kUnchanged[] = "still", kReported[] = "told", kTemporary[] = ".new",
               kFree[] = "free";
constexpr char kRequest[] = "request", kDone[] = "done", kServer[] = "server", kNotes[] = "notes";
constexpr char kRefused[] = "refused", kTaken[] = "taken";
constexpr size_t kMaxDoneLines = 10'000;  // beyond this, processes without files are dropped from the list
enum SpoolField : uint32_t { kRequestEntries = 1 };
enum RequestEntryField : uint32_t { kEntryNumber = 1, kEntryProcess = 2, kEntryContent = 3 };

uint64_t HashOf(std::string_view text) {  // the same in every build
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::string SpoolKeyOf(std::string_view process) { return fmt::format("{:016x}", HashOf(process)); }

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
  return name + "." + SpoolKeyOf(server);
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
    return absl::PermissionDeniedError(fmt::format("{}/{}: belongs to another user.", Printable(path), name));
  }
  return folder;
}

template <typename Function>
void ForEachFile(int folder, Function function) {
  ForEachName(folder, [&](const char* name) {
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode)) {
      function(std::string(name), static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec);
    }
  });
}

std::string ReadFileAt(int folder, const std::string& name) {
  const FileDescriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return file.valid() ? ReadWhole(fmt::format("/proc/self/fd/{}", file.get())) : std::string();
}

// Never 0.
uint64_t SeriesOf(const PushEntry& entry) { return absl::HashOf(entry.family, entry.labels) | 1; }

std::string NameOf(const Spool::Waiting& entry) {
  return fmt::format("{:012}.{}.{}", entry.number, entry.process, entry.counts ? kEntry : kUnchanged);
}

std::string RequestNameOf(uint64_t number) { return fmt::format("{:012}.{}", number, kRequest); }

std::optional<Spool::Waiting> ParseEntryName(const std::string& name, uint64_t bytes) {
  const std::vector<std::string_view> parts = Split(name, ".");
  if (parts.size() != 3 || (parts[2] != kEntry && parts[2] != kUnchanged)) return std::nullopt;
  Spool::Waiting entry{.process = std::string(parts[1]), .bytes = bytes, .counts = parts[2] == kEntry};
  if (!absl::SimpleAtoi(std::string(parts[0]), &entry.number)) return std::nullopt;
  return entry;
}

// Returns the entries in the file of a request, with their contents. From a truncated file, returns the complete
// entries.
std::vector<Spool::Waiting> DecodeRequest(std::string_view bytes) {
  std::vector<Spool::Waiting> entries;
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next(kRequestEntries)) {
      protozero::pbf_reader message = reader.get_message();
      Spool::Waiting entry;
      entry.counts = false;
      while (message.next()) {
        if (message.tag() == kEntryNumber) {
          entry.number = message.get_uint64();
        } else if (message.tag() == kEntryProcess) {
          entry.process = message.get_string();
        } else if (message.tag() == kEntryContent) {
          entry.content = message.get_bytes();
        } else {
          message.skip();
        }
      }
      entry.bytes = entry.content.size();
      if (!entry.content.empty()) entries.push_back(std::move(entry));
    }
  } catch (const protozero::exception&) {
  }
  return entries;
}

// All files of a spool that another pusher left.
struct SpoolFiles {
  std::vector<Spool::Waiting> entries;  // by number; entries of requests with their contents
  std::map<std::string, ReportedProcess> reported;
  uint64_t newest = 0;
};

SpoolFiles SpoolFilesOf(int folder) {
  SpoolFiles files;
  std::vector<std::string> requests;
  ForEachFile(folder, [&](const std::string& name, uint64_t bytes, int64_t) {
    if (std::optional<Spool::Waiting> entry = ParseEntryName(name, bytes)) {
      files.entries.push_back(*std::move(entry));
    } else if (name.ends_with(std::string(".") + kRequest)) {
      requests.push_back(name);
    } else if (name.ends_with(std::string(".") + kReported)) {
      if (std::optional<ReportedProcess> reported = DecodeReported(ReadFileAt(folder, name))) {
        files.newest = std::max(files.newest, reported->last_entry);
        files.reported.emplace(name.substr(0, name.find('.')), *std::move(reported));
      }
    }
  });
  for (const std::string& name : requests) {
    for (Spool::Waiting& entry : DecodeRequest(ReadFileAt(folder, name))) {
      const bool is_there = std::any_of(files.entries.begin(), files.entries.end(),
                                        [&](const Spool::Waiting& one) { return one.number == entry.number; });
      if (!is_there) files.entries.push_back(std::move(entry));
    }
  }
  std::sort(files.entries.begin(), files.entries.end(),
            [](const Spool::Waiting& a, const Spool::Waiting& b) { return a.number < b.number; });
  if (!files.entries.empty()) files.newest = std::max(files.newest, files.entries.back().number);
  return files;
}

// Whether both describe the same moment of the same process.
bool AreAlike(const ReportedProcess& a, const ReportedProcess& b) {
  for (size_t i = 0; i < a.kinds.size(); ++i) {
    if (a.kinds[i].time_nanos() != b.kinds[i].time_nanos()) return false;
  }
  return a.process == b.process;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Open(const std::string& out, const std::string& server,
                                                   const std::string& tenant) {
  absl::StatusOr<OutputFolder> profiles = OutputFolder::Open(out);
  if (!profiles.ok()) return profiles.status();
  absl::StatusOr<FileDescriptor> all = OpenSubfolder(profiles->folder().get(), ".push", out);
  if (!all.ok()) return all.status();
  const std::string name = FolderNameOf(tenant.empty() ? server : server + " " + tenant);
  absl::StatusOr<FileDescriptor> folder = OpenSubfolder(all->get(), name, out + "/.push");
  if (!folder.ok()) return folder.status();
  std::unique_ptr<Spool> spool(new Spool(out, *std::move(profiles)));
  spool->folder_ = *std::move(folder);
  spool->url_ = server;
  spool->tenant_ = tenant;
  spool->lock_ = FileDescriptor(openat(spool->folder_.get(), "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!spool->lock_.valid()) return absl::ErrnoToStatus(errno, fmt::format("{}/.push/{}/lock", Printable(out), name));
  if (flock(spool->lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    std::string pid = ReadFileAt(spool->folder_.get(), "lock");
    return absl::FailedPreconditionError(fmt::format("{}: process {} already pushes these profiles to that server.",
                                                     Printable(out), pid.empty() ? "?" : Printable(pid)));
  }
  const std::string pid = fmt::format("{}", getpid());
  if (ftruncate(spool->lock_.get(), 0) != 0 || pwrite(spool->lock_.get(), pid.data(), pid.size(), 0) < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}/.push/{}/lock", Printable(out), name));
  }
  absl::StatusOr<SentNote> note = SentNote::Open(spool->folder_.get(), kNotes);
  if (!note.ok()) {
    return absl::Status(note.status().code(),
                        fmt::format("{}/.push/{}/{}", Printable(out), name, std::string(note.status().message())));
  }
  spool->note_.emplace(*std::move(note));
  const std::lock_guard lock(spool->mutex_);
  spool->TakeOverOthers(all->get(), name);
  spool->ReadExisting();
  return spool;
}

Spool::~Spool() {
  const std::lock_guard lock(mutex_);
  WriteDownLocked();
  if (in_memory_ == 0) {
    for (const auto& [number, entries] : requests_) unlinkat(folder_.get(), RequestNameOf(number).c_str(), 0);
  }
  for (const std::string& file : free_files_) unlinkat(folder_.get(), file.c_str(), 0);
}

void Spool::WriteServer() {
  const std::string text = fmt::format("{}\n{}\n{}\n", url_, tenant_, taken_ ? kTaken : refused_ ? kRefused : "");
  // On a full disk the file is missing; then nothing can be taken over from here.
  [[maybe_unused]] const absl::Status written = Write(kServer, text, std::string(kServer) + kTemporary);
}

void Spool::TakeOverOthers(int all, const std::string& own) {
  const std::string text = ReadFileAt(folder_.get(), kServer);
  const std::vector<std::string_view> ours = Split(text, "\n");
  refused_ = ours.size() > 2 && ours[2] == kRefused;
  taken_ = ours.size() > 2 && ours[2] == kTaken;
  if (text.empty()) WriteServer();
  ForEachName(all, [&](const std::string& name) {
    if (name == own || name.starts_with('.')) return;
    const FileDescriptor other(openat(all, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info;
    if (!other.valid() || fstat(other.get(), &info) != 0 || info.st_uid != geteuid()) return;
    const std::string its_text = ReadFileAt(other.get(), kServer);
    const std::vector<std::string_view> its = Split(its_text, "\n");
    if (its.size() < 3 || its[0] != url_ || its[2] != kRefused) return;
    const FileDescriptor its_lock(openat(other.get(), "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (!its_lock.valid() || flock(its_lock.get(), LOCK_EX | LOCK_NB) != 0) return;
    TakeOver(other.get());
    unlinkat(all, name.c_str(), AT_REMOVEDIR);  // profiles set aside remain there
  });
}

// Entries get new numbers, after all of ours. `reported` is written before the entries are moved: if the pusher is killed
// in between, the next one repeats this and finds the same `reported` on both sides.
//
// If our own `reported` differs, the increases after it already include these entries. They are dropped.
void Spool::TakeOver(int other) {
  SpoolFiles files = SpoolFilesOf(other);
  uint64_t number = std::max(SpoolFilesOf(folder_.get()).newest, note_->newest());
  std::set<std::string> known_here;
  for (const auto& [key, reported] : files.reported) {
    const std::optional<ReportedProcess> ours = DecodeReported(ReadFileAt(folder_.get(), key + "." + kReported));
    if (ours.has_value() && !AreAlike(*ours, reported)) known_here.insert(key);
  }
  std::vector<std::pair<Waiting, uint64_t>> moved;  // and its new number
  std::map<std::string, uint64_t> last;
  for (const Waiting& entry : files.entries) {
    const auto reported = files.reported.find(entry.process);
    const bool is_whole =
        !entry.counts || (reported != files.reported.end() && entry.number <= reported->second.last_entry);
    if (!is_whole || (entry.counts && known_here.contains(entry.process))) continue;
    moved.emplace_back(entry, last[entry.process] = ++number);
  }
  for (auto& [key, reported] : files.reported) {
    if (known_here.contains(key)) continue;
    reported.last_entry = last[key];
    const std::string name = key + "." + kReported;
    if (!Write(name, EncodeReported(reported), name + kTemporary).ok()) return;
  }
  for (const auto& [entry, new_number] : moved) {
    Waiting here = entry;
    here.number = new_number;
    const std::string name = NameOf(here);
    const bool is_here = entry.content.empty()
                             ? renameat(other, NameOf(entry).c_str(), folder_.get(), name.c_str()) == 0
                             : Write(name, entry.content, name + kTemporary).ok();
    if (!is_here) return;
    ++taken_over_;
  }
  std::string done = ReadFileAt(folder_.get(), kDone);
  const std::string its_done = ReadFileAt(other, kDone);
  for (const std::string_view line : Split(its_done, "\n")) {
    const std::string key(line.substr(0, line.find(' ')));
    if (key.size() == SpoolKeyOf("").size() && !known_here.contains(key)) done += fmt::format("{}\n", line);
  }
  if (!done.empty() && !Write(kDone, done, std::string(kDone) + kTemporary).ok()) return;
  std::vector<std::string> all;
  ForEachFile(other, [&](const std::string& name, uint64_t, int64_t) { all.push_back(name); });
  for (const std::string& name : all) unlinkat(other, name.c_str(), 0);
}

void Spool::ReadExisting() {
  constexpr int64_t kForgotten = int64_t{7} * 24 * 3600;  // for a process that exited without a file
  bool is_older_release = false;
  std::vector<std::string> requests;
  ForEachFile(folder_.get(), [&](const std::string& name, uint64_t, int64_t time_s) {
    if (name.ends_with(kTemporary) || name.ends_with(std::string(".") + kFree)) {
      unlinkat(folder_.get(), name.c_str(), 0);
    } else if (name.ends_with(std::string(".") + kReported) && time_s > time(nullptr) - kForgotten) {
      finished_.emplace(name.substr(0, name.find('.')), false);
    } else if (name.ends_with(std::string(".") + kRequest)) {
      requests.push_back(name);
    }
    is_older_release = is_older_release || name == "sent";
  });
  const SpoolFiles files = SpoolFilesOf(folder_.get());
  for (const auto& [process, finished] : finished_) earlier_.insert(process);
  next_number_ = std::max(files.newest, note_->newest()) + 1;
  for (Waiting entry : files.entries) {
    const auto reported = files.reported.find(entry.process);
    const bool is_whole =
        !entry.counts || (reported != files.reported.end() && entry.number <= reported->second.last_entry);
    if (!is_whole || note_->answered(entry.number)) {
      unlinkat(folder_.get(), NameOf(entry).c_str(), 0);
      continue;
    }
    if (note_->under_way(entry.number) || !entry.content.empty()) {
      in_doubt_ = true;
      if (PushEntry content; !entry.counts && Load(&entry, &content)) in_doubt_since_[entry.process] = content.until_ns;
    }
    Add(std::move(entry));
  }
  WriteDownLocked();
  if (in_memory_ == 0) {
    for (const std::string& name : requests) unlinkat(folder_.get(), name.c_str(), 0);
  }
  ReadDone(is_older_release);
  ReadAside();
}

void Spool::ReadDone(bool is_older_release) {
  const std::string text = ReadFileAt(folder_.get(), kDone);
  for (const std::string_view line : Split(text, "\n")) {
    const std::vector<std::string_view> fields = Split(line, " ");
    uint32_t pid = 0;
    if (fields.size() == 2 && fields[0] == "since") {
      if (!absl::SimpleAtoi(std::string(fields[1]), &done_since_ns_)) done_since_ns_ = 0;
    } else if (fields.size() >= 3 && absl::SimpleAtoi(std::string(fields[1]), &pid)) {
      const size_t program = fields[0].size() + fields[1].size() + 2;
      done_[std::string(fields[0])] = {pid, std::string(line.substr(program))};
      ++done_lines_;
    }
  }
  if (!text.empty() || !is_older_release) return;
  // An older release kept no such list. Do not report again what it reported.
  done_since_ns_ = NowNs(CLOCK_REALTIME);
  [[maybe_unused]] const absl::Status written =
      Write(kDone, fmt::format("since {}\n", done_since_ns_), std::string(kDone) + kTemporary);
  unlinkat(folder_.get(), "sent", 0);
}

void Spool::NoteDone(const std::string& key, uint32_t pid, const std::string& program) {
  if (!done_.emplace(key, std::pair(pid, program)).second) return;
  if (++done_lines_ > kMaxDoneLines) {
    std::set<std::pair<uint32_t, std::string>> there;
    for (const OutputFolder::Entry& file : profiles_.List()) there.emplace(file.name.pid, file.name.program);
    std::erase_if(done_, [&](const auto& one) { return one.first != key && !there.contains(one.second); });
    std::string text = done_since_ns_ != 0 ? fmt::format("since {}\n", done_since_ns_) : "";
    for (const auto& [process, names] : done_) text += fmt::format("{} {} {}\n", process, names.first, names.second);
    done_lines_ = 0;
    if (!Write(kDone, text, std::string(kDone) + kTemporary).ok()) done_.erase(key);
    return;
  }
  const FileDescriptor file(openat(folder_.get(), kDone, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  const std::string line = fmt::format("{} {} {}\n", key, pid, program);
  if (file.valid() && write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  done_.erase(key);  // disk full: its `reported` remains and says the same
}

void Spool::ReadAside() {
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

bool Spool::IsDone(const std::string& process) const {
  const std::lock_guard lock(mutex_);
  return done_.contains(SpoolKeyOf(process));
}

int64_t Spool::InDoubtSince(const std::string& process) const {
  const std::lock_guard lock(mutex_);
  const auto found = in_doubt_since_.find(SpoolKeyOf(process));
  return found == in_doubt_since_.end() ? 0 : found->second;
}

std::optional<ReportedProcess> Spool::ReportedOf(const std::string& process) {
  {
    const std::lock_guard lock(mutex_);
    earlier_.erase(SpoolKeyOf(process));
  }
  std::optional<ReportedProcess> reported =
      DecodeReported(ReadFileAt(folder_.get(), SpoolKeyOf(process) + "." + kReported));
  if (reported.has_value() && reported->process != process) return std::nullopt;
  return reported;
}

std::vector<ReportedProcess> Spool::Earlier() const {
  const std::lock_guard lock(mutex_);
  std::vector<ReportedProcess> all;
  for (const std::string& key : earlier_) {
    std::optional<ReportedProcess> reported = DecodeReported(ReadFileAt(folder_.get(), key + "." + kReported));
    if (reported.has_value()) all.push_back(*std::move(reported));
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
  // The replaced file is overwritten the next time.
  if (whole && (renameat2(folder_.get(), under.c_str(), folder_.get(), name.c_str(), RENAME_EXCHANGE) == 0 ||
                renameat(folder_.get(), under.c_str(), folder_.get(), name.c_str()) == 0)) {
    return absl::OkStatus();
  }
  const int error = errno;
  unlinkat(folder_.get(), under.c_str(), 0);
  return absl::ErrnoToStatus(error, fmt::format("{}/.push: cannot be written", Printable(out_)));
}

absl::Status Spool::WriteFreely(const std::string& name, std::string_view bytes) {
  std::string under = fmt::format("{}.{}", next_free_, kFree);
  if (free_files_.empty()) {
    ++next_free_;
  } else {
    under = free_files_.back();
    free_files_.pop_back();
  }
  return Write(name, bytes, under);
}

void Spool::RemoveFreely(const std::string& name) {
  if (free_files_.size() < kMaxFreeFiles) {
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
  const uint64_t number = entry.number;
  waiting_.emplace(number, std::move(entry));
}

// If the entry cannot be written, it stays in memory.
bool Spool::WriteEntry(Waiting* entry) {
  if (!WriteFreely(NameOf(*entry), entry->content).ok()) return false;
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
  for (auto& [number, entry] : waiting_) {
    if (in_memory_ == 0 || (!entry.content.empty() && !WriteEntry(&entry))) return;
  }
}

void Spool::Refused() {
  const std::lock_guard lock(mutex_);
  if (taken_ || refused_) return;
  refused_ = true;
  WriteServer();
}

absl::Status Spool::Put(const std::string& process, const PushEntry& entry, bool counts) {
  std::string bytes = EncodeEntry(entry);
  const std::lock_guard lock(mutex_);
  Waiting waiting{.number = next_number_++, .process = SpoolKeyOf(process), .bytes = bytes.size(), .counts = counts};
  waiting.put_ns = NowNs(CLOCK_MONOTONIC);
  waiting.series = SeriesOf(entry);
  waiting.until_ns = entry.until_ns;
  waiting.profile_bytes = UnpackedBytes(entry.pprof);
  if (!counts && !write_all_ && in_memory_ + bytes.size() <= kMaxInMemory) {
    waiting.content = std::move(bytes);
    Add(std::move(waiting));
    return absl::OkStatus();
  }
  absl::Status status = WriteFreely(NameOf(waiting), bytes);
  if (!status.ok()) return status;
  if (counts) {
    uncommitted_.push_back(std::move(waiting));
  } else {
    Add(std::move(waiting));
  }
  return status;
}

absl::Status Spool::Commit(ReportedProcess* reported) {
  const std::lock_guard lock(mutex_);
  const std::string key = SpoolKeyOf(reported->process), name = key + "." + kReported;
  reported->last_entry = next_number_ - 1;
  absl::Status status = Write(name, EncodeReported(*reported), name + kTemporary);
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

void Spool::Finish(const ReportedProcess& reported) {
  const std::lock_guard lock(mutex_);
  const std::string key = SpoolKeyOf(reported.process);
  NoteDone(key, reported.pid, ProgramForFileName(reported.program));
  earlier_.erase(key);
  const auto found = finished_.find(key);
  if (found == finished_.end() || !done_.contains(key)) return;
  found->second = true;
  RemoveReportedIfDone(key);
}

void Spool::RemoveReportedIfDone(const std::string& key) {
  const auto found = finished_.find(key);
  if (found == finished_.end() || !found->second || of_process_.contains(key)) return;
  for (const char* ending : {"", kTemporary}) unlinkat(folder_.get(), (key + "." + kReported + ending).c_str(), 0);
  finished_.erase(found);
}

size_t Spool::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

bool Spool::Load(Waiting* entry, PushEntry* content) {
  std::optional<PushEntry> read =
      DecodeEntry(entry->content.empty() ? ReadFileAt(folder_.get(), NameOf(*entry)) : entry->content);
  if (!read.has_value()) return false;
  entry->series = SeriesOf(*read);
  entry->until_ns = read->until_ns;
  entry->profile_bytes = UnpackedBytes(read->pprof);
  if (content != nullptr) *content = *std::move(read);
  return true;
}

std::vector<Spool::Candidate> Spool::Candidates(bool several) {
  const std::lock_guard lock(mutex_);
  std::vector<Candidate> candidates;
  std::vector<uint64_t> broken;  // damaged or deleted by somebody
  absl::flat_hash_set<uint64_t> seen;
  size_t looked = 0;
  for (auto& [number, entry] : waiting_) {
    if (++looked > kMaxVisits) break;
    if (entry.series == 0 && !Load(&entry, nullptr)) {
      broken.push_back(number);
    } else if ((seen.insert(entry.series).second || several) && !entry.under_way) {
      candidates.push_back({number, entry.series, entry.until_ns, entry.profile_bytes});
    }
  }
  for (const uint64_t number : broken) Remove(number);
  return candidates;
}

std::vector<std::pair<uint64_t, int64_t>> Spool::TimesInDoubt() {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<uint64_t, int64_t>> times;
  for (auto& [number, entry] : waiting_) {
    if (note_->under_way(number) && (entry.series != 0 || Load(&entry, nullptr))) {
      times.emplace_back(entry.series, entry.until_ns);
    }
  }
  return times;
}

std::vector<Spool::Outgoing> Spool::Begin(const std::vector<uint64_t>& numbers) {
  const std::lock_guard lock(mutex_);
  std::vector<Outgoing> entries;
  for (const uint64_t number : numbers) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end() || found->second.under_way) continue;
    PushEntry content;
    if (!Load(&found->second, &content)) {
      Remove(number);
      continue;
    }
    found->second.under_way = true;
    entries.emplace_back(found->second, std::move(content));
  }
  WriteRequest(entries);
  for (const Outgoing& entry : entries) note_->Begin(entry.first.number);
  return entries;
}

void Spool::WriteRequest(const std::vector<Outgoing>& entries) {
  std::string bytes;
  std::set<uint64_t> numbers;
  protozero::pbf_writer writer(bytes);
  for (const auto& [entry, content] : entries) {
    if (entry.content.empty()) continue;
    protozero::pbf_writer message(writer, kRequestEntries);
    message.add_uint64(kEntryNumber, entry.number);
    message.add_string(kEntryProcess, entry.process);
    message.add_bytes(kEntryContent, entry.content);
    numbers.insert(entry.number);
  }
  if (numbers.empty()) return;
  const uint64_t first = *numbers.begin();
  // If the disk is full, these entries are lost if the pusher is killed now.
  if (WriteFreely(RequestNameOf(first), bytes).ok()) requests_[first] = std::move(numbers);
}

void Spool::RemoveRequestOf(uint64_t number) {
  for (auto request = requests_.begin(); request != requests_.end(); ++request) {
    if (request->second.erase(number) == 0) continue;
    if (request->second.empty()) {
      RemoveFreely(RequestNameOf(request->first));
      requests_.erase(request);
    }
    return;
  }
}

void Spool::Remove(uint64_t number) {
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  RemoveRequestOf(number);
  if (found->second.content.empty()) RemoveFreely(NameOf(found->second));
  bytes_ -= found->second.bytes;
  in_memory_ -= found->second.content.size();
  const std::string process = found->second.process;
  waiting_.erase(found);
  if (--of_process_[process] == 0) of_process_.erase(process);
  RemoveReportedIfDone(process);
}

void Spool::Sent(const std::vector<uint64_t>& numbers) {
  for (const uint64_t number : numbers)
    note_->Done(number);  // first: if killed after this line, they are not sent again
  const std::lock_guard lock(mutex_);
  write_all_ = false;
  for (const uint64_t number : numbers) Remove(number);
  if (taken_) return;
  taken_ = true;
  WriteServer();
}

void Spool::Return(const std::vector<uint64_t>& numbers, bool not_taken) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t number : numbers) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) continue;
    found->second.under_way = false;
    if (not_taken) note_->NotTaken(number);
    // Write it before the request's file is deleted, because the server may have the entry.
    if (!not_taken && !found->second.content.empty()) WriteEntry(&found->second);
    RemoveRequestOf(number);
  }
}

void Spool::Change(const Waiting& entry, const PushEntry& changed) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(entry.number);
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  std::string bytes = EncodeEntry(changed);
  const bool in_memory = !waiting.content.empty();
  if (!in_memory && !WriteFreely(NameOf(waiting), bytes).ok()) return;
  bytes_ += bytes.size() - waiting.bytes;
  in_memory_ += in_memory ? bytes.size() - waiting.content.size() : 0;
  waiting.bytes = bytes.size();
  waiting.until_ns = changed.until_ns;
  if (in_memory) waiting.content = std::move(bytes);
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
  Remove(entry.number);
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
  for (auto entry = waiting_.begin(); entry != waiting_.end() && is_over();) {
    const Waiting& oldest = (entry++)->second;
    if (oldest.under_way) continue;
    Remove(oldest.number);
    ++dropped;
  }
  return dropped;
}

}  // namespace holdfast
