// A child builds a snapshot and its parent writes it: because the table is another user's, or because memory is low.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "report/base/base_name.h"
#include "report/builder/process_exporter.h"
#include "report/builder/unseen_allocator.h"
#include "report/builder/without_rights.h"

namespace holdfast {
namespace {

// More than any profile of a table with 64 MiB.
constexpr uint64_t kMaxForeignBytes = 64 << 20;

absl::Status CopyWhole(int from, int to) {
  std::string buffer(64 << 10, '\0');
  for (off_t at = 0;;) {
    const ssize_t got = pread(from, buffer.data(), buffer.size(), at);
    if (got == 0) return absl::OkStatus();
    if (got < 0 || write(to, buffer.data(), static_cast<size_t>(got)) != got)
      return absl::ErrnoToStatus(errno, "cannot write");
    at += got;
  }
}

// Whether only root can change the file or a folder above it.
bool IsRootsAlone(const struct stat& file, std::filesystem::path path) {
  const auto is_roots = [](const struct stat& status) {
    return status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  };
  bool all = is_roots(file);
  struct stat info;
  while (all && path.has_relative_path()) {
    path = path.parent_path();
    all = stat(path.c_str(), &info) == 0 && is_roots(info);
  }
  return all;
}

// Reads the symbols of system files before a child is forked, once for all children: each would need some 20 ms for them.
// Nobody but root can have prepared these files, and the user can read them.
void ReadSystemFiles(const LoadedFiles& files, std::string_view program, ModuleSymbolizer& symbolizer) {
  const HeldFiles held(&symbolizer, &files);  // what was opened is read, whatever the path names by now
  for (const auto& [key, file] : files.all()) {
    const auto& [path, build_id] = key;
    struct stat info;
    if (build_id.starts_with('@') || !file->root.empty() || fstat(file->program.get(), &info) != 0 ||
        symbolizer.Knows(info, build_id) || !IsRootsAlone(info, path))
      continue;
    if (auto module = symbolizer.Find(path, build_id); module.ok()) (*module)->calls();
    ReadAllocatorAhead(key, *file, BaseName(path) == program);
  }
}

}  // namespace

// The child's result, in shared memory. The child may have been compromised by the table that it read: this data
// is only copied, never followed.
struct ProcessExporter::HandedOver {
  struct OfKind {
    bool written, is_incomplete;
    uint64_t fingerprint, resident, unchanged;
  } kinds[kFileKindCount];
  ProcessObserver::MaxByLibc max_by_libc;
  uint32_t keep;
  int64_t next_account_ns;
};

absl::StatusOr<std::vector<ProfileName>> ProcessExporter::ExportInChild(const std::optional<TableFile::Rights>& rights,
                                                                        const OutputFolder& output,
                                                                        ModuleSymbolizer& symbolizer,
                                                                        const Deadline& lines_by,
                                                                        const SnapshotOccasion& occasion) {
  void* shared = mmap(nullptr, sizeof(HandedOver), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return absl::ErrnoToStatus(errno, "memory");
  const std::unique_ptr<HandedOver, void (*)(HandedOver*)> handed(static_cast<HandedOver*>(shared),
                                                                  [](HandedOver* all) { munmap(all, sizeof *all); });
  std::array<FileDescriptor, kFileKindCount> files;
  std::vector<int> keep = {table_.descriptor()};
  for (FileDescriptor& file : files) {
    file = FileDescriptor(memfd_create("holdfast", MFD_CLOEXEC));
    if (!file.valid()) return absl::ErrnoToStatus(errno, "memory");
    keep.push_back(file.get());
  }
  // The child opens files with that user's rights, which may permit less.
  LookAtModules();
  LookAtThreads();
  if (thread_looks_ != nullptr) {
    thread_looks_->ClosePeriod(table_);
  } else {
    observer_.ReadLives(table_);
  }
  if (rights.has_value()) {
    modules_.KeepReadableBy(rights->user, &keep);
    ReadSystemFiles(modules_.files(), table_.program(), symbolizer);
  }
  const auto build = [&] {
    is_child_ = true;
    adopted_ = true;  // the child may not read the folder's files
    const OutputFolder into =
        OutputFolder::Into([&](const ProfileName& name, const auto& write) -> absl::StatusOr<ProfileName> {
          const int kind = FileKindNamed(name.kind).value_or(kHeapFile);
          const absl::Status status = write(files[kind].get());
          if (!status.ok()) return status;
          handed->kinds[kind].written = true;
          return name;
        });
    if (!ExportHere(into, symbolizer, lines_by, occasion).ok()) return false;
    for (int i = 0; i < kFileKindCount; ++i) {
      handed->kinds[i].fingerprint = kinds_[i].fingerprint;
      handed->kinds[i].resident = kinds_[i].resident;
      handed->kinds[i].unchanged = kinds_[i].unchanged;
      handed->kinds[i].is_incomplete = !kinds_[i].files.empty() && kinds_[i].files.back().is_incomplete;
    }
    handed->max_by_libc = observer_.max_by_libc();
    handed->keep = keep_;
    handed->next_account_ns = next_account_ns_;
    return true;
  };
  const absl::Status read = rights.has_value()
                                ? RunWithoutRights(rights->user, rights->group, keep, kMaxForeignBytes, build)
                                : RunInChild([&] {
                                    occasion.begin_child();
                                    return build();
                                  });
  if (!read.ok()) return read;
  if (!rights.has_value()) next_account_ns_ = handed->next_account_ns;
  const uid_t user = rights.has_value() ? rights->user : geteuid();
  observer_.set_max_by_libc(handed->max_by_libc);
  std::vector<ProfileName> written;
  ProfileName name;
  name.program = ProgramForFileName(table_.program());
  name.pid = table_.owner().pid;
  for (int i = 0; i < kFileKindCount; ++i) {
    kinds_[i].unchanged = handed->kinds[i].unchanged;
    if (!handed->kinds[i].written) continue;
    if (name.seq == 0) name.seq = output.NextSeq(name.program, name.pid);
    name.kind = kFileKinds[i].name;
    absl::StatusOr<ProfileName> got = output.Write(name, [&](int fd) { return CopyWhole(files[i].get(), fd); });
    if (!got.ok()) {
      ++failed_writes_;
      return got.status();
    }
    name.seq = got->seq;
    kinds_[i].fingerprint = handed->kinds[i].fingerprint;
    kinds_[i].resident = handed->kinds[i].resident;
    // A table that is read without our rights stays incomplete, because files of its program must not be parsed with
    // our rights.
    const bool is_incomplete = !rights.has_value() && handed->kinds[i].is_incomplete;
    kinds_[i].files.push_back({*got, NowNs(CLOCK_REALTIME), {}, user, is_incomplete});
    written.push_back(*std::move(got));
    Thin(output, handed->keep, i);
  }
  if (!written.empty()) Shrink(output, user);
  return written;
}

}  // namespace holdfast
