// What makes a stack the same one in two files, as 64 bits: its code (build id and place in the file, else names and
// lines) and its labels. Of 1,000,000 stacks two different ones have equal keys once in 30 million pairs of files.
// Good in one run of the program only. Any thread.
#ifndef HOLDFAST_REPORT_PROFILES_STACK_KEYS_H_
#define HOLDFAST_REPORT_PROFILES_STACK_KEYS_H_

#include <cstdint>
#include <vector>

#include "report/profiles/filtered_stacks.h"

namespace holdfast {

// One for each stack.
std::vector<uint64_t> StackKeys(const FilteredStacks& stacks);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_STACK_KEYS_H_
