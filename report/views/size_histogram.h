// `holdfast top --by size`: how large the blocks are that a profile, or a function of it (--focus), is made of.
//
//     size        objects     self  self%
//     up to 64B    120,000  4.21MiB 12.5%  ██▌
//     up to 128B         0        0    0%
//     up to 256B   131,072 29.40MiB 87.5%  ████████████████████
//
// A row is a power of two. The rows add up to the total of what the filters select. A file without sizes, as text profiles
// are, counts each stack by the mean size of its objects.
#ifndef HOLDFAST_REPORT_VIEWS_SIZE_HISTOGRAM_H_
#define HOLDFAST_REPORT_VIEWS_SIZE_HISTOGRAM_H_

#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/status/statusor.h"
#include "report/profiles/filtered_stacks.h"
#include "report/views/selection.h"

namespace holdfast {

struct SizeRow {
  uint64_t most = 0;  // the largest size that the row counts; 0: the size is not known
  int64_t value = 0, objects = 0;
  double variance = 0;
};

// From the smallest size to the largest, without gaps; what has no size is the last row. Column 0 of `stacks` is the value,
// column 1 the number of objects, column 2 their bytes. Columns 1 and 2 may be missing.
std::vector<SizeRow> SizeRowsOf(const FilteredStacks& stacks);

// Prints the table. InvalidArgument: a profile of this kind has no sizes.
absl::Status PrintSizes(const View& view, const ViewOptions& options, const Style& style, std::ostream& out);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_SIZE_HISTOGRAM_H_
