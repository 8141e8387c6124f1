#include "report/show/observed_process.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/holders/core_address_space.h"
#include "report/holders/library_memory.h"
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

// Returns what the machine and our control group have left.
uint64_t AvailableBytes() {
  uint64_t bytes = UINT64_MAX;
  const std::string text = ReadWhole("/proc/meminfo", 1 << 16);
  unsigned long kib = 0;
  const size_t at = text.find("MemAvailable:");
  if (at != std::string::npos && sscanf(text.c_str() + at, "MemAvailable: %lu kB", &kib) == 1) bytes = kib << 10;
  if (const auto room = MemoryRoomOf("self"); room.has_value())
    bytes = std::min(bytes, static_cast<uint64_t>(std::max<int64_t>(room->left_bytes, 0)));
  return bytes;
}

// Walks each stack once: a thread that sleeps has the same stack in every scan.
class StackEnds {
 public:
  StackEnds(AddressSpace* space, const std::vector<ModuleInfo>& modules)
      : memory_([space](uint64_t address, void* to, size_t bytes) { return space->Read(address, to, bytes); }),
        modules_(modules) {}

  std::optional<uint64_t> Of(const TargetThread& thread) {
    const auto [place, added] = known_.emplace(std::tuple(thread.id, thread.pc, thread.sp), std::nullopt);
    if (added && thread.sp != 0) {
      std::vector<uint64_t> ends;
      const StackInfo stack = walker_.Walk(memory_, modules_, thread.pc, thread.sp, &ends);
      if (!stack.truncated && !ends.empty()) place->second = ends.back();  // the outermost frame has no end
    }
    return place->second;
  }

 private:
  const ProcessMemory memory_;
  const std::vector<ModuleInfo>& modules_;
  OutsideStacks walker_;
  std::map<std::tuple<pid_t, uint64_t, uint64_t>, std::optional<uint64_t>> known_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObservedProcess>> ObservedProcess::Open(const std::string& target,
                                                                       const std::vector<std::string>& tables) {
  const bool is_number = !target.empty() && target.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number) return OpenCore(target);
  const absl::StatusOr<pid_t> pid = ParsePid(target);
  if (!pid.ok()) return pid.status();
  return Open(*pid, tables);
}

absl::StatusOr<std::unique_ptr<ObservedProcess>> ObservedProcess::Open(pid_t pid,
                                                                       const std::vector<std::string>& tables) {
  if (absl::Status status = CheckProcess(pid); !status.ok()) return status;
  if (absl::Status status = BecomeUserOf(pid); !status.ok()) return status;
  std::unique_ptr<ObservedProcess> process(new ObservedProcess(pid));
  absl::StatusOr<std::unique_ptr<ProcessAddressSpace>> space = ProcessAddressSpace::Open(pid);
  if (!space.ok()) return space.status();
  process->process_ = space->get();
  process->space_ = *std::move(space);
  if (absl::StatusOr<ProcessTable> table = FindTableOf(pid, tables); table.ok()) process->table_ = *std::move(table);
  const std::string executable = ExecutableOfProcess(pid);  // "" once main has ended
  process->name_ = process->table_.has_value()
                       ? process->table_->Name()
                       : fmt::format("{} (pid {})",
                                     Printable(executable.empty() ? ThreadName(pid, pid) : BaseName(executable)), pid);
  if (process->table_.has_value()) {
    if (absl::StatusOr<TableSnapshot> snapshot = process->table_->table.TakeSnapshot(); snapshot.ok()) {
      process->modules_ = snapshot->modules;
      process->identity_ = snapshot->process;
      process->is_exact_ = std::all_of(snapshot->heap_intervals.begin(), snapshot->heap_intervals.end(),
                                       [](const IntervalChange& change) { return change.interval == 1; });
    }
  }
  AddModulesOf(pid, process->memory_, &process->modules_);
  process->outermost_end_ = process->OutermostEndsIn(process->space_.get());
  return process;
}

