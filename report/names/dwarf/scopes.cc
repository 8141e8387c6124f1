#include "report/names/dwarf/scopes.h"

#include <algorithm>

#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/cursor.h"

namespace holdfast::dwarf {
namespace {

// The part of .debug_info in memory: all of a typical unit, because its names are read next.
constexpr uint64_t kWindowBytes = 16 << 20;
constexpr size_t kLargeEntry = 64 << 10;         // bytes read ahead, so that entries are rarely split
constexpr size_t kLargestScopeEntry = 64 << 20;  // an entry larger than this ends the walk
// Types are walked like other entries, although DW_AT_sibling could skip their members: GCC puts the code of lambdas
// there.
constexpr size_t kDeepestNesting = 4096;

class Walk {
 public:
  Walk(Unit* unit, std::span<const uint64_t> addresses, const std::function<bool(uint64_t)>& is_code)
      : unit_(*unit), addresses_(addresses), is_code_(is_code) {
    result_.innermost.assign(addresses.size(), Scopes::kNone);
  }

  std::optional<Scopes> Run(const Deadline& deadline) {
    const uint64_t end = unit_.header().end;
    size_t want = kLargeEntry;
    for (uint64_t at = unit_.header().first_entry; at < end;) {
      const std::string_view window =
          unit_.file()->info.Window(at, want, std::min(kWindowBytes, end - at)).substr(0, end - at);
      const bool last = at + window.size() == end;
      const uint64_t passed = Pass(window, at, last);
      if (done_ || last || window.size() < want) break;
      if (deadline.Passed()) return std::nullopt;
      want = passed == 0 ? want * 8 : kLargeEntry;
      if (want > kLargestScopeEntry) break;
      at += passed;
    }
    return std::move(result_);
  }

 private:
  struct Level {  // an enclosing entry with children
    uint64_t entry = 0;
    bool is_function = false, is_inlined = false;
    bool holds = true;               // whether the enclosing function may contain a requested address
    uint32_t scope = Scopes::kNone;  // set once the scope is kept
  };

  struct CallSite {
    Value end, begin, origin;
    void Take(uint16_t attribute, const Value& value) {
      if (attribute == DW_AT_call_return_pc || attribute == DW_AT_low_pc) end = value;
      if (attribute == DW_AT_call_pc) begin = value;
      if (attribute == DW_AT_call_origin || attribute == DW_AT_abstract_origin) origin = value;
    }
  };

  // A requested address is the last byte of a call or jump. For a tail call some compilers give only the start.
  void KeepCallSite(const CallSite& site) {
    if (site.origin.kind == Value::kNone) return;
    const std::optional<uint64_t> end = unit_.AddressOf(site.end), begin = unit_.AddressOf(site.begin);
    if (!end.has_value() && !begin.has_value()) return;
    const uint64_t first = end.has_value() ? *end - 1 : *begin, last = end.has_value() ? *end - 1 : *begin + 7;
    const auto address = std::lower_bound(addresses_.begin(), addresses_.end(), first);
    if (address == addresses_.end() || *address > last) return;
    result_.call_sites.push_back({static_cast<uint32_t>(address - addresses_.begin()), site.origin});
  }

