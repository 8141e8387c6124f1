// A moment by which work that can be left for later is broken off.
#ifndef HOLDFAST_REPORT_BASE_TIME_BUDGET_H_
#define HOLDFAST_REPORT_BASE_TIME_BUDGET_H_

#include <chrono>

namespace holdfast {

class Deadline {
 public:
  static Deadline Never() { return Deadline(std::chrono::steady_clock::time_point::max()); }
  static Deadline In(std::chrono::milliseconds time) { return Deadline(std::chrono::steady_clock::now() + time); }

  bool IsNever() const { return when_ == std::chrono::steady_clock::time_point::max(); }
  bool Passed() const { return !IsNever() && std::chrono::steady_clock::now() >= when_; }

 private:
  explicit Deadline(std::chrono::steady_clock::time_point when) : when_(when) {}
  std::chrono::steady_clock::time_point when_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_TIME_BUDGET_H_
