#include "report/names/dwarf/enclosing.h"

#include <algorithm>

#include "report/names/dwarf/cursor.h"

namespace holdfast::dwarf {
namespace {

constexpr uint64_t kSearchPiece = 1 << 20;
constexpr size_t kSearchEntry = 64 << 10;  // bytes read ahead, so that entries are rarely split
constexpr size_t kMaxSearchEntry = 64 << 20;
constexpr size_t kMaxSearchDepth = 4096;

class EnclosingSearch {
 public:
  EnclosingSearch(Unit* unit, std::span<const uint64_t> entries)
      : unit_(*unit), entries_(entries), found_(entries.size()) {}

  std::vector<std::vector<uint64_t>> Run(const Deadline& deadline) {
    const uint64_t end = unit_.header().end;
    size_t want = kSearchEntry;
    for (uint64_t at = unit_.header().first_entry; at < end && !done_ && !deadline.Passed();) {
      const std::string_view window =
          unit_.file()->info.Window(at, want, std::min(kSearchPiece, end - at)).substr(0, end - at);
      const uint64_t next = Pass(window, at, at + window.size() == end);
      if (next == at && (window.size() < want || want >= kMaxSearchEntry)) break;
      want = next == at ? want * 8 : kSearchEntry;
      at = next;
    }
    return std::move(found_);
  }

 private:
  // Skips whole entries of the window, which begins at `at`. Returns where to continue.
  uint64_t Pass(std::string_view window, uint64_t at, bool is_last) {
    Cursor cursor(window);
    while (!cursor.AtEnd()) {
      const uint64_t entry = at + cursor.offset();
      if (!is_last && entry != at && cursor.left() < kSearchEntry) return entry;
      Take(entry);
      if (done_) return entry;
      const uint64_t code = cursor.Uleb();
      if (code == 0) {
        if (!around_.empty()) around_.pop_back();
        done_ = around_.empty();
        continue;
      }
      const Abbrev* abbrev = unit_.abbrevs().Find(code);
      if (abbrev == nullptr || around_.size() >= kMaxSearchDepth) {
        done_ = true;
        return entry;
      }
      const uint64_t attributes = cursor.offset();
      unit_.abbrevs().SkipEntry(&cursor, *abbrev);
      if (!cursor.ok()) {  // split by the window's end, or damaged
        done_ = is_last;
        return entry;
      }
      if (!abbrev->children) continue;
      const uint64_t sibling = SiblingOf(*abbrev, window, attributes);
      if (sibling <= at + cursor.offset() || sibling >= unit_.header().end || entries_[next_] < sibling) {
        around_.push_back(entry);
      } else if (sibling - at > window.size()) {
        return sibling;
      } else {
        cursor = Cursor(window, sibling - at);
      }
    }
    return at + cursor.offset();
  }

  void Take(uint64_t entry) {
    while (next_ < entries_.size() && entries_[next_] <= entry) {
      if (entries_[next_] == entry && !around_.empty()) found_[next_].assign(around_.begin() + 1, around_.end());
      ++next_;
    }
    done_ = done_ || next_ == entries_.size();
  }

  // Returns the start of the entry after the children; 0 if the entry does not say.
  uint64_t SiblingOf(const Abbrev& abbrev, std::string_view window, uint64_t attributes) const {
    if (abbrev.sibling_at < 0) return 0;
    Cursor cursor(window, attributes + static_cast<uint64_t>(abbrev.sibling_at));
    const uint64_t sibling = unit_.header().offset + cursor.U32();
    return cursor.ok() ? sibling : 0;
  }

  Unit& unit_;
  const std::span<const uint64_t> entries_;
  std::vector<std::vector<uint64_t>> found_;
  std::vector<uint64_t> around_;  // beginning with the unit's own entry
  size_t next_ = 0;               // index into entries_
  bool done_ = false;
};

}  // namespace

std::vector<std::vector<uint64_t>> FindEnclosing(Unit* unit, std::span<const uint64_t> entries,
                                                 const Deadline& deadline) {
  return EnclosingSearch(unit, entries).Run(deadline);
}

}  // namespace holdfast::dwarf