  // Processes whole entries, up to a possibly incomplete one. Returns the number of bytes processed.
  uint64_t Pass(std::string_view window, uint64_t at, bool last) {
    Cursor cursor(window);
    while (!cursor.AtEnd()) {
      const uint64_t begin = cursor.offset();
      if (!last && begin != 0 && cursor.left() < kLargeEntry) return begin;
      const uint64_t code = cursor.Uleb();
      if (code == 0) {
        if (!levels_.empty()) levels_.pop_back();
        done_ = levels_.empty();
        if (done_) return cursor.offset();
        continue;
      }
      const Abbrev* abbrev = unit_.abbrevs().Find(code);
      const uint64_t entry = cursor.offset();  // the start of the attributes
      if (abbrev == nullptr || levels_.size() >= kDeepestNesting) {
        done_ = true;
        return begin;
      }
      // Inlined calls are inside their function's code. If that contains no requested address, their attributes need
      // not be read.
      const bool inlined = abbrev->tag == DW_TAG_inlined_subroutine;
      const bool out_of_reach = inlined && !levels_.empty() && !levels_.back().holds;
      Unit::Code range;
      if (out_of_reach) {
        if (const uint64_t next = SiblingOf(*abbrev, window, cursor.offset(), at); next != 0) {
          if (next > window.size()) return next;
          cursor = Cursor(window, next);
          continue;
        }
        unit_.abbrevs().SkipEntry(&cursor, *abbrev);
      } else if (abbrev->is_scope) {
        unit_.abbrevs().WalkEntry(&cursor, *abbrev,
                                  [&](uint16_t attribute, const Value& value) { range.Take(attribute, value); });
      } else if (abbrev->is_call_site && !levels_.empty() && levels_.back().holds) {
        CallSite site;
        unit_.abbrevs().WalkEntry(&cursor, *abbrev,
                                  [&](uint16_t attribute, const Value& value) { site.Take(attribute, value); });
        if (cursor.ok()) KeepCallSite(site);
      } else {  // most entries
        unit_.abbrevs().SkipEntry(&cursor, *abbrev);
      }
      if (!cursor.ok()) {  // split by the window's end, or damaged
        done_ = last;
        return begin;
      }
      if (abbrev->is_scope || abbrev->children) {
        Level level{at + begin, abbrev->tag == DW_TAG_subprogram, inlined, levels_.empty() || levels_.back().holds};
        if (abbrev->is_scope && !out_of_reach) {
          Hold(range, &level);
          level.holds = level.scope != Scopes::kNone;
        }
        const uint64_t next = level.holds || !abbrev->is_instance ? 0 : SiblingOf(*abbrev, window, entry, at);
        if (next > window.size()) return next;
        if (next != 0) {
          cursor = Cursor(window, next);
        } else if (abbrev->children) {
          levels_.push_back(level);
        }
      }
      if (levels_.empty()) done_ = true;  // a unit without children
      if (done_) break;
    }
    return cursor.offset();
  }

  // Returns the start of the entry after this entry's children, as an offset in the window (possibly past its end).
  // Returns 0 if there are no children, no DW_AT_sibling, or one that leads backwards. `attributes`: where the
  // attributes begin.
  uint64_t SiblingOf(const Abbrev& abbrev, std::string_view window, uint64_t attributes, uint64_t at) const {
    if (!abbrev.children || abbrev.sibling_at < 0) return 0;
    Cursor cursor(window, attributes + static_cast<uint64_t>(abbrev.sibling_at));
    const uint64_t next = unit_.header().offset + cursor.U32();
    if (!cursor.ok() || next >= unit_.header().end || next < at + cursor.offset()) return 0;
    return next - at;
  }

  void Hold(const Unit::Code& code, Level* level) {
    unit_.EachRange(code, [&](uint64_t low, uint64_t high) {
      if (low >= high) return;
      auto address = std::lower_bound(addresses_.begin(), addresses_.end(), low);
      if (address == addresses_.end() || *address >= high || !is_code_(low)) return;
      if (level->scope == Scopes::kNone) level->scope = Keep(*level, levels_.size());
      for (; address != addresses_.end() && *address < high; ++address) {
        result_.innermost[static_cast<size_t>(address - addresses_.begin())] = level->scope;
      }
    });
  }

  // Keeps a scope, and its enclosing scopes up to the function.
  uint32_t Keep(const Level& level, size_t depth) {
    uint32_t parent = Scopes::kNone;
    for (size_t i = depth; level.is_inlined && i > 0; --i) {
      Level& outer = levels_[i - 1];
      if (!outer.is_function && !outer.is_inlined) continue;
      if (outer.scope == Scopes::kNone) outer.scope = Keep(outer, i - 1);
      parent = outer.scope;
      break;
    }
    result_.scopes.push_back({level.entry, parent});
    return static_cast<uint32_t>(result_.scopes.size() - 1);
  }

  Unit& unit_;
  std::span<const uint64_t> addresses_;
  const std::function<bool(uint64_t)>& is_code_;
  std::vector<Level> levels_;
  bool done_ = false;
  Scopes result_;
};

}  // namespace

std::optional<Scopes> FindScopes(Unit* unit, std::span<const uint64_t> addresses,
                                 const std::function<bool(uint64_t)>& is_code, const Deadline& deadline) {
  return Walk(unit, addresses, is_code).Run(deadline);
}

}  // namespace holdfast::dwarf
