#include "interpose/base/late_search.h"

#include "interpose/base/defined_functions.h"
#include "interpose/base/module_scope.h"

namespace holdfast {

bool FindLateFunction(bool is_alone, const SymbolName& name, const char* version, void** found) {
  struct Wanted {
    const SymbolName& name;
    const char* version;
    void* found;
  } wanted = {name, version, nullptr};
  const auto visit = [](const link_map* object, void* given) {
    auto* one = static_cast<Wanted*>(given);
    one->found = DefinedFunctions(object).Find(one->name, one->version);
    return one->found != nullptr;
  };
  const bool searched = VisitAfterLibrary(is_alone, visit, &wanted);
  *found = wanted.found;
  return searched;
}

}  // namespace holdfast
