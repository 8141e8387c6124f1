// Names of JIT-compiled code, from the map that the runtime writes for perf: /tmp/perf-PID.map, with lines `START SIZE
// name`, both numbers hexadecimal. Node (--perf-basic-prof), .NET, Java (perf-map-agent), LuaJIT and others write it.
//
// Anybody can write to /tmp, so the file must be a regular one owned by our user or by root. Pids are reused, so it
// must have been written to after the process began. While the process lives, the file is read in its mount namespace
// (/proc/PID/root). If two entries contain an address, the later line wins, because the code there was regenerated.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_PERF_MAP_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_PERF_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "report/profile/profile.h"

namespace holdfast {

class PerfMap {
 public:
  static constexpr size_t kMaxBytes = 32 << 20;  // a limit, because the exporter reads it while the program waits
  static constexpr size_t kMaxName = 4096;

  // Returns the map of the profile's process; nothing if there is no trusted one.
  static std::optional<PerfMap> OfProcess(const Profile& profile);

  explicit PerfMap(std::string text);

  // Returns "" if no entry contains the address. Valid as long as the map.
  std::string_view Find(uint64_t address) const;

 private:
  struct Entry {
    uint64_t end;
    uint32_t name, length;  // in text_
  };
  void Add(uint64_t start, uint64_t size, std::string_view name);

  std::string text_;
  std::map<uint64_t, Entry> entries_;  // by start; disjoint
};

// Gives a V8 function one name in all tiers: "JS:^load a.js:3" and "JS:*load a.js:3" become "JS:load a.js:3".
std::string WithoutTier(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_PERF_MAP_H_
