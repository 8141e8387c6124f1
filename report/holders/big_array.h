// An array that grows without copying: reserves address space for the most elements, and uses memory as it grows. All
// arrays of a scan share a budget.
#ifndef HOLDFAST_REPORT_HOLDERS_BIG_ARRAY_H_
#define HOLDFAST_REPORT_HOLDERS_BIG_ARRAY_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <utility>

#include "report/base/huge_pages.h"

namespace holdfast {

// `--scan-memory`: how much memory a scan may use. `stop`: ends the scan early.
struct ScanBudget {
  uint64_t most_bytes = UINT64_MAX, used_bytes = 0, highest_bytes = 0;
  std::stop_token stop = {};
  bool Take(uint64_t bytes) {
    if (bytes > most_bytes - std::min(most_bytes, used_bytes)) return false;
    used_bytes += bytes;
    highest_bytes = std::max(highest_bytes, used_bytes);
    return true;
  }
  void Return(uint64_t bytes) { used_bytes -= std::min(used_bytes, bytes); }
};

template <typename T>
class BigArray {
 public:
  BigArray() = default;
  BigArray(const BigArray&) = delete;
  BigArray& operator=(const BigArray&) = delete;
  ~BigArray() { Free(); }

  // Reserves room for `most` elements. Returns false without address space.
  bool Reserve(size_t most, ScanBudget* budget) {
    Free();
    budget_ = budget;
    most_ = std::max<size_t>(most, 1);
    void* const at =
        mmap(nullptr, most_ * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
      most_ = 0;
      return false;
    }
    data_ = static_cast<T*>(at);
    return true;
  }
  // Reserves and adds `count` zeros. Returns false if the budget does not allow it.
  bool Fill(size_t count, ScanBudget* budget) {
    if (!Reserve(count, budget) || !Charge(count)) return false;
    size_ = count;
    return true;
  }
  // Returns false if the array or the budget is full.
  bool Add(T value) {
    if (size_ >= charged_ && !Charge(size_ + 1)) return false;
    data_[size_++] = value;
    return true;
  }
  void Free() {
    if (data_ != nullptr) munmap(data_, most_ * sizeof(T));
    if (budget_ != nullptr) budget_->Return(charged_ * sizeof(T));
    data_ = nullptr;
    size_ = charged_ = most_ = 0;
  }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  static constexpr size_t kStep = (size_t{2} << 20) / sizeof(T);
  static constexpr size_t kLarge = size_t{8} << 20;  // bytes; smaller arrays are not worth huge pages

  bool Charge(size_t count) {
    if (count > most_) return false;
    const size_t charged = std::min(most_, std::max(charged_ + kStep, count));
    if (!budget_->Take((charged - charged_) * sizeof(T))) return false;
    if (charged * sizeof(T) >= kLarge) UseHugePages(data_ + charged_, (charged - charged_) * sizeof(T));
    charged_ = charged;
    return true;
  }

  T* data_ = nullptr;
  size_t size_ = 0, charged_ = 0, most_ = 0;
  ScanBudget* budget_ = nullptr;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_BIG_ARRAY_H_
