// Shows one line on the terminal while work takes longer than half a second. Prints nothing for shorter work or without
// a terminal.
//
//   Progress progress("reading profile");
//   for (…) progress.Show(done, all);        // "reading profile 12 of 80 …", rewritten in place ten times a second
//                                            // removed when `progress` is destroyed
// A separate thread writes the line, so that it also appears during one long step. Without a terminal there is no
// thread.
#ifndef HOLDFAST_REPORT_BASE_PROGRESS_H_
#define HOLDFAST_REPORT_BASE_PROGRESS_H_

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace holdfast {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(size_t done, size_t all);
  void Clear();  // call before other output; ends the display

 private:
  void Write();

  const std::string what_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable ended_changed_;
  bool ended_ = false;
  size_t done_ = 0, all_ = 0;
  std::thread writer_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_PROGRESS_H_
