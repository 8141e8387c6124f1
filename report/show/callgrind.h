// Writes a profile in callgrind's format: each function with its own values and with the values of each callee.
#ifndef HOLDFAST_REPORT_SHOW_CALLGRIND_H_
#define HOLDFAST_REPORT_SHOW_CALLGRIND_H_

#include "report/analysis/profiles/filtered_stacks.h"
#include "report/show/selection.h"
#include "report/show/text_writer.h"

namespace holdfast {

void WriteCallgrind(const View& view, const FilteredStacks& stacks, TextWriter* text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_CALLGRIND_H_
