// Limits of a process that let it map no more memory.
#ifndef HOLDFAST_REPORT_RUN_MEMORY_LIMITS_H_
#define HOLDFAST_REPORT_RUN_MEMORY_LIMITS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

// A field of /proc/PROCESS/status, such as VmSize, in bytes; 0 if it is not there.
uint64_t StatusBytes(const std::string& process, const char* field);

// Returns a text for each limit of /proc/PROCESS below what it uses and these bytes: "has no address space left for the library
// (RLIMIT_AS, ulimit -v). Raise it with prlimit --as". `data`: bytes that count as data.
std::vector<std::string> MemoryLimitsBelow(const std::string& process, uint64_t mapped, uint64_t data);

// How much memory a process may still use before its control group, or one above it, reaches its limit. Cached files do not
// count: the kernel drops them first.
struct GroupLimit {
  std::string folder;  // "/sys/fs/cgroup/system.slice/redis.service"
  uint64_t left_bytes = 0;
};
// The group with the least left. Nothing: there is no limit, or it cannot be read from here.
std::optional<GroupLimit> TightestGroup(pid_t pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_MEMORY_LIMITS_H_
