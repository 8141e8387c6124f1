// Writes a result for `-o FILE`: FILE then holds either the whole result or its former contents. The tool writes such
// files only through this class. Profiles in an output folder are written by report/builder/output_folder.h, which never
// follows a link and never replaces a file.
//
//   "-"                 standard output
//   a device or a pipe  written directly, for example /dev/null
//   a symbolic link     its target is replaced, not the link
//   anything else       written to a temporary file beside it and renamed over it, so that a full disk leaves the old file
//
// A replaced file keeps its permissions. One thread at a time.
#ifndef HOLDFAST_REPORT_BASE_ATOMIC_FILE_H_
#define HOLDFAST_REPORT_BASE_ATOMIC_FILE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

// Access to a newly created file.
enum class Readers {
  kUsual,  // according to the umask
  kOwner,  // 0600: profiles hold command lines
};

class AtomicFile {
 public:
  // `standard_output`: where "-" is written.
  AtomicFile(std::string path, std::ostream& standard_output, Readers readers = Readers::kUsual);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without Finish, the former contents stay

  void Write(std::string_view bytes);  // errors are reported by Finish
  // For callers that need a descriptor. Invalid if the file could not be opened.
  int fd();
  // Puts the file in place. The message of an error is complete: "/x/y: could not write (No space left on device). …"
  absl::Status Finish();
  // Records an error of the caller: Finish returns it and keeps the former contents.
  void Fail(std::string why);

 private:
  void Open();
  void NoteError();  // records errno

  const std::string path_;
  std::ostream& standard_output_;
  const Readers readers_;
  std::string target_;     // the link's target, or the path itself
  std::string temporary_;  // "": written directly
  int fd_ = -1;
  std::string why_;  // "": no error yet
};

// Writes the whole file at once.
absl::Status WriteAtomically(const std::string& path, std::string_view bytes, std::ostream& standard_output);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_ATOMIC_FILE_H_
