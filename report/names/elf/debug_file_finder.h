// Finds the files with a program's symbols and debug information, by build id.
//
// For /usr/bin/app with build id 12ab…, searches under each root (/usr/lib/debug and the folders of --debug-dir):
//   ROOT/.build-id/12/ab….debug                        where packages install separate debug files
//   the name in .gnu_debuglink: beside the program, in .debug/ there, under ROOT/usr/bin/, in ROOT
//   ROOT/usr/bin/app, ROOT/app, ROOT/app.debug, ROOT/.build-id/12/ab…    a copy of the file itself
//   any file with this build id below a searched folder (--debug-dir)
// Then asks debuginfod, if requested. A file must have the program's build id. If the program has no build id, the file
// must have the checksum in .gnu_debuglink.
#ifndef HOLDFAST_REPORT_NAMES_ELF_DEBUG_FILE_FINDER_H_
#define HOLDFAST_REPORT_NAMES_ELF_DEBUG_FILE_FINDER_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/names/elf/build_id_index.h"
#include "report/names/elf/debug_file.h"
#include "report/names/elf/debuginfod.h"

namespace holdfast {

// Opens a regular file for reading. The path comes from a table or from a file that anyone may have written, and
// opening a pipe would wait forever.
absl::StatusOr<FileDescriptor> OpenRegular(const std::string& path);

class DebugFileFinder {
 public:
  struct Options {
    std::vector<std::string> roots = {"/usr/lib/debug"};
    std::vector<std::string> searched = {};  // the build ids of all files below are read
    bool debuginfod = false;                 // effective only with $DEBUGINFOD_URLS
    uint64_t max_unpacked = 16ull << 30;     // bytes, for the compressed sections of one file
  };
  struct Found {
    std::shared_ptr<DebugFile> file;
    std::string path;  // "" if from debuginfod
  };

  explicit DebugFileFinder(Options options) : options_(std::move(options)), index_(options_.searched) {}

  // Finds a file other than `path` for the program that was loaded from `path`. `binary` is the program's own file, or
  // null if it no longer exists. The result may have symbols and no line tables. `root`: each path is tried below this
  // folder first, "/proc/4242/root" for a program in a container.
  absl::StatusOr<Found> Find(const std::string& path, const std::string& build_id, const DebugFile* binary,
                             const std::string& root = "");

  // Opens the shared file (dwz) that `file`, located at `path`, refers to, and adds it to `file`. The error says what
  // is missing.
  absl::Status AddShared(DebugFile* file, const std::string& path);

  // Opens the file with a split unit: comp_dir/dwo_name, beside `path` or under a root, or the package `path`.dwp.
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
  // Keeps the last split file, because units of one package are read in sequence.
  std::string split_path_;
  std::shared_ptr<dwarf::Sections> split_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_DEBUG_FILE_FINDER_H_
