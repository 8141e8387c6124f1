// Reads from a table file that is being written, at offsets from its own header.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_TABLE_READER_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_TABLE_READER_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/observe/table/snapshot_locks.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class TableReader {
 public:
  explicit TableReader(int file) : file_(file) {}

  absl::StatusOr<std::unique_ptr<TableHeader>> Head() const {
    auto head = std::make_unique<TableHeader>();
    if (!ReadAt(0, head.get(), sizeof *head)) return absl::DataLossError("the table is truncated");
    if (CounterValue(head->magic) != kTableMagic || head->version != kLayoutVersion)
      return absl::FailedPreconditionError("the table is of another version of holdfast");
    return head;
  }

  uint64_t FileBytes() const {
    struct stat about {};
    return fstat(file_, &about) == 0 ? static_cast<uint64_t>(about.st_size) : 0;
  }

  // Returns false if the range is not entirely in the file.
  bool Read(Offset offset, void* to, size_t bytes) const {
    return offset != 0 && ReadAt(uint64_t{offset} * kUnit, to, bytes);
  }
  bool ReadAt(uint64_t start, void* to, size_t bytes) const {
    return pread(file_, to, bytes, static_cast<off_t>(start)) == static_cast<ssize_t>(bytes);
  }

 private:
  int file_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_TABLE_READER_H_
