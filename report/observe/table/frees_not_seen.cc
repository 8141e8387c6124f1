#include "report/observe/table/frees_not_seen.h"

#include <algorithm>
#include <vector>

#include "report/base/libc_names.h"

namespace holdfast {
namespace {

const ModuleInfo* ModuleOfFrame(const TableSnapshot& snapshot, TaggedPc frame) {
  // A return address may be the first byte after a function or module.
  const uint64_t pc = (frame & ((TaggedPc{1} << kPcTagShift) - 1)) - 1;
  for (const ModuleInfo& module : snapshot.modules) {
    if (module.tag == frame >> kPcTagShift && pc >= module.start && pc < module.end) return &module;
  }
  return nullptr;
}

bool IsLibc(const ModuleInfo& module) { return IsFileOfGlibc(module.path) || IsFileOfMusl(module.path); }

// Returns the module that allocated, directly or through libc; null: unknown.
const ModuleInfo* AllocatorOf(const TableSnapshot& snapshot, const StackInfo& stack) {
  for (const TaggedPc frame : stack.frames) {
    const ModuleInfo* module = ModuleOfFrame(snapshot, frame);
    if (module == nullptr || !IsLibc(*module)) return module;
  }
  return nullptr;
}

}  // namespace

bool IsFreedUnseen(const TableSnapshot& snapshot, uint32_t stack) {
  const ModuleInfo* module = AllocatorOf(snapshot, snapshot.stacks[stack]);
  return module != nullptr && module->frees_elsewhere;
}

void CountFreesNotSeen(TableSnapshot* snapshot) {
  if (std::none_of(snapshot->modules.begin(), snapshot->modules.end(),
                   [](const ModuleInfo& module) { return module.frees_elsewhere; })) {
    return;
  }
  std::vector<const ModuleInfo*> of_stack(snapshot->stacks.size());
  for (size_t i = 0; i < of_stack.size(); ++i) {
    const ModuleInfo* module = AllocatorOf(*snapshot, snapshot->stacks[i]);
    if (module != nullptr && module->frees_elsewhere) of_stack[i] = module;
  }
  for (RowInfo& row : snapshot->rows) {
    if (row.profile != ProfileKind::kHeap || of_stack[row.stack] == nullptr) continue;
    TableSnapshot::FreesNotSeen& sum = snapshot->frees_not_seen[of_stack[row.stack]->path];
    sum.objects += std::max(0.0, row.sums[kAllocObjects] - row.sums[kFreeObjects]);
    sum.bytes += std::max(0.0, row.sums[kAllocSpace] - row.sums[kFreeSpace]);
    row.sums[kFreeObjects] = row.sums[kAllocObjects];
    row.sums[kFreeSpace] = row.sums[kAllocSpace];
    row.sums[kFreeObjectsVariance] = row.sums[kAllocObjectsVariance];
    row.sums[kFreeSpaceVariance] = row.sums[kAllocSpaceVariance];
  }
  std::erase_if(snapshot->alive, [&](const AliveInfo& info) { return of_stack[info.stack] != nullptr; });
}

}  // namespace holdfast
