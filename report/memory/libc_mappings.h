// What glibc maps for itself, by calls that no wrapper sees: its heap, the arenas of its threads. Looked at from outside, in
// /proc/PID/maps: what of these mappings the program has not mapped itself.
//
// Sizes are those of what may be written: an arena reserves 64 MiB and opens them bit by bit. A large block that malloc maps for
// itself is in no arena, and not here: the heap profile has it. Same user, and the kernel's leave to look.
#ifndef HOLDFAST_REPORT_MEMORY_LIBC_MAPPINGS_H_
#define HOLDFAST_REPORT_MEMORY_LIBC_MAPPINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "report/memory/mappings.h"
#include "report/memory/own_ranges.h"
#include "report/table/snapshot.h"

namespace holdfast {

// What stands for a stack of its own mappings.
inline constexpr char kGlibcHeap[] = "[glibc heap]", kGlibcArenas[] = "[glibc arenas]";

// Where they lie: those of a kind together, less what of them the program has mapped.
struct LibcRanges {
  const char* name;
  MappingKind kind;
  uint64_t mappings = 0;
  std::vector<AddressRange> ranges = {};  // by address
};
// At most one of each kind. `own`: by address.
std::vector<LibcRanges> LibcRangesOf(const std::vector<MemoryMapping>& mappings, const std::vector<AddressRange>& own,
                                     const std::set<uint64_t>& arenas);
std::vector<LibcMapping> LibcMappingsOf(const std::vector<MemoryMapping>& mappings,
                                        const std::vector<AddressRange>& own, const std::set<uint64_t>& arenas);

// The memory map of a process, in which each arena is a mapping of its own.
struct MapOfProcess {
  std::vector<MemoryMapping> mappings;
  std::set<uint64_t> arenas;
};
absl::StatusOr<MapOfProcess> ReadMapOfProcess(pid_t pid);
absl::StatusOr<std::vector<LibcMapping>> ReadLibcMappings(pid_t pid, const TableFile& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_LIBC_MAPPINGS_H_
