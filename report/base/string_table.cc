#include "report/base/string_table.h"

#include <algorithm>
#include <cstring>

namespace holdfast {

StringId StringTable::Intern(std::string_view text) {
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  constexpr size_t kBlock = 64 * 1024;
  if (text.size() > left_) {
    // A long string gets its own block; the current block stays in use.
    const size_t size = std::max(kBlock, text.size());
    blocks_.push_back(std::unique_ptr<char[]>(new char[size]));
    if (size == kBlock) {
      next_ = blocks_.back().get();
      left_ = kBlock;
    }
  }
  char* place = text.size() > left_ ? blocks_.back().get() : next_;
  if (!text.empty()) std::memcpy(place, text.data(), text.size());
  if (place == next_) {
    next_ += text.size();
    left_ -= text.size();
  }
  const auto id = static_cast<StringId>(strings_.size());
  strings_.emplace_back(place, text.size());
  ids_.emplace(strings_.back(), id);
  return id;
}

}  // namespace holdfast
