#include "report/show/observed_process.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/base_name.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"
#include "report/names/elf/debug_file_finder.h"
#include "report/names/elf/demangle.h"
#include "report/observe/memory/own_ranges.h"
#include "report/observe/outside/modules_of_process.h"
#include "report/observe/table/memory_room.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "sampler/contract/deep_stacks.h"

namespace holdfast {
namespace {

constexpr size_t kShownCalls = 3;

// Opens the file of a module as the process sees it.
FileDescriptor OpenModuleOf(pid_t pid, const ModuleInfo& module) {
  if (!module.path.starts_with('/')) return {};
  const std::string path(WithoutDeletedMark(module.path));
  if (auto file = OpenRegular(fmt::format("/proc/{}/root{}", pid, path)); file.ok()) return *std::move(file);
  if (auto file = OpenRegular(fmt::format("/proc/{}/exe", pid)); file.ok()) return *std::move(file);
  return {};
}

uint64_t AvailableBytes() {
  const std::string text = ReadWhole("/proc/meminfo", 1 << 16);
  unsigned long kib = 0;
  const size_t at = text.find("MemAvailable:");
  if (at == std::string::npos || sscanf(text.c_str() + at, "MemAvailable: %lu kB", &kib) != 1) return UINT64_MAX;
  return kib << 10;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObservedProcess>> ObservedProcess::Open(pid_t pid,
                                                                       const std::vector<std::string>& tables) {
  if (absl::Status status = BecomeUserOf(pid); !status.ok()) return status;
  std::unique_ptr<ObservedProcess> process(new ObservedProcess(pid));
  absl::StatusOr<std::unique_ptr<ProcessImage>> image = ProcessImage::Open(pid);
  if (!image.ok()) return image.status();
  process->image_ = *std::move(image);
  if (absl::StatusOr<ProcessTable> table = FindTableOf(pid, tables); table.ok()) process->table_ = *std::move(table);
  process->name_ = process->table_.has_value()
                       ? process->table_->Name()
                       : fmt::format("{} (pid {})", Printable(BaseName(ExecutableOfProcess(pid))), pid);
  if (process->table_.has_value()) {
    if (absl::StatusOr<Snapshot> snapshot = process->table_->table.TakeSnapshot(); snapshot.ok()) {
      process->modules_ = snapshot->modules;
      process->is_exact_ = std::all_of(snapshot->heap_intervals.begin(), snapshot->heap_intervals.end(),
                                       [](const IntervalChange& change) { return change.interval == 1; });
    }
  }
  AddModulesOf(pid, process->image_->memory(), &process->modules_);
  return process;
}

absl::StatusOr<HeapBlocksInput> ObservedProcess::Prepare(bool may_guess) {
  if (absl::Status status = image_->Refresh(); !status.ok()) return status;
  HeapBlocksInput input;
  input.may_guess = may_guess;
  recorded_.clear();
  if (table_.has_value()) {
    if (auto blocks = ReadLiveBlocks(table_->table); blocks.ok()) recorded_ = *std::move(blocks);
    if (const auto ranges = ReadMappedRanges(table_->table); ranges.ok()) {
      for (const OwnRange& range : *ranges) {
        if (!range.of_allocator) input.mapped.push_back({range.start, range.end});
      }
    }
    snapshot_.reset();  // read when it is needed
  }
  // Remembered walks contain words of stacks, which are no pointers of the program.
  excluded_.clear();
  for (const MemoryMapping& mapping : image_->mappings()) {
    const std::string_view file = BaseName(WithoutDeletedMark(mapping.name));
    const bool is_table = file.starts_with("holdfast.") && file.ends_with(kTableSuffix);
    if (is_table || (table_.has_value() && file == table_->table.name()))
      excluded_.push_back({mapping.start, mapping.end});
  }
  input.recorded = recorded_;
  input.excluded = excluded_;
  return input;
}

NameSources ObservedProcess::Names() {
  NameSources sources;
  sources.modules = modules_;
  sources.open = [pid = pid_](const ModuleInfo& module) { return OpenModuleOf(pid, module); };
  sources.walk = [this](const ImageThread& thread, std::vector<uint64_t>* ends) {
    return walker_.Walk(image_->memory(), modules_, thread.pc, thread.sp, ends);
  };
  return sources;
}

const LiveBlock* ObservedProcess::RecordedIn(const MemoryRange& range) const {
  const auto first = std::partition_point(recorded_.begin(), recorded_.end(),
                                          [&](const LiveBlock& block) { return block.address < range.start; });
  return first != recorded_.end() && first->address < range.end ? &*first : nullptr;
}

uint32_t ObservedProcess::StackOf(const LiveBlock& block) {
  if (!snapshot_.has_value()) {
    absl::StatusOr<Snapshot> snapshot = table_->table.TakeSnapshot();
    snapshot_ = snapshot.ok() ? *std::move(snapshot) : Snapshot();
    stacks_.clear();
    calls_.clear();  // the numbers of stacks may have changed
    sites_.clear();
    for (const RowInfo& row : snapshot_->rows) {
      if (row.profile == ProfileKind::kHeap) stacks_.emplace(row.place, row.stack);
    }
  }
  const auto found = stacks_.find(block.row);
  return found == stacks_.end() ? kNoStack : found->second;
}

std::pair<std::string, std::string> ObservedProcess::NameOf(TaggedPc pc) {
  const auto known = names_.find(pc);
  if (known != names_.end()) return known->second;
  const uint64_t address = (pc & kPcMask) - 1;
  std::pair<std::string, std::string> name;
  const auto module = std::find_if(modules_.begin(), modules_.end(), [&](const ModuleInfo& one) {
    return address >= one.start && address < one.end && one.tag == pc >> kPcTagShift;
  });
  if (module != modules_.end()) {
    const auto [place, added] = functions_.emplace(&*module, nullptr);
    if (added) {
      const FileDescriptor file = OpenModuleOf(pid_, *module);
      if (file.valid()) {
        if (auto symbols = ElfSymbols::Load(file.get(), module->build_id); symbols.ok())
          place->second = *std::move(symbols);
      }
    }
    name.second = Printable(BaseName(WithoutDeletedMark(module->path)));
    const std::string_view mangled =
        place->second == nullptr ? std::string_view() : place->second->Find(address - module->bias);
    const std::string demangled = Demangle(mangled);
    name.first = mangled.empty() ? fmt::format("{}!{:#x}", name.second, address - module->bias)
                                 : Printable(demangled.empty() ? mangled : demangled);
  }
  names_.emplace(pc, name);
  return name;
}

const ObservedProcess::Calls& ObservedProcess::CallsOf(const LiveBlock& block) {
  const uint32_t stack = StackOf(block);
  const auto [place, added] = calls_.emplace(stack, Calls());
  if (!added || stack == kNoStack || !snapshot_.has_value() || stack >= snapshot_->stacks.size()) return place->second;
  for (const TaggedPc pc : snapshot_->stacks[stack].frames) {
    if (pc == kOmittedFrames) continue;
    std::pair<std::string, std::string> name = NameOf(pc);
    if (!name.first.empty() && !name.second.starts_with("libholdfast.so")) place->second.push_back(std::move(name));
  }
  return place->second;
}

const std::string& ObservedProcess::SiteOf(const LiveBlock& block) {
  const auto [place, added] = sites_.emplace(StackOf(block), "");
  if (!added) return place->second;
  std::vector<std::string> shown;
  const Calls& calls = CallsOf(block);
  for (const auto& [function, object] : calls) {
    if (shown.size() == kShownCalls) break;
    if (!IsPlumbing(function, "", object)) shown.push_back(ShortName(function));
  }
  if (shown.empty() && !calls.empty()) shown.push_back(ShortName(calls[0].first));
  place->second = fmt::format("{}", fmt::join(shown, " ← "));
  return place->second;
}

absl::StatusOr<ScanBudget> BudgetFor(const std::string& requested) {
  ScanBudget budget;
  if (!requested.empty()) {
    const absl::StatusOr<uint64_t> bytes = ParseByteSize(requested);
    if (!bytes.ok())
      return absl::InvalidArgumentError(fmt::format("--scan-memory: {}", std::string(bytes.status().message())));
    budget.most_bytes = *bytes;
    return budget;
  }
  budget.most_bytes = AvailableBytes() / 2;
  if (const auto room = MemoryRoomOf("self"); room.has_value())
    budget.most_bytes = std::min(budget.most_bytes, static_cast<uint64_t>(std::max<int64_t>(room->left_bytes, 0)) / 2);
  return budget;
}

}  // namespace holdfast
