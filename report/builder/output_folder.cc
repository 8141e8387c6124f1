#include "report/builder/output_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "report/base/folder_names.h"
#include "report/base/inotify_events.h"
#include "report/observe/table/folder_owner.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

constexpr char kSuffix[] = ".pb.gz";
constexpr char kTemporaryPrefix[] = ".holdfast.";
constexpr char kTemporarySuffix[] = ".new";
constexpr int64_t kHourNs = int64_t{3600} * 1'000'000'000;

bool IsDigits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Cuts the part after the last dot off `text` and returns it; "" if there is none.
std::string CutLastPart(std::string* text) {
  const size_t dot = text->rfind('.');
  if (dot == std::string::npos) return "";
  std::string part = text->substr(dot + 1);
  text->resize(dot);
  return part;
}

}  // namespace

std::string ProfileName::ToString() const {
  return absl::StrFormat("%s.%d.%04d.%s%s", program, pid, seq, kind, kSuffix);
}

std::optional<ProfileName> ParseProfileName(const std::string& name) {
  if (!absl::EndsWith(name, kSuffix)) return std::nullopt;
  std::string rest = name.substr(0, name.size() - (sizeof kSuffix - 1));
  ProfileName parsed;
  parsed.kind = CutLastPart(&rest);
  const std::string seq = CutLastPart(&rest), pid = CutLastPart(&rest);
  parsed.program = rest;
  if (parsed.kind.empty() || rest.empty() || rest[0] == '.' || !IsDigits(seq) || seq.size() < 4 || !IsDigits(pid) ||
      !absl::SimpleAtoi(seq, &parsed.seq) || !absl::SimpleAtoi(pid, &parsed.pid)) {
    return std::nullopt;
  }
  return parsed;
}

