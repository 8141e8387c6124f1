#include "interpose/heap/own_names.h"

#include <link.h>
#include <string.h>

#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/import_entries.h"
#include "interpose/heap/wrappers.h"
#include "sampler/contract/dynamic_symbols.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/process/process.h"

namespace holdfast {
namespace {

// −1: none of ours. Objects have thousands of symbols; most fail the first comparison.
int NumberOf(const char* name) {
  if (strncmp(name, "mi_", 3) != 0 && strncmp(name, "tc_", 3) != 0 && strncmp(name, "je_", 3) != 0 &&
      strncmp(name, "_rjem_", 6) != 0 && strstr(name, "allocx") == nullptr)
    return -1;
  for (int i = 0; i < kOwnNameCount; ++i) {
    if (strcmp(name, kOwnNameTexts[i]) == 0) return i;
  }
  return -1;
}

constexpr struct {
  OwnName sized, unsized;
} kUnsized[] = {
    {kOwn_sdallocx, kOwn_dallocx},
    {kOwn_je_sdallocx, kOwn_je_dallocx},
    {kOwn__rjem_sdallocx, kOwn__rjem_dallocx},
    {kOwn_mi_free_size, kOwn_mi_free},
    {kOwn_mi_free_size_aligned, kOwn_mi_free_aligned},
    {kOwn_tc_free_sized, kOwn_tc_free},
    {kOwn_tc_delete_sized, kOwn_tc_delete},
    {kOwn_tc_deletearray_sized, kOwn_tc_deletearray},
    {kOwn_tc_delete_sized_aligned, kOwn_tc_delete_aligned},
    {kOwn_tc_deletearray_sized_aligned, kOwn_tc_deletearray_aligned},
};

bool AnyIsDefined() {
  static constexpr SymbolName kNames[] = {"mallocx", "je_mallocx", "_rjem_mallocx", "mi_malloc", "tc_malloc"};
  return IsAnyDefinedAnywhere(kNames, static_cast<int>(sizeof kNames / sizeof *kNames));
}

}  // namespace

void BindOwnNames() {
  if (!process.recording.load(std::memory_order_relaxed) || !AnyIsDefined()) return;
  for (int i = 0; i < kOwnNameCount; ++i) {
    void* found = FindFunction(kOwnNameTexts[i]);
    if (found != nullptr && ObjectOf(found) != nullptr && ObjectOf(found) != FirstObject()) own_reals[i] = found;
  }
  for (const auto& [sized, unsized] : kUnsized) own_unsized[sized] = own_reals[unsized];
  bool any = false;
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next) {
    ImportingObject object;
    if (!DescribeImports(map, &object) || IsOwnLibrary(object)) continue;
    // An allocator's own calls are part of one that is already counted.
    bool is_allocator = false;
    for (const void* of : own_reals) {
      const auto address = reinterpret_cast<uintptr_t>(of);
      is_allocator |= address >= object.start && address < object.end;
    }
    if (is_allocator) continue;
    any |= ReplaceImports(object, {NumberOf, own_reals, own_wrappers});
  }
  if (any) GiveUpTag();
}

}  // namespace holdfast
