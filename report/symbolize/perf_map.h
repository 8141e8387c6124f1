// Names of code that a JIT compiler made, from the map that it writes for perf: /tmp/perf-PID.map, lines of
// `START SIZE name`, both numbers hexadecimal. Node (--perf-basic-prof), .NET, Java (perf-map-agent), LuaJIT and others
// write one.
//
// Anybody can write into /tmp: the file must be a regular one of our user or of root. Pids come back: it must have been
// written to after the process began. It lies in the program's mount namespace while that lives (/proc/PID/root).
// Where two entries hold an address, the later line holds it: the code was made anew there.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_PERF_MAP_H_
#define HOLDFAST_REPORT_SYMBOLIZE_PERF_MAP_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "report/pprof/profile.h"

namespace holdfast {

class PerfMap {
 public:
  static constexpr size_t kMaxBytes = 32 << 20;  // the exporter reads it while the program waits
  static constexpr size_t kMaxName = 4096;

  // The map of the process that a profile is of; nothing when there is none that can be trusted.
  static std::optional<PerfMap> OfProcess(const Profile& profile);

  explicit PerfMap(std::string text);

  // "" when no entry holds the address. Valid as long as the map.
  std::string_view Find(uint64_t address) const;

 private:
  struct Entry {
    uint64_t end;
    uint32_t name, length;  // in text_
  };
  void Add(uint64_t start, uint64_t size, std::string_view name);

  std::string text_;
  std::map<uint64_t, Entry> entries_;  // by start; they do not overlap
};

// A function of V8 has one name in all tiers: "JS:^load a.js:3" and "JS:*load a.js:3" are "JS:load a.js:3".
std::string WithoutTier(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_PERF_MAP_H_
