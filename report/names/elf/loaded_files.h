// The files from which a process's modules were loaded, kept open while in use.
//
// Example: /srv/app is replaced by a new build or deleted, or its container ends. The descriptor still reads the loaded
// file, with the names of its functions.
//
// One LoadedFile serves all processes that map the same (device, inode). A descriptor uses no memory of this process,
// and names are read when a profile needs them. OpenFiles limits the number of files. One thread at a time.
#ifndef HOLDFAST_REPORT_NAMES_ELF_LOADED_FILES_H_
#define HOLDFAST_REPORT_NAMES_ELF_LOADED_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "report/base/file_descriptor.h"

namespace holdfast {

struct LoadedFile {
  FileDescriptor program;
  FileDescriptor debug;            // the separate debug file, if it has the names; invalid: none was found
  std::string debug_path = {};     // the path of `debug`
  std::string root = {};           // "/proc/PID/root" if the path is valid only there; "": valid in our own root
  uint64_t device = 0, inode = 0;  // of `program`
};

// The files of one process, keyed by the path and build id in its table. Without a build id the load address is part of
// the key. It tells the loaded plugin from an earlier one with the same path.
class LoadedFiles {
 public:
  using Key = std::pair<std::string, std::string>;

  // `bias`: the module's bias, including its tag.
  static Key KeyOf(std::string path, std::string_view build_id, uint64_t bias) {
    return {std::move(path), build_id.empty() ? "@" + std::to_string(bias) : std::string(build_id)};
  }
  void Add(Key key, std::shared_ptr<const LoadedFile> file) { files_[std::move(key)] = std::move(file); }
  void Remove(const Key& key) {
    files_.erase(key);
    if (key.second.starts_with('@')) gone_.insert(key);
  }
  // Returns whether the file was held and released, and cannot be told apart from another file at its path.
  bool IsGone(const Key& key) const { return gone_.contains(key); }
  // Returns null if the file is not held; find it by its path instead.
  std::shared_ptr<const LoadedFile> Find(const Key& key) const {
    const auto found = files_.find(key);
    return found == files_.end() ? nullptr : found->second;
  }
  LoadedFiles WithoutFiles() const {
    LoadedFiles none;
    none.gone_ = gone_;
    return none;
  }
  const std::map<Key, std::shared_ptr<const LoadedFile>>& all() const { return files_; }

 private:
  std::map<Key, std::shared_ptr<const LoadedFile>> files_;
  std::set<Key> gone_;
};

// All files that an exporter holds open, for all processes.
class OpenFiles {
 public:
  // Uses at most a quarter of the descriptors that this process may have.
  OpenFiles();
  explicit OpenFiles(size_t most) : most_(most) {}

  // Returns the file that `program` refers to, shared with other holders. If `*is_new`, the caller must set `root` and
  // `debug`. Returns null if the limit is reached.
  std::shared_ptr<LoadedFile> Share(FileDescriptor program, bool* is_new);
  // Returns a file that another process holds, for a process that ended before it was examined; null: none.
  std::shared_ptr<const LoadedFile> WithBuildId(const std::string& build_id) const;
  void Note(const std::string& build_id, const std::shared_ptr<LoadedFile>& file);

 private:
  void DropClosed();

  const size_t most_;
  std::map<std::string, std::weak_ptr<LoadedFile>> by_identity_, by_build_id_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_LOADED_FILES_H_
