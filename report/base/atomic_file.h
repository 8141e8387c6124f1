// What `-o FILE` means: the whole of a result under its name, or what was there before. The one way of the tool to write
// such a file; profiles in an output folder are written by report/export/output_folder.h, which never follows a link and
// never replaces anything.
//
//   "-"                 standard output
//   a device or a pipe  written as it is, /dev/null too
//   a symbolic link     what it points to is replaced, not the link
//   anything else       written beside it and renamed over it, so that a full disk leaves what was there
//
// A file that was there keeps its permissions. One thread at a time.
#ifndef HOLDFAST_REPORT_BASE_ATOMIC_FILE_H_
#define HOLDFAST_REPORT_BASE_ATOMIC_FILE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

// Who may read a file that was not there before.
enum class Readers {
  kUsual,  // as the umask says
  kOwner,  // 0600: profiles hold command lines
};

class AtomicFile {
 public:
  // `standard_output`: where "-" goes.
  AtomicFile(std::string path, std::ostream& standard_output, Readers readers = Readers::kUsual);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without Finish: what was there before stays

  void Write(std::string_view bytes);  // Finish says what went wrong
  // For who writes to a descriptor; not valid where it could not be opened.
  int fd();
  // Puts it in place. The message of an error is complete: "/x/y: could not write (No space left on device). …"
  absl::Status Finish();
  // Something went wrong on the way: Finish will say so, and leave what was there.
  void Fail(std::string why);

 private:
  void Open();
  void NoteError();  // errno

  const std::string path_;
  std::ostream& standard_output_;
  const Readers readers_;
  std::string target_;     // of the link
  std::string temporary_;  // "": written in place
  int fd_ = -1;
  std::string why_;  // "": fine so far
};

// All at once.
absl::Status WriteAtomically(const std::string& path, std::string_view bytes, std::ostream& standard_output);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_ATOMIC_FILE_H_
