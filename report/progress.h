// One line on the terminal about work that takes longer than half a second; nothing in a pipe, nothing for quick work.
//
//   Progress progress("reading");
//   for (…) progress.Show(done, all);        // "reading 12 of 80 …", rewritten in place, at most ten times a second
//                                            // gone when `progress` is
#ifndef HOLDFAST_REPORT_PROGRESS_H_
#define HOLDFAST_REPORT_PROGRESS_H_

#include <chrono>
#include <cstddef>
#include <string>

namespace holdfast {

class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Show(size_t done, size_t all);
  void Clear();  // before anything else is printed

 private:
  const std::string what_;
  const bool on_terminal_;
  std::chrono::steady_clock::time_point next_;
  bool shown_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROGRESS_H_
