// What `-o FILE` means: the whole of a result under its name, or nothing. "-" is standard output.
#ifndef HOLDFAST_REPORT_BASE_OUTPUT_FILE_H_
#define HOLDFAST_REPORT_BASE_OUTPUT_FILE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

// Written beside it and renamed, so that a full disk leaves what was there before. Devices and pipes are written as
// they are. One thread.
class Output {
 public:
  Output(std::string path, std::ostream& standard_output);
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output();  // without Finish: what was there before stays

  void Write(std::string_view bytes);  // Finish says what went wrong
  absl::Status Finish();

 private:
  void Open();

  const std::string path_;
  std::ostream& standard_output_;
  std::string temporary_;  // "": written in place
  int fd_ = -1;
  int error_ = 0;
};

// All at once.
absl::Status WriteOutput(const std::string& path, std::string_view bytes, std::ostream& standard_output);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_OUTPUT_FILE_H_
