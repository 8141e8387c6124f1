// A copy of a table that reads only the requested parts. The destructor frees its memory.
#ifndef HOLDFAST_REPORT_OBSERVE_PEAK_TABLE_PAGES_H_
#define HOLDFAST_REPORT_OBSERVE_PEAK_TABLE_PAGES_H_

#include <cstdint>
#include <vector>

#include "sampler/contract/layout.h"

namespace holdfast {

class TablePages {
 public:
  // Covers the table's currently used part.
  explicit TablePages(int table);
  ~TablePages();
  TablePages(const TablePages&) = delete;
  TablePages& operator=(const TablePages&) = delete;

  bool ok() const { return bytes_ != nullptr; }
  uint64_t size() const { return size_; }
  // Returns null if the range is not entirely in the table, or the table was truncated.
  const void* Get(uint64_t start, uint64_t bytes);
  // Returns the record at `offset`, which must be after the header.
  template <typename T>
  const T* At(Offset offset) {
    const uint64_t start = uint64_t{offset} * kUnit;
    return start < sizeof(TableHeader) ? nullptr : static_cast<const T*>(Get(start, sizeof(T)));
  }

 private:
  static constexpr uint64_t kPart = 16 << 10;

  const int table_;
  char* bytes_ = nullptr;
  uint64_t size_ = 0;
  std::vector<bool> read_;  // for each part
};

// Reads exactly `bytes` bytes. Returns false if the file is shorter.
bool ReadTable(int table, void* to, uint64_t start, uint64_t bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PEAK_TABLE_PAGES_H_
