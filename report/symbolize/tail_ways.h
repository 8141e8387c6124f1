// By which functions a call came to where it is now, when the function that was called is not the one that is found: it
// left by a tail call (`jmp` in place of `call` and `ret`), and has no frame any more.
//
//     on the stack       main ──call 0x1180──► ?          … malloc
//     the code           twice (0x1180) ends in `jmp store`, store in `jmp malloc`
//     the way            twice, store
//
// Only functions whose symbols are known are found, in files that are there. Of several ways (at most kMostWays are looked
// for, of kMostSteps functions at most) only their common beginning is known. What is found depends on the code of the
// files alone: the same in each snapshot.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_TAIL_WAYS_H_
#define HOLDFAST_REPORT_SYMBOLIZE_TAIL_WAYS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/symbolize/module_symbolizer.h"

namespace holdfast {

class TailWays {
 public:
  static constexpr size_t kMostSteps = 6, kMostWays = 16, kMostLooked = 64;
  static constexpr size_t kMostTargets = 256;    // of one function
  static constexpr size_t kMostWork = 10 << 20;  // jumps looked at, in all: damaged files could ask for any number
  static constexpr uint32_t kUnknown = 0;

  // The module of a number below `modules`, which is valid until the next call; null where its file is not there.
  using GetModule = std::function<ModuleSymbolizer::Module*(uint32_t module)>;
  // `by_dwarf`: debug information may be asked as well, for calls whose code says too little.
  TailWays(uint32_t modules, GetModule get, bool by_dwarf);

  // The number of the function at an address; kUnknown where no symbol holds it.
  uint32_t FunctionAt(uint32_t module, uint64_t address);
  // That of the one which the call goes to that ends behind `address`. What the loader bound is known by its name alone.
  uint32_t CalledAt(uint32_t module, uint64_t address);
  // As linked: what was called by name goes by that, whatever else the function is called in its own file.
  std::string_view NameOf(uint32_t function) const { return functions_[function].name; }

  struct Step {
    uint32_t module;
    uint64_t address;         // the last byte of the jump; the function's first where several jumps lead on
    bool by_pointer = false;  // it left by a pointer, and which function it led to is not known
  };
  // The functions from `called` on, the outermost first, up to those that jump to `found`. Empty when there is no way, or
  // they are the same: parts of one function (`f.cold`) are, and what another file defines under the same name may have
  // been bound in place of it.
  std::vector<Step> WayTo(uint32_t called, uint32_t found);
  // The same up to a jump to a function whose name `is_end` knows.
  using IsEnd = bool (*)(std::string_view name);
  std::vector<Step> WayTo(uint32_t called, IsEnd is_end);

 private:
  static constexpr uint32_t kAnywhere = 0xffffffff;

  struct Function {
    uint32_t module = 0;
    uint64_t start = 0, end = 0;  // 0, 0: what `module` calls by this name
    std::string name;
    bool is_bound_by_name() const { return end == 0; }
  };
  struct Jump {
    uint64_t address;  // its last byte; 0: there are several to there
    uint32_t to;       // kUnknown: nobody knows, see is_virtual
    bool is_virtual;   // by a pointer in memory, so to another function, but nobody knows which
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
    std::vector<std::vector<uint32_t>> by_pointer;  // up to functions that leave by a pointer
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
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> places_;  // of what is bound by name, for whom
  absl::flat_hash_map<uint32_t, std::unique_ptr<Jumps>> jumps_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_TAIL_WAYS_H_
