#include "report/names/elf/loaded_files.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

#include "fmt/format.h"

namespace holdfast {
namespace {

constexpr size_t kMax = 4096;  // the limit if descriptors are unlimited

size_t MaxOpenFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMax / 16;
  return std::min<size_t>(kMax, limit.rlim_cur / 4);
}

// Identifies a file. The modification time distinguishes a file that was overwritten in place.
std::string IdentityOf(const struct stat& info) {
  return fmt::format("{}/{}/{}/{}.{}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

std::shared_ptr<LoadedFile> In(const std::map<std::string, std::weak_ptr<LoadedFile>>& files, const std::string& key) {
  const auto found = files.find(key);
  return found == files.end() ? nullptr : found->second.lock();
}

}  // namespace

OpenFiles::OpenFiles() : OpenFiles(MaxOpenFiles()) {}

std::shared_ptr<LoadedFile> OpenFiles::Share(FileDescriptor program, bool* is_new) {
  *is_new = false;
  struct stat info;
  if (fstat(program.get(), &info) != 0) return nullptr;
  const std::string identity = IdentityOf(info);
  if (std::shared_ptr<LoadedFile> known = In(by_identity_, identity); known != nullptr) return known;
  if (by_identity_.size() >= most_) DropClosed();
  if (by_identity_.size() >= most_) return nullptr;
  auto file = std::make_shared<LoadedFile>();
  file->program = std::move(program);
  file->device = info.st_dev;
  file->inode = info.st_ino;
  by_identity_[identity] = file;
  *is_new = true;
  return file;
}

std::shared_ptr<const LoadedFile> OpenFiles::WithBuildId(const std::string& build_id) const {
  return build_id.empty() ? nullptr : In(by_build_id_, build_id);
}

void OpenFiles::Note(const std::string& build_id, const std::shared_ptr<LoadedFile>& file) {
  if (!build_id.empty()) by_build_id_[build_id] = file;
}

void OpenFiles::DropClosed() {
  for (auto* files : {&by_identity_, &by_build_id_})
    std::erase_if(*files, [](const auto& one) { return one.second.expired(); });
}

}  // namespace holdfast
