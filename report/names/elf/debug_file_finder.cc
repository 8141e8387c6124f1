#include "report/names/elf/debug_file_finder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "report/base/base_name.h"
#include "report/names/dwarf/lines.h"

namespace holdfast {
namespace {

std::string BaseOf(std::string_view path) {
  return std::string(BaseName(path));
}  // absl's string_view is a different
   // type
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

// Checks a build id, because it becomes part of a path.
bool IsBuildId(std::string_view id) {
  return id.size() > 4 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string ById(const std::string& root, const std::string& build_id, std::string_view suffix) {
  return absl::StrCat(root, "/.build-id/", build_id.substr(0, 2), "/", build_id.substr(2), std::string(suffix));
}

std::vector<std::string> BelowFirst(const std::string& root, std::vector<std::string> paths) {
  if (root.empty()) return paths;
  std::vector<std::string> below;
  for (const std::string& path : paths) below.push_back(root + path);
  below.insert(below.end(), paths.begin(), paths.end());
  return below;
}

absl::Status TakeShared(std::shared_ptr<DebugFile> shared, DebugFile* file) {
  auto sections = SectionsOf(std::move(shared));
  if (!sections.ok()) return sections.status();
  file->sections.alt = *std::move(sections);
  return absl::OkStatus();
}

bool Helps(const DebugFile& file) { return file.has_lines() || file.has_symtab; }

}  // namespace

absl::StatusOr<FileDescriptor> OpenRegular(const std::string& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) {
    return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError("not a regular file");
  return fd;
}

absl::StatusOr<std::shared_ptr<DebugFile>> DebugFileFinder::Open(const std::string& path) {
  auto fd = OpenRegular(path);
  if (!fd.ok()) return fd.status();
  ++files_read_;
  return OpenDebugFile(*std::move(fd), options_.max_unpacked);
}

absl::StatusOr<std::shared_ptr<DebugFile>> DebugFileFinder::OpenById(const std::string& path,
                                                                     const std::string& build_id) {
  auto file = Open(path);
  if (file.ok() && (*file)->build_id != build_id) return absl::NotFoundError("another build id");
  return file;
}

absl::StatusOr<DebugFileFinder::Found> DebugFileFinder::Find(const std::string& path, const std::string& build_id,
                                                             const DebugFile* binary, const std::string& root) {
  const std::string folder = FolderOf(path), base = BaseOf(path);
  const std::string debuglink = binary != nullptr ? BaseOf(binary->debuglink) : "";
  std::optional<Found> names_only;
  absl::Status last = absl::NotFoundError("no debug file");
  // Returns true if the file is taken. A file that only has symbols is kept as a fallback.
  std::optional<Found> taken;
  const auto take = [&](absl::StatusOr<std::shared_ptr<DebugFile>> file, const std::string& from) {
    if (!file.ok()) {
      if (!absl::IsNotFound(file.status()))
        last = absl::Status(file.status().code(), absl::StrCat(from, ": ", std::string(file.status().message())));
      return false;
    }
    if (!Helps(**file)) return false;
    if ((*file)->has_lines()) {
      taken = Found{*file, from};
    } else if (!names_only.has_value()) {
      names_only = Found{*file, from};
    }
    return taken.has_value();
  };

  if (IsBuildId(build_id)) {
    std::vector<std::string> paths;
    for (const std::string& one : options_.roots) paths.push_back(ById(one, build_id, ".debug"));
    if (!debuglink.empty()) {
      paths.push_back(folder + debuglink);
      paths.push_back(absl::StrCat(folder, ".debug/", debuglink));
      for (const std::string& one : options_.roots) {
        paths.push_back(absl::StrCat(one, folder, debuglink));
        paths.push_back(absl::StrCat(one, "/", debuglink));
      }
    }
    for (const std::string& one : options_.roots) {
      paths.insert(paths.end(), {one + path, absl::StrCat(one, "/", base), absl::StrCat(one, "/", base, ".debug"),
                                 ById(one, build_id, "")});
    }
    for (const std::string& candidate : BelowFirst(root, std::move(paths))) {
      if (take(OpenById(candidate, build_id), candidate)) return *std::move(taken);
    }
    for (const std::string& candidate : index_.Find(build_id)) {
      if (take(OpenById(candidate, build_id), candidate)) return *std::move(taken);
    }
    if (options_.debuginfod && Debuginfod::IsAsked()) {
      auto fd = debuginfod_.FindDebugFile(build_id);
      if (!fd.ok()) {
        last = fd.status();
      } else {
        ++files_read_;
        auto file = OpenDebugFile(*std::move(fd), options_.max_unpacked);
        if (file.ok() && (*file)->build_id != build_id) file = absl::NotFoundError("another build id");
        if (take(std::move(file), "")) return *std::move(taken);
      }
    }
  } else if (!debuglink.empty()) {
    std::vector<std::string> paths = {folder + debuglink, absl::StrCat(folder, ".debug/", debuglink)};
    for (const std::string& one : options_.roots) paths.push_back(absl::StrCat(one, folder, debuglink));
    for (const std::string& candidate : BelowFirst(root, std::move(paths))) {
      auto file = Open(candidate);
      if (file.ok() && DebuglinkCrc((*file)->fd.get()) != binary->debuglink_crc) continue;
      if (take(std::move(file), candidate)) return *std::move(taken);
    }
  }
  if (names_only.has_value()) return *std::move(names_only);
  return last;
}

absl::Status DebugFileFinder::AddShared(DebugFile* file, const std::string& path) {
  if (file->altlink.empty()) return absl::OkStatus();
  // Resolve a relative link from the file's real location: .build-id/ contains symbolic links.
  char* real = path.empty() ? nullptr : realpath(path.c_str(), nullptr);
  std::vector<std::string> paths = {dwarf::JoinPath(FolderOf(real != nullptr ? real : path), file->altlink)};
  free(real);
  for (const std::string& root : options_.roots) {
    if (IsBuildId(file->altlink_build_id)) paths.push_back(ById(root, file->altlink_build_id, ".debug"));
    paths.push_back(absl::StrCat(root, "/.dwz/", BaseOf(file->altlink)));
    paths.push_back(absl::StrCat(root, "/", BaseOf(file->altlink)));
  }
  if (IsBuildId(file->altlink_build_id)) {
    const std::vector<std::string>& others = index_.Find(file->altlink_build_id);
    paths.insert(paths.end(), others.begin(), others.end());
  }
  for (const std::string& candidate : paths) {
    auto shared = OpenById(candidate, file->altlink_build_id);
    if (!shared.ok()) continue;
    return TakeShared(*std::move(shared), file);
  }
  if (options_.debuginfod && Debuginfod::IsAsked() && IsBuildId(file->altlink_build_id)) {
    if (auto fd = debuginfod_.FindDebugFile(file->altlink_build_id); fd.ok()) {
      auto shared = OpenDebugFile(*std::move(fd), options_.max_unpacked);
      if (shared.ok() && (*shared)->build_id == file->altlink_build_id) {
        return TakeShared(*std::move(shared), file);
      }
    }
  }
  return absl::NotFoundError(
      absl::StrCat("the shared debug file ", file->altlink, " (build id ", file->altlink_build_id, ") is missing"));
}

absl::StatusOr<std::shared_ptr<dwarf::Sections>> DebugFileFinder::OpenSplit(const std::string& path,
                                                                            const std::string& comp_dir,
                                                                            const std::string& dwo_name) {
  const std::string compiled = dwarf::JoinPath(comp_dir, dwo_name);
  std::vector<std::string> paths = {path + ".dwp", compiled, FolderOf(path) + BaseOf(dwo_name)};
  if (path.ends_with(".debug")) paths.insert(paths.begin(), path.substr(0, path.size() - 6) + ".dwp");
  for (const std::string& root : options_.roots) {
    paths.insert(paths.end(), {absl::StrCat(root, path, ".dwp"), absl::StrCat(root, "/", BaseOf(path), ".dwp"),
                               absl::StrCat(root, compiled), absl::StrCat(root, "/", BaseOf(dwo_name))});
  }
  absl::Status first;
  for (const std::string& candidate : paths) {
    if (candidate == split_path_) return split_;
    auto file = Open(candidate);
    if (!file.ok() || !(*file)->has_lines()) {
      if (candidate == compiled) {
        first = file.ok() ? absl::NotFoundError("no debug information") : file.status();
      }
      continue;
    }
    auto sections = SectionsOf(*std::move(file));
    if (!sections.ok()) {
      if (candidate == compiled) first = sections.status();
      continue;
    }
    split_path_ = candidate;
    return split_ = *std::move(sections);
  }
  return first;
}

}  // namespace holdfast
