#include "interpose/base/defined_names.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>

#include "sampler/capture/find_object.h"

namespace holdfast {
namespace {

DynamicSymbols SymbolsOf(const link_map* object) { return SymbolsAt(object->l_ld, object->l_addr); }

bool Defines(const link_map* object, const SymbolName& name) {
  return FindSymbol(SymbolsOf(object), name, IsDefinition) != nullptr;
}

}  // namespace

const link_map* ObjectOf(const void* address) {
  dl_find_object found;
  return address != nullptr && FindObject(address, &found) ? found.dlfo_link_map : nullptr;
}

AddressRange RangeOf(const void* address) {
  dl_find_object found;
  if (address == nullptr || !FindObject(address, &found)) return {};
  return {reinterpret_cast<uintptr_t>(found.dlfo_map_start), reinterpret_cast<uintptr_t>(found.dlfo_map_end)};
}

const link_map* FirstThatDefines(const SymbolName& name, const link_map* object) {
  while (object != nullptr && !Defines(object, name)) object = NextInSearch(object);
  return object;
}

bool IsAnyDefinedAnywhere(const SymbolName* names, int count) {
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    const DynamicSymbols symbols = SymbolsOf(object);
    for (int i = 0; i < count; ++i) {
      if (FindSymbol(symbols, names[i], IsDefinition) != nullptr) return true;
    }
  }
  return false;
}

bool IsDefinedAfter(const SymbolName& name, const void* base) {
  const link_map* object = FirstObject();
  while (object != nullptr && object->l_addr != reinterpret_cast<uintptr_t>(base)) object = NextInSearch(object);
  return object != nullptr && FirstThatDefines(name, NextInSearch(object)) != nullptr;
}

bool IsDefinedFirstAt(const SymbolName& name, const void* base) {
  const link_map* object = FirstThatDefines(name);
  return object != nullptr && object->l_addr == reinterpret_cast<uintptr_t>(base);
}

}  // namespace holdfast
