// Which functions hold an address: the function that was compiled there and those that were inlined into it.
//
// A unit is walked once, for all addresses that are asked for: every entry is passed, those of functions and inlined
// calls are read, and of these only the ones that hold an address are kept. Of the call sites in them those are kept whose
// call (or jump, where it is a tail call) ends behind an address.
#ifndef HOLDFAST_REPORT_DWARF_SCOPES_H_
#define HOLDFAST_REPORT_DWARF_SCOPES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "report/base/time_budget.h"
#include "report/dwarf/unit.h"

namespace holdfast::dwarf {

struct Scopes {
  static constexpr uint32_t kNone = 0xffffffff;

  struct Scope {
    uint64_t entry = 0;       // offset in .debug_info
    uint32_t parent = kNone;  // the scope that it was inlined into; kNone for a function of its own
  };
  struct CallSite {
    uint32_t address = 0;  // its number
    Value origin;          // the function that is called
  };
  std::vector<Scope> scopes;
  std::vector<CallSite> call_sites;  // of the calls and tail calls at those addresses whose function is known
  std::vector<uint32_t> innermost;   // of each address, kNone where no function holds it
};

// `addresses` are sorted. Of two scopes that hold an address the one that comes later in the unit is the inner one.
// Ranges whose start `is_code` refuses were thrown away by the linker.
// Nothing when the deadline came first.
std::optional<Scopes> FindScopes(Unit* unit, std::span<const uint64_t> addresses,
                                 const std::function<bool(uint64_t)>& is_code, const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_SCOPES_H_
