// The answer of `holdfast top`: the rows in their order, and the owner of most of the profile. Plain data;
// report/show/top.cc renders it.
#ifndef HOLDFAST_REPORT_ANALYSIS_TOP_ANSWER_H_
#define HOLDFAST_REPORT_ANALYSIS_TOP_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/analysis/owners.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"

namespace holdfast {

struct TopQuestion {
  std::string by = "function";  // StackOptions::by
  bool by_total = false;
  bool with_branches = false;                          // branches of C code may be the biggest: for memory
  size_t max_rows = 0;                                 // 0 = all
  std::optional<std::set<std::string>> contends = {};  // for a merged profile of waits; see IdleWaits
};

struct TopAnswer {
  struct Row {
    uint32_t node = 0;       // in FilteredStacks::nodes
    std::string short_name;  // no two functions have the same one
    int64_t self = 0, total = 0;
    double self_variance = 0, total_variance = 0;
    int64_t for_locks = 0;  // of a profile of waits: the part that others' holds caused
  };
  std::vector<Row> rows;
  size_t all_rows = 0;           // also those beyond max_rows
  bool by_label = false;         // a row is a value of a label
  bool by_thread_start = false;  // a row is a thread's start function: the profile has no label `thread`

  // Waits that have no holder, if there are any: events, and idle threads. `locks` is the rest.
  int64_t locks = 0, events = 0, idle = 0;
  bool has_unheld_waits() const { return events != 0 || idle != 0; }

  // The owner of most; nothing: the first row, or nobody. If there are waits without a holder, of the others only.
  std::optional<Biggest> biggest;
  std::string biggest_name, biggest_other;  // short
};

// `plumbing` must belong to the profile of `stacks`.
TopAnswer AnswerTop(const FilteredStacks& stacks, const TopQuestion& question, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_TOP_ANSWER_H_
