// The values of the comment `kind` in profiles that holdfast wrote: heap, peak, lifetimes, resident, map, mutex, block,
// threads, exceptions, cpu, wall, unreachable, holders.
#ifndef HOLDFAST_REPORT_PROFILE_PROFILE_KIND_H_
#define HOLDFAST_REPORT_PROFILE_PROFILE_KIND_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace holdfast {

// Returns the value types of a kind and their units, in the order of its files. Returns nothing for a kind that
// holdfast does not write, and for kinds that may have no file although the program had blocks (peak, lifetimes,
// resident).
using NameAndUnit = std::pair<const char*, const char*>;
inline std::span<const NameAndUnit> ValueTypesOf(std::string_view kind) {
  static constexpr NameAndUnit kBlocks[] = {
      {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};
  static constexpr NameAndUnit kWaits[] = {{"contentions", "count"}, {"delay", "nanoseconds"}};
  static constexpr NameAndUnit kThreads[] = {{"created", "count"}, {"alive", "count"}};
  static constexpr NameAndUnit kExceptions[] = {{"exceptions", "count"}};
  static constexpr NameAndUnit kCpu[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
  static constexpr NameAndUnit kWall[] = {{"wall", "nanoseconds"}};
  if (kind == "heap" || kind == "map") return kBlocks;
  if (kind == "mutex" || kind == "block") return kWaits;
  if (kind == "threads") return kThreads;
  if (kind == "exceptions") return kExceptions;
  if (kind == "cpu") return kCpu;
  if (kind == "wall") return kWall;
  return {};
}

// The mean time between two looks at the threads, which make the kind `wall`.
inline constexpr int64_t kWallPeriodNs = 50'000'000;

// Whether samples are allocations. Samples of mutex and block are waits.
inline bool IsMemoryKind(std::string_view kind) {
  return kind == "heap" || kind == "peak" || kind == "lifetimes" || kind == "map" || kind == "resident";
}
// Whether a sample type only grows. What is in use or alive may also fall.
inline bool IsCounter(std::string_view type) {
  return !type.starts_with("inuse_") && !type.starts_with("alive") && !type.starts_with("resident_") &&
         !type.starts_with("swapped_") && !type.starts_with("held_");
}
inline bool IsWaitKind(std::string_view kind) { return kind == "mutex" || kind == "block"; }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_PROFILE_KIND_H_