absl::StatusOr<std::unique_ptr<ObservedProcess>> ObservedProcess::OpenCore(const std::string& path) {
  absl::StatusOr<FileDescriptor> file = OpenRegular(path);
  if (!file.ok()) {
    if (std::error_code none; !std::filesystem::exists(path, none)) {
      return absl::InvalidArgumentError(
          fmt::format("{}: neither a process id nor a core file. holdfast ls lists the profiled processes.", path));
    }
    return absl::NotFoundError(fmt::format("{}: neither a process id nor a core file that can be read ({})", path,
                                           std::string(file.status().message())));
  }
  absl::StatusOr<std::unique_ptr<CoreAddressSpace>> space = CoreAddressSpace::Open(*std::move(file));
  if (!space.ok())
    return absl::Status(space.status().code(), fmt::format("{}: {}", path, std::string(space.status().message())));
  std::unique_ptr<ObservedProcess> process(new ObservedProcess((*space)->pid()));
  const std::string program = (*space)->program().empty() ? "process" : Printable((*space)->program());
  process->name_ = fmt::format("{} (pid {}, in {})", program, process->pid_, Printable(BaseName(path)));
  const std::vector<std::pair<uint64_t, std::string>> first_pages = (*space)->FirstPages();
  process->space_ = *std::move(space);
  AddModulesAt(first_pages, process->memory_, &process->modules_);
  process->outermost_end_ = process->OutermostEndsIn(process->space_.get());
  return process;
}

OutermostEnd ObservedProcess::OutermostEndsIn(AddressSpace* space) const {
  return [ends = std::make_shared<StackEnds>(space, modules_)](const TargetThread& thread) { return ends->Of(thread); };
}

absl::StatusOr<HeapBlocksInput> ObservedProcess::Prepare(bool may_guess) {
  if (process_ != nullptr) {
    if (absl::Status status = process_->Refresh(); !status.ok()) return status;
  }
  return PrepareUnchanged(may_guess);
}

HeapBlocksInput ObservedProcess::PrepareUnchanged(bool may_guess) {
  HeapBlocksInput input;
  input.may_guess = may_guess;
  input.outermost_end = outermost_end_;
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
  for (const MemoryMapping& mapping : space_->mappings()) {
    const bool is_its_table = table_.has_value() && BaseName(WithoutDeletedMark(mapping.name)) == table_->table.name();
    if (is_its_table || IsHoldfastTable(mapping)) excluded_.push_back({mapping.start, mapping.end});
  }
  for (const MemoryRange& range : FindLibraryMemory(space_.get())) excluded_.push_back(range);
  std::sort(excluded_.begin(), excluded_.end(), [](const auto& a, const auto& b) { return a.start < b.start; });
  input.recorded = recorded_;
  input.excluded = excluded_;
  return input;
}

NameSources ObservedProcess::Names() {
  NameSources sources;
  sources.modules = modules_;
  sources.open = [this](const ModuleInfo& module) { return OpenModule(module); };
  sources.walk = [this](const TargetThread& thread, std::vector<uint64_t>* ends) {
    return walker_.Walk(memory_, modules_, thread.pc, thread.sp, ends);
  };
  return sources;
}

// Opens the file of a module as the process sees it.
FileDescriptor ObservedProcess::OpenModule(const ModuleInfo& module) const {
  if (!module.path.starts_with('/')) return {};
  const std::string path(WithoutDeletedMark(module.path));
  if (is_core()) {
    absl::StatusOr<FileDescriptor> file = OpenRegular(path);
    return file.ok() ? *std::move(file) : FileDescriptor();
  }
  if (auto file = OpenRegular(fmt::format("/proc/{}/root{}", pid_, path)); file.ok()) return *std::move(file);
  if (auto file = OpenRegular(fmt::format("/proc/{}/exe", pid_)); file.ok()) return *std::move(file);
  return {};
}

const LiveBlock* ObservedProcess::RecordedIn(const MemoryRange& range) const {
  const auto first = std::partition_point(recorded_.begin(), recorded_.end(),
                                          [&](const LiveBlock& block) { return block.address < range.start; });
  return first != recorded_.end() && first->address < range.end ? &*first : nullptr;
}

