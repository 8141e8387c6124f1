#include "report/observe/peak/table_pages.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>

#include "report/observe/table/ordered_read.h"

namespace holdfast {

bool ReadTable(int table, void* to, uint64_t start, uint64_t bytes) {
  return ReadRange(table, static_cast<char*>(to), start, start + bytes);
}

TablePages::TablePages(int table) : table_(table) {
  struct Extent {
    uint32_t used, backed;
  } extent;
  static_assert(offsetof(TableHeader, backed) == offsetof(TableHeader, used) + sizeof extent.used);
  struct stat info;
  if (fstat(table, &info) != 0 || !ReadTable(table, &extent, offsetof(TableHeader, used), sizeof extent)) return;
  size_ = std::min(uint64_t{std::min(extent.used, extent.backed)} * kUnit, static_cast<uint64_t>(info.st_size));
  if (size_ < sizeof(TableHeader)) return;
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;
  bytes_ = static_cast<char*>(mapped);
  read_.resize((size_ + kPart - 1) / kPart);
}

TablePages::~TablePages() {
  if (bytes_ != nullptr) munmap(bytes_, size_);
}

const void* TablePages::Get(uint64_t start, uint64_t bytes) {
  if (start > size_ || bytes > size_ - start || bytes == 0) return nullptr;
  for (uint64_t part = start / kPart; part <= (start + bytes - 1) / kPart; ++part) {
    if (read_[part]) continue;
    const uint64_t from = part * kPart;
    if (!ReadTable(table_, bytes_ + from, from, std::min(kPart, size_ - from))) return nullptr;
    read_[part] = true;
  }
  return bytes_ + start;
}

}  // namespace holdfast
