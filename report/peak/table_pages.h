// A copy of a table of which only the parts are read that somebody asks for. Its memory is gone with it.
#ifndef HOLDFAST_REPORT_PEAK_TABLE_PAGES_H_
#define HOLDFAST_REPORT_PEAK_TABLE_PAGES_H_

#include <cstdint>
#include <vector>

#include "sampler/contract/layout.h"

namespace holdfast {

class TablePages {
 public:
  // As far as the table is used now.
  explicit TablePages(int table);
  ~TablePages();
  TablePages(const TablePages&) = delete;
  TablePages& operator=(const TablePages&) = delete;

  bool ok() const { return bytes_ != nullptr; }
  uint64_t size() const { return size_; }
  // Null: not wholly in the table, or the table was cut.
  const void* Get(uint64_t start, uint64_t bytes);
  // The record at `offset`, behind the header.
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
  std::vector<bool> read_;  // by part
};

// Reads exactly so many bytes; false when the file is shorter.
bool ReadTable(int table, void* to, uint64_t start, uint64_t bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PEAK_TABLE_PAGES_H_
