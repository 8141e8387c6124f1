// Interns strings: each string is stored once and has a number. Not synchronized: one thread at a time.
#ifndef HOLDFAST_REPORT_BASE_STRING_TABLE_H_
#define HOLDFAST_REPORT_BASE_STRING_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace holdfast {

using StringId = uint32_t;  // index into the string table; 0: ""

// Views stay valid for the table's lifetime, also when it grows or is moved.
class StringTable {
 public:
  StringTable() { Intern(""); }
  StringId Intern(std::string_view text);
  std::string_view operator[](StringId id) const { return strings_[id]; }
  size_t size() const { return strings_.size(); }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0;
  std::vector<std::string_view> strings_;
  absl::flat_hash_map<std::string_view, StringId> ids_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_STRING_TABLE_H_
