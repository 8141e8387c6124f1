// What the comment `kind` of a profile that holdfast wrote says: heap, peak, lifetimes, resident, map, mutex, block, threads, exceptions.
#ifndef HOLDFAST_REPORT_PPROF_PROFILE_KIND_H_
#define HOLDFAST_REPORT_PPROF_PROFILE_KIND_H_

#include <string_view>

namespace holdfast {

// Its samples are allocations; those of mutex and block are waits.
inline bool IsMemoryKind(std::string_view kind) {
  return kind == "heap" || kind == "peak" || kind == "lifetimes" || kind == "map" || kind == "resident";
}
// Of a sample type: it only grows; what is in use or alive may also fall.
inline bool IsCounter(std::string_view type) {
  return !type.starts_with("inuse_") && !type.starts_with("alive") && !type.starts_with("resident_") &&
         !type.starts_with("swapped_");
}
inline bool IsWaitKind(std::string_view kind) { return kind == "mutex" || kind == "block"; }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_PROFILE_KIND_H_
