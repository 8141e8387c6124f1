#include "report/observe/table/entry_text.h"

#include <algorithm>
#include <iterator>

#include "fmt/format.h"
#include "sampler/contract/module_flags.h"
#include "sampler/entries/call_shape.h"

namespace holdfast {
namespace {

constexpr char kCannotTell[] =
    "whether they pass their calls on to another malloc, which is seen, or have memory of their own, which is not, "
    "cannot be told";

}  // namespace

EntryOutcome EntryOutcomeOf(const TableSnapshot& snapshot) {
  for (const ModuleInfo& module : snapshot.modules) {
    const EntryOutcome outcome = EntryOutcomeIn(module.flags);
    if (outcome.has_allocator()) return outcome;
  }
  return {};
}

std::string WhyIncomplete(const EntryOutcome& outcome) {
  if (!outcome.lacks_names()) return "";
  return "the executable has no .symtab, or a very large one, so direct calls of the allocator's other functions "
         "(jemalloc's mallocx and sdallocx, mimalloc's heaps, operator new beside a static C++ library) are not seen, and "
         "blocks that they free would count as live: install its debug file";
}

std::string WhyIncomplete(const TableSnapshot& snapshot) {
  for (const ModuleInfo& module : snapshot.modules) {
    if ((module.flags & kModuleFreesInlined) != 0)
      return "the executable's allocator returned a block that still counted as in use: some of its functions are "
             "inlined (-flto), so allocations are undercounted, and freed blocks count as live";
    if ((module.flags & kModuleFreesMany) != 0)
      return "the program called a function that frees many blocks at once (mi_heap_destroy, jemalloc's arena.i.reset), "
             "and these blocks may still count as live";
  }
  return WhyIncomplete(EntryOutcomeOf(snapshot));
}

std::string EntryText(const EntryOutcome& outcome) {
  if (!outcome.has_allocator()) return "";
  if (outcome.is_redirected())
    return fmt::format("all {} {}functions of the executable's allocator are redirected at their entry", outcome.count,
                       outcome.lacks_names() ? "exported " : "");
  if (outcome.reason == EntryReason::kMayPassOn)
    return fmt::format("the executable defines malloc and free itself: {}; --entries yes tries to redirect them",
                       kCannotTell);
  if (MayPassOn(outcome) && outcome.name <= kAllocatorNames)
    return fmt::format(
        "the executable has functions named like an allocator's ({}), but none that is tested: what they take "
        "from malloc is seen, and memory of their own is not; --entries yes tries to redirect them",
        kNamedCalls[outcome.name - 1].text);
  const char* reason = kEntryReasons[static_cast<int>(outcome.reason)];
  const bool is_named = outcome.name > 0 && outcome.name <= kAllocatorNames;
  return fmt::format("the executable's allocator is not seen: {}{}",
                     is_named ? fmt::format("{} ", kNamedCalls[outcome.name - 1].text) : "", reason);
}

std::string NamedLikeAllocatorText(std::string_view function) {
  return fmt::format("the executable has functions named like an allocator's ({}): {}", function, kCannotTell);
}

bool WasSearched(const TableSnapshot& snapshot) {
  return std::any_of(snapshot.modules.begin(), snapshot.modules.end(),
                     [](const ModuleInfo& module) { return (module.flags & kModuleWasSearched) != 0; });
}

std::string UnseenAllocatorText(std::string_view function, bool searched) {
  const bool is_listed = std::any_of(std::begin(kNamedCalls), std::end(kNamedCalls),
                                     [function](const NamedCall& call) { return function == call.text; });
  return fmt::format("the executable has an allocator of its own ({}), which is not seen{}", function,
                     is_listed && !searched ? ". --entries yes tries to redirect it" : "");
}

std::string HiddenAllocatorText() { return EntryText({EntryReason::kHidden, kName_malloc + 1, 1}); }

}  // namespace holdfast