uint32_t ObservedProcess::StackOf(const LiveBlock& block) {
  if (!snapshot_.has_value()) {
    absl::StatusOr<TableSnapshot> snapshot = table_->table.TakeSnapshot();
    snapshot_ = snapshot.ok() ? *std::move(snapshot) : TableSnapshot();
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

const ObservedProcess::Call& ObservedProcess::CallAt(TaggedPc pc) {
  const auto [known, is_new] = names_.try_emplace(pc);
  Call& call = known->second;
  if (!is_new) return call;
  const uint64_t address = (pc & kPcMask) - 1;
  const auto module = std::find_if(modules_.begin(), modules_.end(), [&](const ModuleInfo& one) {
    return address >= one.start && address < one.end && one.tag == pc >> kPcTagShift;
  });
  if (module == modules_.end()) return call;
  const auto [place, added] = functions_.emplace(&*module, nullptr);
  if (added) {
    const FileDescriptor file = OpenModule(*module);
    if (file.valid()) {
      if (auto symbols = ElfSymbols::Load(file.get(), module->build_id); symbols.ok())
        place->second = *std::move(symbols);
    }
  }
  call.path = Printable(WithoutDeletedMark(module->path));
  call.object = BaseName(call.path);
  if (place->second != nullptr) call.mangled = Printable(place->second->Find(address - module->bias));
  const std::string demangled = Demangle(call.mangled);
  call.function = call.mangled.empty() ? fmt::format("{}!{:#x}", call.object, address - module->bias)
                                       : Printable(demangled.empty() ? call.mangled : demangled);
  return call;
}

const ObservedProcess::Calls& ObservedProcess::CallsOf(const LiveBlock& block) {
  const uint32_t stack = StackOf(block);
  const auto [place, added] = calls_.emplace(stack, Calls());
  if (!added || stack == kNoStack || !snapshot_.has_value() || stack >= snapshot_->stacks.size()) return place->second;
  for (const TaggedPc pc : snapshot_->stacks[stack].frames) {
    if (pc == kOmittedFrames) continue;
    const Call& call = CallAt(pc);
    if (!call.function.empty() && !IsHoldfastLibrary(call.object)) place->second.push_back(call);
  }
  return place->second;
}

const std::string& ObservedProcess::SiteOf(const LiveBlock& block) {
  const auto [place, added] = sites_.emplace(StackOf(block), "");
  if (!added) return place->second;
  std::vector<std::string> shown;
  const Calls& calls = CallsOf(block);
  for (const Call& call : calls) {
    if (shown.size() == kShownCalls) break;
    if (!IsPlumbing(call.function, "", call.object)) shown.push_back(ShortName(call.function));
  }
  if (shown.empty() && !calls.empty()) shown.push_back(ShortName(calls[0].function));
  place->second = fmt::format("{}", fmt::join(shown, " ← "));
  return place->second;
}

absl::StatusOr<StoppedCopy> CopyStopped(ObservedProcess* process, uint64_t most_bytes, bool may_guess,
                                        const TracingRights* rights, const std::function<void()>& while_stopped) {
  StoppedCopy stopped;
  if (rights != nullptr) rights->Use();
  absl::StatusOr<std::unique_ptr<CopiedAddressSpace>> copy =
      CopiedAddressSpace::Make(process->running(), most_bytes, [&]() -> absl::Status {
        stopped.input = process->PrepareUnchanged(may_guess);
        if (while_stopped) while_stopped();
        return absl::OkStatus();
      });
  if (rights != nullptr) rights->GiveUp();
  if (!copy.ok()) return copy.status();
  stopped.space = *std::move(copy);
  stopped.input.outermost_end = process->OutermostEndsIn(stopped.space.get());
  return stopped;
}

std::string SearchLimits::Lines(std::string_view effect) const {
  std::string text;
  if (missing_bytes > 0) {
    text += fmt::format("  {} of memory are missing in the core file: {}\n",
                        FormatSize(static_cast<int64_t>(missing_bytes)), effect);
  }
  if (unclear_bytes > 0) {
    text += fmt::format(
        "  {} of them are mappings of files, shared with other processes, or private and never written: a core file cannot tell\n",
        FormatSize(static_cast<int64_t>(unclear_bytes)));
  }
  if (unknown_stacks > 0) {
    text += fmt::format(
        "  the search for stacks of threads ended at its limit: stale words in {} of them may hold memory\n",
        unknown_stacks);
  }
  return text;
}

absl::StatusOr<ScanBudget> BudgetFor(const std::string& requested) {
  ScanBudget budget;
  const uint64_t available = AvailableBytes();
  budget.most_bytes = available / 2;
  if (requested.empty()) return budget;
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(requested);
  if (!bytes.ok())
    return absl::InvalidArgumentError(fmt::format("--scan-memory: {}", std::string(bytes.status().message())));
  if (*bytes > available) {
    return absl::ResourceExhaustedError(
        fmt::format("--scan-memory {}: only {} of memory are free here. Give less, or free memory", requested,
                    FormatSize(static_cast<int64_t>(available))));
  }
  budget.most_bytes = *bytes;
  return budget;
}

}  // namespace holdfast
