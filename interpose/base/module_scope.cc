#include "interpose/base/module_scope.h"

#include <string.h>

#include "sampler/capture/lasting_modules.h"
#include "sampler/capture/module_reading.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/contract/loaded_objects.h"

extern "C" HOLDFAST_HIDDEN const char __ehdr_start[];

namespace holdfast {
namespace {

// Objects of one scope that are searched: 1 KiB of stack. Larger scopes exist, but a C++ runtime is among the first
// few.
constexpr int kMaxInScope = 128;
// Ends a list that runs in circles because its memory was freed meanwhile.
constexpr int kMaxObjects = 65536;

// The list of loaded objects, which another thread may be changing: each object is probed before it is read.
class LoadedObjects {
 public:
  const link_map* Next() {
    if (count_++ == kMaxObjects) return nullptr;
    const link_map* next = at_ != nullptr ? at_->l_next : FirstObject();
    at_ = next;
    if (next != nullptr && !IsLasting(next) && !(MayRead(next) && MayRead(next->l_name))) at_ = nullptr;
    return at_;
  }

 private:
  // True unless the kernel denies it. The public fields are together.
  bool MayRead(const void* memory) {
    const uintptr_t page = PageOf(reinterpret_cast<uintptr_t>(memory));
    if (page == asked_) return true;
    if (page == 0 || page >= kUserEnd || PageForbidden(page)) return false;
    asked_ = page;
    return true;
  }

  const link_map* at_ = nullptr;
  uintptr_t asked_ = 0;
  int count_ = 0;
};

// Whether it is completely loaded, and not being unloaded.
bool IsThere(const link_map* object) { return ObjectOf(object->l_ld) == object; }

const char* NameIn(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

const char* SonameOf(const link_map* object) {
  const char* names = SymbolsAt(object->l_ld, object->l_addr).names;
  for (const Elf64_Dyn* entry = object->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SONAME && names != nullptr) return names + entry->d_un.d_val;
  }
  return "";
}

// Returns the object loaded for a name that another one needs: by its file name, else by its own name.
const link_map* LoadedAs(const char* needed, bool may_read) {
  const char* name = NameIn(needed);
  LoadedObjects by_file;
  while (const link_map* object = by_file.Next()) {
    if (strcmp(NameIn(object->l_name), name) == 0 && IsThere(object)) return object;
  }
  LoadedObjects by_soname;
  while (const link_map* object = may_read ? by_soname.Next() : nullptr) {
    if (object->l_ld != nullptr && IsThere(object) && strcmp(SonameOf(object), name) == 0) return object;
  }
  return nullptr;
}

struct Wanted {
  const SymbolName* names;
  int count;
  void** found;
  int left;

  // True: all names are found.
  bool TakeFrom(const link_map* object) {
    const DynamicSymbols symbols = SymbolsAt(object->l_ld, object->l_addr);
    for (int i = 0; i < count; ++i) {
      if (found[i] != nullptr) continue;
      const Elf64_Sym* symbol = FindSymbol(symbols, names[i], IsDefinition);
      if (symbol == nullptr) continue;
      found[i] = AddressOf(symbols, *symbol);
      --left;
    }
    return left == 0;
  }
};

bool IsLibrary(const link_map* object) { return object->l_addr == reinterpret_cast<uintptr_t>(__ehdr_start); }

bool TakeFromScope(const link_map* module, bool may_read, Wanted* wanted) {
  const link_map* scope[kMaxInScope] = {module};
  int count = 1;
  for (int i = 0; i < count; ++i) {
    if (!IsLibrary(scope[i]) && wanted->TakeFrom(scope[i])) return true;
    const char* names = SymbolsAt(scope[i]->l_ld, scope[i]->l_addr).names;
    for (const Elf64_Dyn* entry = scope[i]->l_ld; names != nullptr && entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag != DT_NEEDED || count == kMaxInScope) continue;
      const link_map* object = LoadedAs(names + entry->d_un.d_val, may_read);
      bool known = object == nullptr;
      for (int j = 0; j < count && !known; ++j) known = scope[j] == object;
      if (!known) scope[count++] = object;
    }
  }
  return false;
}

}  // namespace

bool FindInScope(const link_map* module, const SymbolName* names, int count, void** found) {
  memset(found, 0, static_cast<size_t>(count) * sizeof *found);
  Wanted wanted = {names, count, found, count};
  // During a dlclose, which may itself wait for the lock, only what the module needs is certain to stay.
  ModuleReading reading;
  const bool may_read = reading.Begin();
  if (module != nullptr && TakeFromScope(module, may_read, &wanted)) return true;
  // One definition in the module's own scope is enough: nobody calls forms that its runtime lacks.
  if (module != nullptr && found[0] != nullptr) return true;
  LoadedObjects all;
  while (const link_map* object = may_read ? all.Next() : nullptr) {
    if (object->l_ld != nullptr && !IsLibrary(object) && IsThere(object) && wanted.TakeFrom(object)) break;
  }
  return false;
}

bool VisitAfterLibrary(bool is_alone, bool (*visit)(const link_map* object, void* given), void* given) {
  ModuleReading reading;
  if (!reading.Begin() && !is_alone) return false;
  LoadedObjects all;
  bool is_after = false;
  while (const link_map* object = all.Next()) {
    if (is_after && object->l_ld != nullptr && IsThere(object) && visit(object, given)) break;
    is_after = is_after || IsLibrary(object);
  }
  return true;
}

void FindAfterLibrary(const SymbolName* names, int count, void** found) {
  memset(found, 0, static_cast<size_t>(count) * sizeof *found);
  Wanted wanted = {names, count, found, count};
  const link_map* object = FirstObject();
  while (object != nullptr && !IsLibrary(object)) object = NextInSearch(object);
  for (object = object != nullptr ? NextInSearch(object) : nullptr; object != nullptr; object = NextInSearch(object)) {
    if (object->l_ld != nullptr && wanted.TakeFrom(object)) return;
  }
}

}  // namespace holdfast
