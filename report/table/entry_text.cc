#include "report/table/entry_text.h"

#include "fmt/format.h"
#include "sampler/contract/module_flags.h"
#include "sampler/entries/call_shape.h"

namespace holdfast {

EntryOutcome EntryOutcomeOf(const Snapshot& snapshot) {
  for (const ModuleInfo& module : snapshot.modules) {
    const EntryOutcome outcome = EntryOutcomeIn(module.flags);
    if (outcome.has_allocator()) return outcome;
  }
  return {};
}

bool FreesAreInlined(const Snapshot& snapshot) {
  for (const ModuleInfo& module : snapshot.modules) {
    if ((module.flags & kModuleFreesInlined) != 0) return true;
  }
  return false;
}

std::string EntryText(const EntryOutcome& outcome) {
  if (!outcome.has_allocator()) return "";
  if (outcome.is_redirected())
    return fmt::format("all {} functions of the executable's allocator are redirected at their entry", outcome.count);
  const char* reason = kEntryReasons[static_cast<int>(outcome.reason)];
  const bool is_named = outcome.name > 0 && outcome.name <= kAllocatorNames;
  return fmt::format("the executable's allocator is not seen: {}{}",
                     is_named ? fmt::format("{} ", kNamedCalls[outcome.name - 1].text) : "", reason);
}

}  // namespace holdfast
