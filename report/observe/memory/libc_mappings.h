// Finds mappings that the C library makes for its own malloc by calls that no wrapper sees: glibc's heap and the arenas
// of its threads, and musl's heap.
// Reads /proc/PID/maps and subtracts what the program has mapped itself.
//
// Sizes are those of writable memory: an arena reserves 64 MiB and makes it writable step by step. A large block that
// malloc maps separately is in no arena, and not here: the heap profile has it.
//
// Needs the same user and the kernel's permission to inspect the process.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_LIBC_MAPPINGS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_LIBC_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/memory/own_ranges.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// All mappings of one kind, without what the program has mapped: where they are.
struct LibcRanges {
  const char* name;
  MappingKind kind;
  uint64_t mappings = 0;              // how many, not counting those that the program has mapped completely
  std::vector<OwnRange> ranges = {};  // by address
};
// Whether the process has mapped musl, and not glibc.
bool UsesMusl(const std::vector<MemoryMapping>& mappings);

// Return at most one element for each of the two kinds, none for a kind without mappings. LibcRangesOf has the addresses,
// LibcMappingsOf only the number of mappings and the sum of their bytes. `own`: what the program has mapped, by address.
// `arenas`: as in MapOfProcess. `replaces_malloc`: the executable has a malloc of its own, so [heap] may not be libc's.
std::vector<LibcRanges> LibcRangesOf(const std::vector<MemoryMapping>& mappings, const std::vector<OwnRange>& own,
                                     const std::set<uint64_t>& arenas, bool replaces_malloc);
// All mappings of one kind that libc made for itself.
struct LibcMapping {
  const char* name = nullptr;  // the frame in place of a stack: "[glibc arenas]"
  MappingKind kind = MappingKind::kNone;
  uint64_t mappings = 0, bytes = 0;
  uint64_t most_mappings = 0, most_bytes = 0;  // the observed maxima
};

std::vector<LibcMapping> LibcMappingsOf(const std::vector<MemoryMapping>& mappings, const std::vector<OwnRange>& own,
                                        const std::set<uint64_t>& arenas, bool replaces_malloc);
// Whether one of the modules is an executable with a malloc of its own (kModuleReplacesMalloc).
bool ReplacesMalloc(const std::vector<ModuleInfo>& modules);

// The memory map of a process. An arena (glibc's, for threads) consists of heaps of up to 64 MiB; each heap is a separate
// mapping here, even if the kernel has merged it with its neighbours.
struct MapOfProcess {
  std::vector<MemoryMapping> mappings;
  std::set<uint64_t> arenas;  // the start address of each heap. Empty if the process's memory cannot be read
};
// PermissionDenied: another user's process, or the kernel refuses. NotFound: it has exited, or is a kernel thread.
absl::StatusOr<MapOfProcess> ReadMapOfProcess(pid_t pid);
// Both steps: ReadMapOfProcess, without the ranges that `table` names. `modules`: the table's. Also returns the error of
// reading the table.
absl::StatusOr<std::vector<LibcMapping>> ReadLibcMappings(pid_t pid, const TableFile& table,
                                                          const std::vector<ModuleInfo>& modules);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_LIBC_MAPPINGS_H_
