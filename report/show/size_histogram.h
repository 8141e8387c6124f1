// `holdfast top --by size`: shows the sizes of the blocks in a profile, or in a function of it (--focus).
//
//     size        objects     self  self%
//     up to 64B    120,000  4.21MiB 12.5%  ██▌
//     up to 128B         0        0    0%
//     up to 256B   131,072 29.40MiB 87.5%  ████████████████████
//
// Each row is a power of two. The rows add up to the total that the filters select. If a file has no sizes, as in text
// profiles, each stack counts under the mean size of its objects.
#ifndef HOLDFAST_REPORT_SHOW_SIZE_HISTOGRAM_H_
#define HOLDFAST_REPORT_SHOW_SIZE_HISTOGRAM_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/status/statusor.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/show/selection.h"

namespace holdfast {

struct SizeRow {
  uint64_t most = 0;  // the largest size in the row; 0: sizes unknown
  int64_t value = 0, objects = 0;
  double variance = 0;
};

// Returns rows from the smallest size to the largest, without gaps. The last row holds objects of unknown size. Column
// 0 of `stacks` is the value, column 1 the number of objects, column 2 their bytes. Columns 1 and 2 may be missing.
std::vector<SizeRow> SizeRowsOf(const FilteredStacks& stacks);

// Prints the table. Returns InvalidArgument if profiles of this kind have no sizes.
absl::Status PrintSizes(const View& view, const ViewOptions& options, const Style& style, std::ostream& out);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_SIZE_HISTOGRAM_H_
