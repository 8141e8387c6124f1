// Known leaks that are not reported, from files in LeakSanitizer's or valgrind's format, also mixed:
//
//  # a comment
//  leak:libfoo.so          part of the name of a function, source file or object in the stack
//  leak:^init_*_table$     * matches any text, ^ and $ the ends
//
//  {
//     a name
//     Memcheck:Leak
//     match-leak-kinds: definite,indirect     default: all kinds
//     fun:malloc           the innermost function; * and ? match any text and any character
//     ...                  any number of functions
//     obj:*/libfoo.so*     a function of this object
//  }
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_SUPPRESSIONS_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_SUPPRESSIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

// A function in a stack, as suppressions see it. Valgrind's files have mangled names.
struct SuppressibleCall {
  std::string_view function, mangled, object;  // the object's path
};

class Suppressions {
 public:
  // Reads a file and adds its lines. Skips lines of LeakSanitizer's other kinds (race:, thread: …) and valgrind's other
  // errors; other lines are errors.
  absl::Status AddFile(const std::string& path);
  absl::Status AddText(std::string_view text, std::string_view name);

  bool empty() const { return patterns_.empty() && stacks_.empty(); }
  bool has_stacks() const { return !stacks_.empty(); }  // in valgrind's format
  // Whether a leak: line matches.
  bool Matches(std::string_view name) const;
  // Whether a line or a stack of any format matches a stack without its allocation function, innermost call first.
  // `direct`: no lost block leads to the leak (valgrind: definite).
  bool MatchesStack(std::span<const SuppressibleCall> calls, bool direct) const;

 private:
  struct Frame {
    enum class Kind : uint8_t { kFunction, kObject, kAny } kind;
    std::string pattern;
  };
  struct StackPattern {
    bool direct = true, indirect = true;
    std::vector<Frame> frames;
  };
  // Reads the lines of one { } block.
  absl::Status AddBlock(std::span<const std::string> lines, std::string_view place);
  static bool MatchesFrom(std::span<const Frame> frames, std::span<const SuppressibleCall> calls);

  std::vector<std::string> patterns_;
  std::vector<StackPattern> stacks_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_SUPPRESSIONS_H_
