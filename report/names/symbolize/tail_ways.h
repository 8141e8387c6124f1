// Finds the functions between a call's target and the function found on the stack. They left by a tail call (`jmp`
// instead of `call` and `ret`) and have no frame any more.
//
//     on the stack       main ──call 0x1180──► ?          … malloc
//     the code           twice (0x1180) ends with `jmp store`, store with `jmp malloc`
//     the path           twice, store
//
// Finds only functions with symbols, in files that exist. If there are several paths (the search stops at kMaxWays
// paths and kMaxSteps functions), only their common beginning is known. The result depends only on the code of the
// files, so it is the same in each snapshot.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_TAIL_WAYS_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_TAIL_WAYS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/names/symbolize/module_symbolizer.h"

namespace holdfast {

class TailWays {
 public:
  static constexpr size_t kMaxSteps = 6, kMaxWays = 16, kMaxVisits = 64;
  static constexpr size_t kMaxTargets = 256;  // for one function
  // Total number of jumps examined: damaged files could demand any number.
  static constexpr size_t kMaxWork = 10 << 20;
  static constexpr uint32_t kUnknown = 0;

  // Returns the module with a number below `modules`, valid until the next call; null if its file does not exist.
  using GetModule = std::function<ModuleSymbolizer::Module*(uint32_t module)>;
  // `by_dwarf`: also ask debug information about calls with targets that are not in the code.
  TailWays(uint32_t modules, GetModule get, bool by_dwarf);

  // Returns the number of the function at an address; kUnknown if no symbol contains it.
  uint32_t FunctionAt(uint32_t module, uint64_t address);
  // Returns the number of the function called by the call that ends at `address`. A target bound by the loader is known
  // by name only.
  uint32_t CalledAt(uint32_t module, uint64_t address);
  // Returns the linkage name. A function called by name keeps that name, even if its file names it differently.
  std::string_view NameOf(uint32_t function) const { return functions_[function].name; }

  struct Step {
    uint32_t module;
    uint64_t address;         // last byte of the jump, or the function's first byte if several jumps are possible
    bool by_pointer = false;  // the function left through a pointer, so the next function is unknown
  };
  // Returns the functions from `called` on, outermost first, up to those that jump to `found`. Empty if there is no
  // path or both are the same function. Parts of a function (`f.cold`) are the same function, and so is a function with
  // the same name in another file, to which the call may have been bound.
  std::vector<Step> WayTo(uint32_t called, uint32_t found);
  // The same, up to a jump to a function for which `is_end(name)` returns true.
  using IsEnd = bool (*)(std::string_view name);
  std::vector<Step> WayTo(uint32_t called, IsEnd is_end);

 private:
  static constexpr uint32_t kAnywhere = 0xffffffff;

  struct Function {
    uint32_t module = 0;
    uint64_t start = 0, end = 0;  // 0, 0: the function that `module` calls by this name
    std::string name;
    bool is_bound_by_name() const { return end == 0; }
  };
  struct Jump {
    uint64_t address;  // last byte of the jump; 0: several jumps lead there
    uint32_t to;       // kUnknown: see is_virtual
    bool is_virtual;   // through a pointer in memory, so to another, unknown function
  };
  struct Jumps {
    std::vector<Jump> jumps;  // one for each target
    bool too_many = false;
  };
  struct Search {
    uint32_t found = kUnknown;
    IsEnd is_end = nullptr;
    std::vector<uint32_t> path;
    size_t looked = 0;
    bool gave_up = false;
    std::vector<std::vector<uint32_t>> ways;
    std::vector<std::vector<uint32_t>> by_pointer;  // up to functions that leave through a pointer
  };

  uint32_t Number(uint32_t module, const ElfSymbols::Function& function);
  uint32_t NumberOfName(uint32_t module, std::string_view name);
  uint32_t NumberOf(uint32_t module, const ElfCalls::Target& target);
  uint32_t PlaceOf(uint32_t function, uint32_t near);
  uint32_t DefinitionIn(uint32_t module, const std::string& name);
  bool IsSame(uint32_t a, uint32_t b) const;
  bool Arrives(const Search& search, const Jump& jump);
  const Jumps& JumpsOf(uint32_t function);
  void TakeJumps(uint32_t function, uint32_t part, std::vector<uint32_t>* parts, Jumps* jumps);
  void Look(Search* search);
  std::vector<Step> StepsOf(const Search& search);
  std::vector<Step> Find(uint32_t called, uint32_t found, IsEnd is_end);

  const uint32_t modules_;
  const GetModule get_;
  const bool by_dwarf_;
  size_t work_ = 0;
  std::vector<Function> functions_;  // the first is kUnknown
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> numbers_;
  absl::flat_hash_map<std::pair<uint32_t, std::string>, uint32_t> names_;
  // The definition of a function that is bound by name, for each caller.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> places_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<Jumps>> jumps_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_TAIL_WAYS_H_
