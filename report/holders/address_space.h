// The memory of a process, as a scan for pointers sees it: the mappings, the pages that exist, and the threads.
//
//    ProcessAddressSpace   a running process: reads it from outside and stops nothing
//    CopiedAddressSpace    a copy, made while the process was stopped (copied_address_space.h)
//    CoreAddressSpace      a core file (core_address_space.h)
//    tests                 bytes in our own memory (tests/support/made_address_space.h)
//
// All contents are untrusted. A read may fail at any time, because the process may unmap memory or exit. One thread.
#ifndef HOLDFAST_REPORT_HOLDERS_ADDRESS_SPACE_H_
#define HOLDFAST_REPORT_HOLDERS_ADDRESS_SPACE_H_

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/holders/populated_pages.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {

struct TargetThread {
  pid_t id = 0;
  uint32_t inner_id = 0;  // as the process sees it
  uint32_t number = 0;    // by age, from 1 for main
  std::string name;
  uint64_t pc = 0, sp = 0;  // 0: unknown, because the thread runs
  // The known register values. For a sleeping thread these are the arguments of its system call: the kernel does not
  // show the other registers of a thread that is not stopped.
  std::vector<uint64_t> registers;
  bool has_all_registers = false;
  bool resumes_call = false;  // stopped in a system call that goes on when the thread runs again
};

// Returns whether a mapping is searched for the program's pointers. Devices and what the kernel maps are not, nor are
// shared mappings of files that nobody may write. Private memory may have been written before it became read-only.
bool MayHoldPointers(const MemoryMapping& mapping);
// Returns whether only those pages of a mapping may hold pointers to which the process has written: the others are as
// in the file.
bool IsReadOnlyFile(const MemoryMapping& mapping);
// Returns whether a mapping is memory without a file on a disk, such as a memfd or /dev/shm.
bool IsMemoryFile(const MemoryMapping& mapping);

class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  const std::vector<MemoryMapping>& mappings() const { return mappings_; }  // by address
  const std::vector<TargetThread>& threads() const { return threads_; }

  // Copies a range. Returns false if a part cannot be read.
  virtual bool Read(uint64_t address, void* to, size_t bytes) const = 0;
  // Copies many small ranges at once, one after the other. Returns how many ranges were copied completely; the next one
  // cannot be read.
  virtual size_t ReadEach(std::span<const MemoryRange> ranges, char* to) const;
  // Returns the first run of existing pages (resident or swapped out) in a range, clipped to the range; an empty run at
  // `end` if there is none. Reading other pages would create them in the process. In read-only mappings of files only
  // pages count to which the process has written.
  virtual MemoryRange PopulatedRun(uint64_t from, uint64_t end) = 0;
  uint64_t PopulatedBytes(MemoryRange range);

  // Once a stop is requested, ForEachPiece ends early, and so do searches in the heap: the caller drops the result.
  void EndOn(std::stop_token stop) { stop_ = std::move(stop); }
  bool IsEnding() const { return stop_.stop_requested(); }

  // Words of the program that only the kernel has (kernel_words.h).
  const std::vector<uint64_t>& kernel_words() const { return kernel_words_; }

  // Bytes that the process had and this copy lacks: a core file may be truncated or filtered.
  virtual uint64_t missing_bytes() const { return 0; }
  // Those of them that the process has perhaps never written, so that they contain no pointers.
  virtual uint64_t unclear_bytes() const { return 0; }

  const MemoryMapping* MappingAt(uint64_t address) const;
  // Returns whether a mapping (by its index) contains code.
  bool IsExecutable(size_t mapping) const { return mapping < executable_.size() && executable_[mapping]; }
  // The start of the main thread's stack: the address of argc. 0: unknown.
  uint64_t stack_start() const { return stack_start_; }

 protected:
  uint64_t stack_start_ = 0;
  std::vector<MemoryMapping> mappings_;
  std::vector<bool> executable_;  // by mapping
  std::vector<TargetThread> threads_;
  std::vector<uint64_t> kernel_words_;

 private:
  std::stop_token stop_;
};

// Called with the words that begin at `address`.
using WordVisitor = std::function<void(uint64_t address, std::span<const uint64_t> words)>;

class ProcessAddressSpace : public AddressSpace {
 public:
  // An error says why the process cannot be read, and what to do.
  static absl::StatusOr<std::unique_ptr<ProcessAddressSpace>> Open(pid_t pid);

  bool Read(uint64_t address, void* to, size_t bytes) const override;
  size_t ReadEach(std::span<const MemoryRange> ranges, char* to) const override;
  MemoryRange PopulatedRun(uint64_t from, uint64_t end) override;

  // Reads the mappings and threads again. An error says that the process has exited, or runs another program.
  absl::Status Refresh();
  // Counts how often the threads have been switched out. While the count is unchanged and all threads sleep, no thread
  // has run. Nothing: a thread runs, or this is unknown.
  std::optional<uint64_t> SwitchesWhileAsleep() const;

  pid_t pid() const { return pid_; }
  const ProcessMemory& memory() const { return memory_; }

 private:
  explicit ProcessAddressSpace(pid_t pid);
  absl::Status CheckProgram();
  void FindExecutable();

  const pid_t pid_;
  pid_t memory_thread_;
  ProcessMemory memory_;
  struct Program {
    std::string start_time;
    uint64_t stack_start = 0;
    std::string executable;
  };
  Program program_;
  std::unique_ptr<PopulatedPages> pages_, private_pages_;
};

// Passes all existing words of a range to `visit(address, words)`, in ascending order and in pieces of up to 1 MiB.
// Pieces begin at multiples of 8. Skips pages that cannot be read. Ends early on request (AddressSpace::EndOn).
template <typename Visit>
void ForEachPiece(AddressSpace* space, uint64_t from, uint64_t end, const Visit& visit) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  static thread_local std::vector<uint64_t> words(kPiece / sizeof(uint64_t));
  from = (from + 7) & ~uint64_t{7};
  end &= ~uint64_t{7};
  while (from < end) {
    const MemoryRange run = space->PopulatedRun(from, end);
    if (run.start >= run.end) return;
    // A run of a core file may begin and end within a word.
    for (uint64_t at = (run.start + 7) & ~uint64_t{7}; at < run.end;) {
      if (space->IsEnding()) return;
      const uint64_t bytes = std::min(kPiece, run.end - at);
      if (space->Read(at, words.data(), bytes)) {
        visit(at, std::span<const uint64_t>(words.data(), bytes / sizeof(uint64_t)));
      } else {
        for (uint64_t page = at; page < at + bytes;) {
          const uint64_t next = std::min((page / kSmallestPage + 1) * kSmallestPage, at + bytes);
          if (space->Read(page, words.data(), next - page))
            visit(page, std::span<const uint64_t>(words.data(), (next - page) / sizeof(uint64_t)));
          page = next;
        }
      }
      at += bytes;
    }
    from = (run.end + 7) & ~uint64_t{7};
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_ADDRESS_SPACE_H_