std::string ProgramForFileName(const std::string& program) {
  std::string name;
  for (const char c : program) {
    const bool plain =
        static_cast<unsigned char>(c) > ' ' && c != 0x7f && c != '/' && c != '%' && !(c == '.' && name.empty());
    if (plain) {
      name += c;
    } else {
      absl::StrAppendFormat(&name, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return name.empty() ? "program" : name;
}

std::string ProgramOfFileName(const std::string& name) {
  std::string program;
  for (size_t i = 0; i < name.size(); ++i) {
    const std::string digits = name.substr(i + 1, 2);
    if (name[i] == '%' && digits.size() == 2 && std::ranges::all_of(digits, absl::ascii_isxdigit)) {
      program += static_cast<char>(std::stoi(digits, nullptr, 16));
      i += 2;
    } else {
      program += name[i];
    }
  }
  return program;
}

std::vector<size_t> SnapshotsToRemove(const std::vector<int64_t>& times_ns, uint32_t keep) {
  std::vector<size_t> remove;
  const size_t count = times_ns.size();
  if (keep == 0) return remove;
  if (keep != kKeepThinned) {
    for (size_t i = 0; i + keep < count; ++i) remove.push_back(i);
    return remove;
  }
  constexpr size_t kNewest = 60, kHourly = 24, kInAll = 100;
  std::set<int64_t> hours, days;
  size_t kept = 0;
  // From the newest to the oldest; the newest of each hour or day is kept.
  for (size_t i = count; i-- > 0;) {
    bool keep_this = kept < kNewest;
    if (!keep_this && hours.size() < kHourly) keep_this = hours.insert(times_ns[i] / kHourNs).second;
    if (!keep_this && hours.size() >= kHourly && kept < kInAll)
      keep_this = days.insert(times_ns[i] / (24 * kHourNs)).second;
    if (keep_this) {
      ++kept;
    } else {
      remove.push_back(i);
    }
  }
  return remove;
}

absl::StatusOr<OutputFolder> OutputFolder::Open(const std::string& path) {
  const int error = MakeFolders(path);
  absl::StatusOr<FileDescriptor> folder = OpenOwnFolder(path);
  if (!folder.ok()) {
    const absl::Status why =
        error != 0 && !absl::IsPermissionDenied(folder.status()) ? absl::ErrnoToStatus(error, path) : folder.status();
    return absl::Status(why.code(), absl::StrCat("output folder ", why.message()));
  }
  OutputFolder output;
  output.path_ = path;
  output.writer_ = static_cast<uint32_t>(getpid());
  output.folder_ = *std::move(folder);
  return output;
}

OutputFolder OutputFolder::Into(Place place) {
  OutputFolder output;
  output.place_ = std::move(place);
  return output;
}

FolderId OutputFolder::id() const {
  struct stat info;
  if (fstat(folder_.get(), &info) != 0) return {};
  return {info.st_dev, info.st_ino};
}

uint32_t OutputFolder::Listing::KindNumber(const std::string& kind) {
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found != kinds.end()) return static_cast<uint32_t>(found - kinds.begin());
  kinds.push_back(kind);
  return static_cast<uint32_t>(kinds.size() - 1);
}

OutputFolder::Entry OutputFolder::Listing::Unpack(const std::string& program, const File& file) const {
  return {{program, file.pid, file.seq, kinds[file.kind]},
          file.blocks * kDiskBlock,
          file.modified_ns,
          file.regular,
          file.own};
}

std::optional<OutputFolder::File> OutputFolder::Find(Listing* listing, const ProfileName& name) {
  const auto files = listing->by_program.find(name.program);
  if (files == listing->by_program.end()) return std::nullopt;
  const auto found = files->second.find({.pid = name.pid, .seq = name.seq, .kind = listing->KindNumber(name.kind)});
  if (found == files->second.end()) return std::nullopt;
  return *found;
}

void OutputFolder::Forget(Listing* listing, const ProfileName& name) {
  const std::optional<File> file = Find(listing, name);
  if (!file.has_value()) return;
  if (file->regular) listing->blocks -= file->blocks;
  const auto files = listing->by_program.find(name.program);
  files->second.erase(*file);
  if (files->second.empty()) listing->by_program.erase(files);
}

void OutputFolder::Update(Listing* listing, const std::string& file) const {
  const std::optional<ProfileName> name = ParseProfileName(file);
  // Another spelling of the number, such as 00001, is no file of ours.
  if (!name.has_value() || name->ToString() != file) return;
  Forget(listing, *name);
  struct stat info;
  if (fstatat(folder_.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return;
  const uint64_t blocks = (static_cast<uint64_t>(info.st_size) + kDiskBlock - 1) / kDiskBlock;
  const File added = {.pid = name->pid,
                      .seq = name->seq,
                      .kind = listing->KindNumber(name->kind),
                      .blocks = static_cast<uint32_t>(std::min<uint64_t>(blocks, UINT32_MAX)),
                      .modified_ns = info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec,
                      .regular = S_ISREG(info.st_mode),
                      .own = info.st_uid == geteuid()};
  if (added.regular) listing->blocks += added.blocks;
  listing->by_program[name->program].insert(added);
}

OutputFolder::Listing& OutputFolder::Current() const {
  if (listing_ != nullptr && listing_->changes.valid()) {
    bool whole = true;
    ForEachEvent(listing_->changes.get(), [&](const inotify_event& event) {
      whole = whole && (event.mask & (IN_Q_OVERFLOW | IN_IGNORED)) == 0;
      if (event.len > 0) Update(listing_.get(), event.name);
    });
    if (whole) return *listing_;
  }
  listing_ = std::make_unique<Listing>();
  FileDescriptor changes(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  // Watch before listing the folder: files that appear meanwhile are then both reported and listed.
  if (changes.valid() &&
      inotify_add_watch(changes.get(), absl::StrCat("/proc/self/fd/", folder_.get()).c_str(),
                        IN_CREATE | IN_CLOSE_WRITE | IN_MOVE | IN_DELETE | IN_ATTRIB | IN_ONLYDIR) >= 0) {
    listing_->changes = std::move(changes);
  }
  ForEachName(folder_.get(), [&](const char* file) { Update(listing_.get(), file); });
  return *listing_;
}

std::vector<OutputFolder::Entry> OutputFolder::List() const {
  const Listing& listing = Current();
  std::vector<Entry> entries;
  for (const auto& [program, files] : listing.by_program) {
    for (const File& file : files) entries.push_back(listing.Unpack(program, file));
  }
  return entries;
}

std::vector<OutputFolder::Entry> OutputFolder::ListOf(const std::string& program, uint32_t pid) const {
  const Listing& listing = Current();
  std::vector<Entry> entries;
  const auto files = listing.by_program.find(program);
  if (files == listing.by_program.end()) return entries;
  for (auto file = files->second.lower_bound({.pid = pid}); file != files->second.end() && file->pid == pid; ++file)
    entries.push_back(listing.Unpack(program, *file));
  return entries;
}

void OutputFolder::RemoveStaleTemporaries() const {
  ForEachName(folder_.get(), [&](const char* file) {
    struct stat info;
    if (absl::StartsWith(file, kTemporaryPrefix) && absl::EndsWith(file, kTemporarySuffix) &&
        fstatat(folder_.get(), file, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
        info.st_mtim.tv_sec < time(nullptr) - 3600) {
      unlinkat(folder_.get(), file, 0);
    }
  });
}

std::string OutputFolder::PathOf(const ProfileName& name) const {
  return absl::StrCat("/proc/self/fd/", folder_.get(), "/", name.ToString());
}

bool OutputFolder::IsRemoved() const {
  struct stat info;
  return fstat(folder_.get(), &info) == 0 && info.st_nlink == 0;
}

uint32_t OutputFolder::NextSeq(const std::string& program, uint32_t pid) const {
  uint32_t highest = 0;
  for (const Entry& entry : ListOf(program, pid)) highest = std::max(highest, entry.name.seq);
  return highest + 1;
}

std::string OutputFolder::TemporaryFor(const ProfileName& name) const {
  return absl::StrCat(kTemporaryPrefix, writer_, ".", name.ToString(), kTemporarySuffix);
}

FileDescriptor OutputFolder::MakeTemporary(const std::string& temporary) const {
  const auto make = [&] {
    return FileDescriptor(
        openat(folder_.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  };
  FileDescriptor file = make();
  // Left by an exporter with our pid that was killed while writing: nobody else uses this name.
  if (!file.valid() && errno == EEXIST && unlinkat(folder_.get(), temporary.c_str(), 0) == 0) file = make();
  // A file written by root belongs to the folder's owner.
  struct stat info;
  if (file.valid() && geteuid() == 0 && fstat(folder_.get(), &info) == 0 && info.st_uid != 0) {
    // Otherwise the file stays root's, which is harmless.
    [[maybe_unused]] const int given = fchown(file.get(), info.st_uid, info.st_gid);
  }
  return file;
}

absl::Status OutputFolder::Replace(const ProfileName& name, const std::function<absl::Status(int)>& write) const {
  const std::string file_name = name.ToString(), temporary = TemporaryFor(name);
  const FileDescriptor file = MakeTemporary(temporary);
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write in ", path_));
  absl::Status status = write(file.get());
  struct stat info;
  if (status.ok() &&
      (fstatat(folder_.get(), file_name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))) {
    status = absl::NotFoundError("the file is gone");
  }
  if (status.ok()) {
    const timespec times[2] = {info.st_atim, info.st_mtim};
    futimens(file.get(), times);
    if (renameat(folder_.get(), temporary.c_str(), folder_.get(), file_name.c_str()) == 0) return status;
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot name a file in ", path_));
  }
  unlinkat(folder_.get(), temporary.c_str(), 0);
  return status;
}

absl::StatusOr<ProfileName> OutputFolder::Write(ProfileName name, const std::function<absl::Status(int)>& write) const {
  if (place_) return place_(name, write);
  const std::string temporary = TemporaryFor(name);
  FileDescriptor file = MakeTemporary(temporary);
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write in ", path_));
  absl::Status status = write(file.get());
  file.Close();  // before the file has its name, which the kernel then reports once
  if (status.ok()) {
    while (true) {
      if (renameat2(folder_.get(), temporary.c_str(), folder_.get(), name.ToString().c_str(), RENAME_NOREPLACE) == 0)
        return name;
      if (errno == EINVAL || errno == ENOSYS) {
        // A file system without RENAME_NOREPLACE (some network ones): link never replaces a file either.
        if (linkat(folder_.get(), temporary.c_str(), folder_.get(), name.ToString().c_str(), 0) == 0) {
          unlinkat(folder_.get(), temporary.c_str(), 0);
          return name;
        }
      }
      if (errno != EEXIST) break;
      ++name.seq;
    }
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot name a file in ", path_));
  }
  unlinkat(folder_.get(), temporary.c_str(), 0);
  return status;
}

void OutputFolder::Remove(const ProfileName& name) const { unlinkat(folder_.get(), name.ToString().c_str(), 0); }

std::vector<ProfileName> OutputFolder::Shrink(uint64_t max_bytes, const std::vector<ProfileName>& own) const {
  std::vector<ProfileName> removed;
  if (max_bytes == 0) return removed;
  Listing& listing = Current();
  for (const ProfileName& name : own) {
    if (listing.blocks * kDiskBlock <= max_bytes) break;
    const std::optional<File> found = Find(&listing, name);
    if (!found.has_value() || !found->regular) continue;
    Remove(name);
    Forget(&listing, name);
    removed.push_back(name);
  }
  return removed;
}

}  // namespace holdfast
