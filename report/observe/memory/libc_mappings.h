// Finds mappings that glibc makes for itself by calls that no wrapper sees: its heap and the arenas of its threads.
// Reads /proc/PID/maps and subtracts what the program has mapped itself.
//
// Sizes are those of writable memory: an arena reserves 64 MiB and makes it writable step by step. A large block that
// malloc maps separately is in no arena, and not here: the heap profile has it. Needs the same user and the kernel's
// permission to inspect the process.
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

// The frame for these mappings, instead of a stack.
inline constexpr char kGlibcHeap[] = "[glibc heap]", kGlibcArenas[] = "[glibc arenas]";

// The addresses of all mappings of a kind, without what the program has mapped.
struct LibcRanges {
  const char* name;
  MappingKind kind;
  uint64_t mappings = 0;
  std::vector<OwnRange> ranges = {};  // by address
};
// Returns at most one for each kind. `own`: by address.
std::vector<LibcRanges> LibcRangesOf(const std::vector<MemoryMapping>& mappings, const std::vector<OwnRange>& own,
                                     const std::set<uint64_t>& arenas);
std::vector<LibcMapping> LibcMappingsOf(const std::vector<MemoryMapping>& mappings, const std::vector<OwnRange>& own,
                                        const std::set<uint64_t>& arenas);

// The memory map of a process, with a separate mapping for each arena.
struct MapOfProcess {
  std::vector<MemoryMapping> mappings;
  std::set<uint64_t> arenas;
};
absl::StatusOr<MapOfProcess> ReadMapOfProcess(pid_t pid);
absl::StatusOr<std::vector<LibcMapping>> ReadLibcMappings(pid_t pid, const TableFile& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_LIBC_MAPPINGS_H_
