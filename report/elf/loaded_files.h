// The files that a process's modules were loaded from, held open while they are in use.
//
//     /srv/app is replaced by a new build, or deleted, or its container ends: the descriptor still reads the file that was
//     loaded, with the names of its functions.
//
// One LoadedFile serves all processes that map the same (device, inode). A descriptor costs no memory of ours: names are
// read when a profile needs them. OpenFiles bounds how many there are. One thread at a time.
#ifndef HOLDFAST_REPORT_ELF_LOADED_FILES_H_
#define HOLDFAST_REPORT_ELF_LOADED_FILES_H_

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
  FileDescriptor debug;         // its separate debug file, where that has the names; invalid: none was found
  std::string debug_path = {};  // of `debug`
  std::string root = {};        // "/proc/PID/root": where its path leads to it; "" = by our own root
};

// The files of one process, by the path and the build id that its table names. Without a build id the place in memory tells
// the plugin that is loaded now from the one that was at its path before.
class LoadedFiles {
 public:
  using Key = std::pair<std::string, std::string>;

  // `bias`: of the module, with its tag.
  static Key KeyOf(std::string path, std::string_view build_id, uint64_t bias) {
    return {std::move(path), build_id.empty() ? "@" + std::to_string(bias) : std::string(build_id)};
  }
  void Add(Key key, std::shared_ptr<const LoadedFile> file) { files_[std::move(key)] = std::move(file); }
  void Remove(const Key& key) {
    files_.erase(key);
    if (key.second.starts_with('@')) gone_.insert(key);
  }
  // Whether it was held and let go, and nothing tells another file at its path from it.
  bool IsGone(const Key& key) const { return gone_.contains(key); }
  // Null: it is not held, and has to be looked for by its path.
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

// What all processes of an exporter hold open together.
class OpenFiles {
 public:
  // At most as many as a quarter of the descriptors that this process may have.
  OpenFiles();
  explicit OpenFiles(size_t most) : most_(most) {}

  // The file that `program` has open, shared with whoever holds it already; its `root` and `debug` are still to be set
  // where `*is_new`. Null: there are too many.
  std::shared_ptr<LoadedFile> Share(FileDescriptor program, bool* is_new);
  // One that another process holds: for a process that ended before anybody looked. Null: none.
  std::shared_ptr<const LoadedFile> WithBuildId(const std::string& build_id) const;
  void Note(const std::string& build_id, const std::shared_ptr<LoadedFile>& file);

 private:
  void DropClosed();

  const size_t most_;
  std::map<std::string, std::weak_ptr<LoadedFile>> by_identity_, by_build_id_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_LOADED_FILES_H_
