// The findings of `holdfast doctor`, in the order in which they were made. Each has a verdict and a topic.
//
//     ok    recording   takes the library: 64-bit, linked dynamically
//     note  symbols     /usr/bin/php8.2: only exported functions have names (install its -dbgsym package)
//     NO    recording   is setuid, so the loader takes no preloaded library
#ifndef HOLDFAST_REPORT_RUN_FINDINGS_H_
#define HOLDFAST_REPORT_RUN_FINDINGS_H_

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"

namespace holdfast {

class Findings {
 public:
  enum class Verdict { kOk, kNote, kNo };

  void Ok(std::string topic, std::string text) { Add(Verdict::kOk, std::move(topic), std::move(text)); }
  void Note(std::string topic, std::string text) { Add(Verdict::kNote, std::move(topic), std::move(text)); }
  // Something is not seen at all.
  void No(std::string topic, std::string text) { Add(Verdict::kNo, std::move(topic), std::move(text)); }

  bool any_no() const {
    return std::any_of(lines_.begin(), lines_.end(), [](const Line& line) { return line.verdict == Verdict::kNo; });
  }

  std::string Text() const {
    std::string text;
    for (const Line& line : lines_) {
      const char* verdict = line.verdict == Verdict::kOk ? "ok" : line.verdict == Verdict::kNote ? "note" : "NO";
      text += fmt::format("  {:<4}  {:<10}  {}\n", verdict, line.topic, Printable(line.text));
    }
    return text;
  }

 private:
  struct Line {
    Verdict verdict;
    std::string topic, text;
  };
  void Add(Verdict verdict, std::string topic, std::string text) {
    lines_.push_back({verdict, std::move(topic), std::move(text)});
  }

  std::vector<Line> lines_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_FINDINGS_H_
