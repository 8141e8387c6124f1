#include "report/names/elf/build_id_index.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "report/names/elf/debug_file_finder.h"
#include "report/names/elf/elf_file.h"

namespace holdfast {
namespace {

std::string BuildIdOfFile(const std::string& path) {
  const auto fd = OpenRegular(path);
  const std::unique_ptr<ElfFile> elf = fd.ok() ? ElfFile::Open(fd->get()) : nullptr;
  return elf != nullptr ? elf->BuildId() : "";
}

}  // namespace

const std::vector<std::string>& BuildIdIndex::Find(const std::string& build_id) {
  static const std::vector<std::string> kNone;
  if (!folders_.empty()) Read();
  const auto found = files_.find(build_id);
  return found != files_.end() ? found->second : kNone;
}

void BuildIdIndex::Read() {
  size_t seen = 0;
  for (const std::string& folder : std::exchange(folders_, {})) {
    std::error_code error;
    const auto options = std::filesystem::directory_options::skip_permission_denied;
    for (std::filesystem::recursive_directory_iterator at(folder, options, error), end;
         !error && at != end && seen < kMaxFiles; at.increment(error)) {
      std::error_code gone;
      if (!at->is_regular_file(gone) || gone) continue;
      ++seen;
      if (std::string id = BuildIdOfFile(at->path()); !id.empty()) files_[id].push_back(at->path());
    }
  }
  for (auto& [id, files] : files_) std::sort(files.begin(), files.end());
}

}  // namespace holdfast
