// Which ranges of addresses the program has mapped itself, as the wrappers saw it (MappedRange in sampler/contract/mapped_ranges.h).
//
// Read from the table file as it is at that moment, while the program goes on. What does not lie inside the file is left out.
#ifndef HOLDFAST_REPORT_MEMORY_OWN_RANGES_H_
#define HOLDFAST_REPORT_MEMORY_OWN_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "report/table/table_folder.h"
#include "sampler/contract/records.h"

namespace holdfast {

struct AddressRange {
  uint64_t start, end;
  bool of_allocator = false;  // mapped by the library that has malloc
  Offset row = 0;             // that counts it
  uint64_t mapping = 0;       // equal in all pieces of one
};

// By address.
absl::StatusOr<std::vector<AddressRange>> ReadMappedRanges(const TableFile& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_OWN_RANGES_H_
