// Finds the functions that contain an address: the function compiled there, and those inlined into it.
//
// One walk over a unit serves all requested addresses. It passes every entry, reads those of functions and inlined
// calls, and keeps the ones that contain an address. It also keeps their call sites if the call (or the jump of a tail
// call) ends just before an address.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_SCOPES_H_
#define HOLDFAST_REPORT_NAMES_DWARF_SCOPES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "report/base/time_budget.h"
#include "report/names/dwarf/unit.h"

namespace holdfast::dwarf {

struct Scopes {
  static constexpr uint32_t kNone = 0xffffffff;

  struct Scope {
    uint64_t entry = 0;       // offset in .debug_info
    uint32_t parent = kNone;  // the scope into which this one was inlined; kNone: not inlined
  };
  struct CallSite {
    uint32_t address = 0;  // index into the addresses
    Value origin;          // the called function
  };
  std::vector<Scope> scopes;
  std::vector<CallSite> call_sites;  // calls and tail calls with a known target, by address
  std::vector<uint32_t> innermost;   // for each address; kNone: in no function
};

// `addresses` must be sorted. If two scopes contain an address, the later one in the unit is the inner one. A range is
// ignored if `is_code` rejects its start: the linker discarded that code. Returns nothing if the deadline passed.
std::optional<Scopes> FindScopes(Unit* unit, std::span<const uint64_t> addresses,
                                 const std::function<bool(uint64_t)>& is_code, const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_SCOPES_H_
