// Limits of a process that let it map no more memory.
#ifndef HOLDFAST_REPORT_RUN_MEMORY_LIMITS_H_
#define HOLDFAST_REPORT_RUN_MEMORY_LIMITS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// A field of /proc/PROCESS/status, such as VmSize, in bytes; 0 if it is not there.
uint64_t StatusBytes(const std::string& process, const char* field);

// Returns a text for each limit of /proc/PROCESS below what it uses and these bytes: "has no address space left for the library
// (RLIMIT_AS, ulimit -v). Raise it with prlimit --as". `data`: bytes that count as data.
std::vector<std::string> MemoryLimitsBelow(const std::string& process, uint64_t mapped, uint64_t data);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_MEMORY_LIMITS_H_
