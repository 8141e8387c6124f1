// The debug information of one file: source lines and inlined functions for addresses.
//
//     Load({0x1234, …})   finds the units that hold them (all units are looked at once, their first entries only), and
//                         walks each of those once for all of its addresses
//     FramesAt(0x1234)    {push_back, vector.h:1287}, {Parse, parse.cc:40}, {main, main.cc:7}: innermost first
//
// A function without a linkage name (inlined everywhere, local, in an anonymous namespace) is named by the entries around it:
//     app::(anonymous namespace)::Load        Load()::{lambda load.cc:7}::operator()        a lambda by its file and line
//
// Memory: the ranges of all units (32 bytes each), the frames that were found, and 2 MB of windows; not the file.
// Reads what it is given as hostile: damage costs what lies behind it, and entries that refer to each other in a circle
// are left after a few steps. One thread at a time.
#ifndef HOLDFAST_REPORT_DWARF_INFO_H_
#define HOLDFAST_REPORT_DWARF_INFO_H_

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
#include "report/dwarf/lines.h"
#include "report/dwarf/scopes.h"
#include "report/dwarf/unit.h"
#include "report/dwarf/units.h"

namespace holdfast::dwarf {

struct Frame {
  StringId function = 0;  // as linked (mangled) where it says so, else the qualified name; "" unknown
  StringId file = 0;      // "" unknown
  uint32_t line = 0;      // of the call, in all frames but the innermost; 0 unknown
  uint32_t start_line = 0;
};

class DebugInfo {
 public:
  // The file with the split unit `dwo_name` (of a unit compiled in `comp_dir`): a .dwo or a package.
  using OpenSplit = std::function<absl::StatusOr<std::shared_ptr<Sections>>(const std::string& comp_dir,
                                                                            const std::string& dwo_name)>;

  // `is_code`: whether code of the program can begin at an address. Where not, the linker threw something away. `demangle`: for
  // functions that qualify a name; returns "" for what is no mangled name.
  using Demangler = std::function<std::string(std::string_view)>;
  DebugInfo(std::shared_ptr<Sections> main, OpenSplit open_split, std::function<bool(uint64_t)> is_code,
            Demangler demangle = nullptr);

  // Makes FramesAt know `addresses` (sorted). False when the deadline came first; another call goes on from there. A
  // unit that was too large for the time of one call is only tried again without a deadline.
  bool Load(std::span<const uint64_t> addresses, const Deadline& deadline);

  // Empty where nothing is known, also before Load.
  std::span<const Frame> FramesAt(uint64_t address) const;
  // As linked, the function that the call or tail call which ends behind `address` goes to, "" where the debug
  // information does not say; after Load.
  StringId CalledAt(uint64_t address) const {
    const auto found = called_.find(address);
    return found == called_.end() ? 0 : found->second;
  }
  std::string_view Text(StringId id) const { return strings_[id]; }

  // What could not be had: `foo.dwo: No such file or directory`.
  const std::set<std::string>& problems() const { return problems_; }
  size_t memory_bytes() const;

 private:
  struct Entry;  // what an entry says of a function or an inlined call
  struct Function {
    StringId name = 0;
    uint32_t start_line = 0;
    uint64_t unqualified = 0;      // the entry that has the name, where that is not what it is linked as
    UnitSet* elsewhere = nullptr;  // the units of the file in which that entry is (LTO, dwz); null: the unit at work
  };
  struct Call {  // what a scope says: of which function, and from where it was called if it was inlined
    Function function;
    StringId file = 0;
    uint32_t line = 0;
    bool read = false;
  };
  struct Range {
    uint64_t low, high;
    uint64_t highest;  // of all ranges up to this one
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
  // `at`: where the entry is, 0: it only refers to another one.
  Function FunctionOf(Unit* unit, const Entry& entry, uint64_t at = 0);
  using Names = absl::flat_hash_map<uint64_t, StringId>;  // by entry
  // False: out of time, and no name has changed.
  bool Qualify(Unit* unit, const LineTable* lines, bool is_c, const Deadline& deadline, std::vector<Call>* calls);
  // Of entries that are all of one unit: replaces their plain names.
  bool QualifyIn(Unit* unit, const LineTable* lines, const Deadline& deadline, Names* names);
  bool QualifyElsewhere(UnitSet* units, const Names& names, const Deadline& deadline);
  // By entry: the entries around it.
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
  absl::flat_hash_map<uint64_t, Function> functions_;  // of the unit at work, by the entry that calls refer to
  absl::flat_hash_map<uint64_t, StringId> files_;      // of the unit at work, by number
  absl::flat_hash_map<UnitSet*, Names> qualified_;     // of all units that others refer to
  std::set<uint32_t> too_large_;                       // units
  std::set<std::string> problems_;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_INFO_H_
