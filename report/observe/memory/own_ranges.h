// The address ranges that the program has mapped itself, as the wrappers recorded them (MappedRange in
// sampler/contract/mapped_ranges.h).
//
// Reads the table file while the program runs. Skips records outside the file.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_OWN_RANGES_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_OWN_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/records.h"

namespace holdfast {

struct OwnRange {
  uint64_t start, end;
  bool of_allocator = false;  // mapped by the library with malloc
  Offset row = 0;             // the row that counts it
  uint64_t mapping = 0;       // equal in all pieces of a mapping
};

// Sorted by address.
absl::StatusOr<std::vector<OwnRange>> ReadMappedRanges(const TableFile& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_OWN_RANGES_H_
