// A running process, or a core file, for the views of its memory: its address space, what Holdfast's table knows of its blocks, and
// the names of its code. Works without a table, too.
#ifndef HOLDFAST_REPORT_SHOW_OBSERVED_PROCESS_H_
#define HOLDFAST_REPORT_SHOW_OBSERVED_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/daemon/find_tables.h"
#include "report/holders/address_space.h"
#include "report/holders/big_array.h"
#include "report/holders/copied_address_space.h"
#include "report/holders/heap_blocks.h"
#include "report/holders/holder_names.h"
#include "report/observe/outside/outside_stack.h"
#include "report/observe/table/snapshot.h"
#include "report/show/tracing_rights.h"

namespace holdfast {

class ObservedProcess {
 public:
  // `target`: a process id, or a core file. For a process, takes on the rights of the process's user, if we are root.
  // An error says why it cannot be read.
  static absl::StatusOr<std::unique_ptr<ObservedProcess>> Open(const std::string& target,
                                                               const std::vector<std::string>& tables);
  static absl::StatusOr<std::unique_ptr<ObservedProcess>> Open(pid_t pid, const std::vector<std::string>& tables);
  static absl::StatusOr<std::unique_ptr<ObservedProcess>> OpenCore(const std::string& path);

  pid_t pid() const { return pid_; }
  bool is_core() const { return process_ == nullptr; }
  const std::string& name() const { return name_; }  // "server (pid 4242)"
  AddressSpace& space() { return *space_; }
  // Null for a core file.
  ProcessAddressSpace* running() { return process_; }

  // Reads the address space and the table again, and returns what is known for a scan. Valid until the next call.
  absl::StatusOr<HeapBlocksInput> Prepare(bool may_guess);
  // The same without reading the address space again.
  HeapBlocksInput PrepareUnchanged(bool may_guess);
  // Returns where stacks end in another copy of this process.
  OutermostEnd OutermostEndsIn(AddressSpace* space) const;
  bool has_table() const { return table_.has_value(); }
  // Every block of the program is recorded.
  bool is_exact() const { return is_exact_; }
  // A profiled child that has executed no program since its fork.
  bool is_forked() const { return identity_.has_value() && identity_->forked; }
  const std::optional<ProcessIdentity>& identity() const { return identity_; }  // nothing: not profiled
  uint64_t table_bytes() const { return table_.has_value() ? table_->table.bytes() : 0; }
  const std::vector<LiveBlock>& recorded() const { return recorded_; }

  // For HolderNames. `this` must outlive them.
  NameSources Names();

  // Returns the recorded block that begins in a range; null: none.
  const LiveBlock* RecordedIn(const MemoryRange& range) const;
  // The functions of the stack that allocated a block, innermost first; empty: unknown.
  struct Call {
    std::string function, mangled = {}, object = {}, path = {};  // the object's name, and its path
  };
  using Calls = std::vector<Call>;
  const Calls& CallsOf(const LiveBlock& block);
  // "Session::Log ← handle ← run": the innermost functions that are not plumbing; "": unknown.
  const std::string& SiteOf(const LiveBlock& block);

 private:
  explicit ObservedProcess(pid_t pid)
      : pid_(pid),
        memory_([this](uint64_t address, void* to, size_t bytes) { return space_->Read(address, to, bytes); }) {}
  FileDescriptor OpenModule(const ModuleInfo& module) const;
  uint32_t StackOf(const LiveBlock& block);
  const Call& CallAt(TaggedPc pc);

  const pid_t pid_;
  std::string name_;
  std::unique_ptr<AddressSpace> space_;
  ProcessAddressSpace* process_ = nullptr;  // the same, if it is one
  const ProcessMemory memory_;              // reads space_
  std::optional<ProcessTable> table_;
  std::optional<TableSnapshot> snapshot_;
  std::vector<ModuleInfo> modules_;
  std::vector<LiveBlock> recorded_;
  absl::flat_hash_map<Offset, uint32_t> stacks_;  // row → stack
  std::vector<MemoryRange> excluded_;
  bool is_exact_ = false;
  std::optional<ProcessIdentity> identity_;
  OutsideStacks walker_;
  OutermostEnd outermost_end_;
  std::map<uint32_t, Calls> calls_;        // by stack
  std::map<uint32_t, std::string> sites_;  // by stack
  std::map<const ModuleInfo*, std::unique_ptr<ElfSymbols>> functions_;
  std::map<TaggedPc, Call> names_;
};

// The memory of a process while it was stopped, and what its table knew at that moment.
// What limits a search for pointers, for its answer.
struct SearchLimits {
  uint64_t missing_bytes = 0, unclear_bytes = 0;  // see AddressSpace
  uint32_t unknown_stacks = 0;                    // see FindRoots

  // One line for each limit. `effect`: "pointers in them are not found".
  std::string Lines(std::string_view effect) const;
};

struct StoppedCopy {
  std::unique_ptr<CopiedAddressSpace> space;
  HeapBlocksInput input;  // `space` must outlive it
};

// Stops the process only while its memory is copied; errors are those of CopiedAddressSpace::Make. `rights`: see tracing_rights.h;
// null if we were not root. `while_stopped` reads what else must be of that moment; it may be empty.
absl::StatusOr<StoppedCopy> CopyStopped(ObservedProcess* process, uint64_t most_bytes, bool may_guess,
                                        const TracingRights* rights, const std::function<void()>& while_stopped = {});

// How much memory a scan may use: `requested` ("512MiB"; "" = half of what the machine and our control group have
// left). An error says that less is left than requested.
absl::StatusOr<ScanBudget> BudgetFor(const std::string& requested);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_OBSERVED_PROCESS_H_
