// A process's memory made of bytes in our own memory, for tests and fuzzers of report/holders.
#ifndef HOLDFAST_TESTS_SUPPORT_MADE_ADDRESS_SPACE_H_
#define HOLDFAST_TESTS_SUPPORT_MADE_ADDRESS_SPACE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "report/holders/address_space.h"

namespace holdfast::testing {

class MadeAddressSpace : public AddressSpace {
 public:
  // All pages of `bytes` exist; later ones up to `end` do not.
  void Add(uint64_t start, uint64_t end, std::string name, std::string bytes, bool writable = true) {
    MemoryMapping mapping;
    mapping.start = start;
    mapping.end = end;
    mapping.readable = true;
    mapping.writable = writable;
    mapping.name = std::move(name);
    const auto next = std::find_if(mappings_.begin(), mappings_.end(),
                                   [&](const MemoryMapping& other) { return other.start > start; });
    contents_.insert(contents_.begin() + (next - mappings_.begin()), std::move(bytes));
    mappings_.insert(next, std::move(mapping));
  }
  void AddThread(TargetThread thread) { threads_.push_back(std::move(thread)); }
  void SetShared(size_t mapping) { mappings_[mapping].shared = true; }
  void SetStackStart(uint64_t address) { stack_start_ = address; }
  // Writes the state of glibc's main arena to `address`, with empty bins and the top chunk at `top`.
  // `bins`: 0x18 since 2.43, which has no fast bins.
  void AddMainArena(uint64_t address, uint64_t top, uint64_t bins = 0x70) {
    const uint64_t first = address + bins, next = first + 0x800;
    SetWord(first - 0x10, top);
    for (uint64_t bin = first; bin < next - 0x10; bin += 16) {
      SetWord(bin, bin - 0x10);
      SetWord(bin + 8, bin - 0x10);
    }
    SetWord(next, address);
    SetWord(next + 0x10, 1);
    for (const uint64_t place : {0x18, 0x20}) SetWord(next + place, 0x21000);
  }
  void SetWord(uint64_t address, uint64_t word) {
    for (size_t i = 0; i < mappings_.size(); ++i) {
      if (address >= mappings_[i].start && address + 8 <= mappings_[i].start + contents_[i].size())
        memcpy(contents_[i].data() + (address - mappings_[i].start), &word, sizeof word);
    }
  }

  bool Read(uint64_t address, void* to, size_t bytes) const override {
    for (size_t i = 0; i < mappings_.size(); ++i) {
      const uint64_t size = contents_[i].size(), offset = address - mappings_[i].start;
      if (address < mappings_[i].start || offset >= size || bytes > size - offset) continue;
      memcpy(to, contents_[i].data() + offset, bytes);
      return true;
    }
    return false;
  }
  MemoryRange PopulatedRun(uint64_t from, uint64_t end) override {
    for (size_t i = 0; i < mappings_.size(); ++i) {
      const MemoryRange range{std::max(from, mappings_[i].start),
                              std::min(end, mappings_[i].start + contents_[i].size())};
      if (range.start < range.end) return range;
    }
    return {end, end};
  }

 private:
  std::vector<std::string> contents_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_MADE_ADDRESS_SPACE_H_
