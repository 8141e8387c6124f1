// The time in nanoseconds, and a deadline after which deferrable work stops.
#ifndef HOLDFAST_REPORT_BASE_TIME_BUDGET_H_
#define HOLDFAST_REPORT_BASE_TIME_BUDGET_H_

#include <time.h>

#include <chrono>
#include <cstdint>

namespace holdfast {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1000 * kMs;

inline int64_t NowNs(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

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
