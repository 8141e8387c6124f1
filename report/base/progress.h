// One line on the terminal about work that takes longer than half a second; nothing in a pipe, nothing for quick work.
//
//   Progress progress("reading profile");
//   for (…) progress.Show(done, all);        // "reading profile 12 of 80 …", rewritten in place ten times a second
//                                            // gone when `progress` is
// A thread of its own writes the line, so that it also comes when one step takes long; there is none without a
// terminal.
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
  void Clear();  // before anything else is printed; the end of it

 private:
  void Write();

  const std::string what_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable ended_changed_;
  bool ended_ = false;
  size_t done_ = 0, all_ = 0;
  std::thread writer_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_PROGRESS_H_
