// The debug information of one file: source lines and inlined functions of addresses.
//
//     Load({0x1234, …})   finds the units with these addresses by the first entry of each unit, and walks each such unit
//                         once for all its addresses
//     FramesAt(0x1234)    {push_back, vector.h:1287}, {Parse, parse.cc:40}, {main, main.cc:7}: innermost first
//
// The enclosing entries give a name to a function without a linkage name (always inlined, local, or in an anonymous
// namespace):
//     app::(anonymous namespace)::Load        Load()::{lambda load.cc:7}::operator()        a lambda by its file and line
//
// Memory: the ranges of all units (32 bytes each), the found frames, and 2 MB of windows; not the file.
// The input is untrusted: after damage the rest of a unit is unknown, and cyclic references are abandoned after a few
// steps. One thread at a time.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_INFO_H_
#define HOLDFAST_REPORT_NAMES_DWARF_INFO_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/base/string_table.h"
#include "report/base/time_budget.h"
#include "report/names/dwarf/lines.h"
#include "report/names/dwarf/scopes.h"
#include "report/names/dwarf/unit.h"
#include "report/names/dwarf/units.h"

namespace holdfast::dwarf {

struct Frame {
  StringId function = 0;  // the linkage (mangled) name if the entry has one, otherwise the qualified name; "" = unknown
  StringId file = 0;      // "" = unknown
  uint32_t line = 0;      // the call's line in all frames except the innermost; 0 = unknown
  uint32_t start_line = 0;
};

class DebugInfo {
 public:
  // Opens the file, a .dwo or a package, that has the split unit `dwo_name` of a unit compiled in `comp_dir`.
  using OpenSplit = std::function<absl::StatusOr<std::shared_ptr<Sections>>(const std::string& comp_dir,
                                                                            const std::string& dwo_name)>;

  // `is_code`: whether the program can have code at an address. If not, the linker discarded the code. `demangle`: for
  // functions that qualify a name; returns "" if its argument is not a mangled name.
  using Demangler = std::function<std::string(std::string_view)>;
  DebugInfo(std::shared_ptr<Sections> main, OpenSplit open_split, std::function<bool(uint64_t)> is_code,
            Demangler demangle = nullptr);

  // Looks up `addresses` (sorted) for FramesAt. Returns false if the deadline passed first; another call continues. A
  // unit that took longer than one call's time is retried only without a deadline.
  bool Load(std::span<const uint64_t> addresses, const Deadline& deadline);

  // Empty if nothing is known, and before Load.
  std::span<const Frame> FramesAt(uint64_t address) const;
  // Returns the linkage name of the function that is called by the call or tail call ending just before `address`; ""
  // if the debug information does not say. Call after Load.
  StringId CalledAt(uint64_t address) const {
    const auto found = called_.find(address);
    return found == called_.end() ? 0 : found->second;
  }
  std::string_view Text(StringId id) const { return strings_[id]; }

  // The part that could not be read: `foo.dwo: No such file or directory`.
  const std::set<std::string>& problems() const { return problems_; }
  size_t memory_bytes() const;

 private:
  struct Entry;  // an entry's attributes about a function or an inlined call
  struct Function {
    StringId name = 0;
    uint32_t start_line = 0;
    uint64_t unqualified = 0;      // the entry with the plain name, if there is no linkage name
    UnitSet* elsewhere = nullptr;  // the units of the file with that entry (LTO, dwz); null: the current unit
  };
  struct Call {  // a scope: its function, and the caller's line if it was inlined
    Function function;
    StringId file = 0;
    uint32_t line = 0;
    bool read = false;
  };
  struct Range {
    uint64_t low, high;
    uint64_t highest;  // maximum of `high` up to and including this range
    uint32_t unit;
  };
  struct Span {
    uint32_t first, count;
  };

  bool Scan(const Deadline& deadline);
  uint32_t UnitHolding(uint64_t address) const;
  bool LoadUnit(uint32_t unit, std::span<const uint64_t> addresses, const Deadline& deadline);
  std::unique_ptr<Unit> SplitUnitOf(const Unit& skeleton, std::shared_ptr<Sections>* file);
  Call ReadCall(Unit* unit, const LineTable* lines, uint64_t offset);
  bool ReadEntry(Unit* unit, uint64_t offset, Entry* entry);
  // `at`: the entry's offset; 0: the entry only refers to another one.
  Function FunctionOf(Unit* unit, const Entry& entry, uint64_t at = 0);
  using Names = absl::flat_hash_map<uint64_t, StringId>;  // by entry
  // Returns false, with all names unchanged, if the deadline passed.
  bool Qualify(Unit* unit, const LineTable* lines, bool is_c, const Deadline& deadline, std::vector<Call>* calls);
  // Replaces the plain names of entries, all in one unit.
  bool QualifyIn(Unit* unit, const LineTable* lines, const Deadline& deadline, Names* names);
  bool QualifyElsewhere(UnitSet* units, const Names& names, const Deadline& deadline);
  // The enclosing entries of each entry.
  using Enclosing = absl::flat_hash_map<uint64_t, std::vector<uint64_t>>;
  Enclosing EnclosingOf(Unit* unit, std::vector<uint64_t> entries, const Deadline& deadline);
  std::string QualifiedName(Unit* unit, const LineTable* lines, const Enclosing& enclosing, uint64_t entry,
                            std::string_view name, int depth);
  Function FunctionReferredTo(Unit* unit, const Entry& entry);
  std::string TextOf(Unit* unit, const Value& value);
  StringId FileOf(const LineTable* lines, uint64_t number);

  std::shared_ptr<Sections> main_;
  OpenSplit open_split_;
  std::function<bool(uint64_t)> is_code_;
  Demangler demangle_;

  bool scan_done_ = false;
  std::vector<Range> ranges_;
  UnitSet units_;
  std::unique_ptr<UnitSet> alt_units_;

  StringTable strings_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<uint64_t, Span> by_address_;
  absl::flat_hash_map<uint64_t, StringId> called_;
  absl::flat_hash_map<uint64_t, Function> functions_;  // of the current unit, by the entry that calls refer to
  absl::flat_hash_map<uint64_t, StringId> files_;      // of the current unit, by number
  absl::flat_hash_map<UnitSet*, Names> qualified_;     // for all units that others refer to
  std::set<uint32_t> too_large_;                       // unit indices
  std::set<std::string> problems_;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_INFO_H_
