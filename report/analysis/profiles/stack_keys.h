// Identifies stacks across files by 64 bits: a hash of the code (build id and offset in the file, else names and lines)
// and the labels. With 1,000,000 stacks, two different stacks have equal keys once in 30 million pairs of files. Keys
// are valid only within one run of the program. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_STACK_KEYS_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_STACK_KEYS_H_

#include <cstdint>
#include <vector>

#include "report/analysis/profiles/filtered_stacks.h"

namespace holdfast {

// Returns one key per stack.
std::vector<uint64_t> StackKeys(const FilteredStacks& stacks);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_STACK_KEYS_H_
