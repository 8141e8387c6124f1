// Finds the files that hold a program's symbols and debug information, by build id.
//
// For /usr/bin/app of build id 12ab…, under each root (/usr/lib/debug, and what --debug-dir names):
//   ROOT/.build-id/12/ab….debug                        where packages put separate debug files
//   the name in .gnu_debuglink: beside the program, in .debug/ there, under ROOT/usr/bin/, in ROOT
//   ROOT/usr/bin/app, ROOT/app, ROOT/app.debug, ROOT/.build-id/12/ab…    a copy of the file itself
//   any file of this build id below a folder that is searched (--debug-dir)
// then debuginfod, when that is asked for. A file is only taken when its build id is the program's; where the program
// has none, .gnu_debuglink's checksum must be right.
#ifndef HOLDFAST_REPORT_ELF_DEBUG_FILE_FINDER_H_
#define HOLDFAST_REPORT_ELF_DEBUG_FILE_FINDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/elf/build_id_index.h"
#include "report/elf/debug_file.h"
#include "report/elf/debuginfod.h"

namespace holdfast {

// A regular file for reading: the path comes from a table or a file that anyone may have written, and opening a pipe
// would wait for ever.
absl::StatusOr<FileDescriptor> OpenRegular(const std::string& path);

class DebugFileFinder {
 public:
  struct Options {
    std::vector<std::string> roots = {"/usr/lib/debug"};
    std::vector<std::string> searched = {};  // all files below are asked for their build ids
    bool debuginfod = false;                 // only with $DEBUGINFOD_URLS
    uint64_t max_unpacked = 16ull << 30;     // of the compressed sections of one file
  };
  struct Found {
    std::shared_ptr<DebugFile> file;
    std::string path;  // "" from debuginfod
  };

  explicit DebugFileFinder(Options options) : options_(std::move(options)), index_(options_.searched) {}

  // Another file than `path` itself, for the program that was loaded from there. `binary` is that program's file, null
  // when it is not there any more. The file may have symbols and no lines. `root`: each path is tried below this folder
  // first, "/proc/4242/root" for a program in a container.
  absl::StatusOr<Found> Find(const std::string& path, const std::string& build_id, const DebugFile* binary,
                             const std::string& root = "");

  // The shared file (dwz) that `file`, which lies at `path`, refers to; opens it into `file`. What is missing when not.
  absl::Status AddShared(DebugFile* file, const std::string& path);

  // The file with a split unit: comp_dir/dwo_name, beside `path` or under a root; or the package `path`.dwp.
  absl::StatusOr<std::shared_ptr<dwarf::Sections>> OpenSplit(const std::string& path, const std::string& comp_dir,
                                                             const std::string& dwo_name);

  uint64_t max_unpacked() const { return options_.max_unpacked; }
  size_t files_read() const { return files_read_; }

 private:
  absl::StatusOr<std::shared_ptr<DebugFile>> Open(const std::string& path);
  absl::StatusOr<std::shared_ptr<DebugFile>> OpenById(const std::string& path, const std::string& build_id);

  Options options_;
  BuildIdIndex index_;
  Debuginfod debuginfod_;
  size_t files_read_ = 0;
  // The last split file: the units of one package follow each other.
  std::string split_path_;
  std::shared_ptr<dwarf::Sections> split_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_DEBUG_FILE_FINDER_H_
