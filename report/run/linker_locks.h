// The locks that glibc's dynamic linker holds while it calls the program: constructors of a library that it loads, and the
// callback of dl_iterate_phdr. They are in a variable without symbols of their own:
//
//     struct rtld_global   │ … │ number of namespaces │ load lock │ list's lock │ TLS lock │ …
//
// Three recursive mutexes follow each other in this place only. The process is untrusted: only data is read, with bounds.
#ifndef HOLDFAST_REPORT_RUN_LINKER_LOCKS_H_
#define HOLDFAST_REPORT_RUN_LINKER_LOCKS_H_

#include <sys/types.h>

#include <array>
#include <cstdint>

namespace holdfast {

struct ModuleInfo;

// Returns the addresses of the locks that dlopen and dl_iterate_phdr hold, in the order in which to take them. Zeros: they were
// not found. `linker`: of the process.
std::array<uint64_t, 2> LinkerLocks(pid_t pid, const ModuleInfo& linker);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_LINKER_LOCKS_H_
