// Whether glibc can give a library the thread-local memory that the library's code expects at a fixed distance from the thread
// pointer (initial-exec TLS). glibc reserves room for all threads at the start of the program; a library that comes by dlopen
// takes some of what is left:
//
//     static size   │ of the program and its libraries │ of libraries loaded since │ free                   │ thread descriptor
//                    ◄──────────────── static used ─────────────────────────────►
//
// These numbers are in variables of the dynamic linker that have no names of their own. The address of the size is in the code
// of _dl_get_tls_static_info; the place of the other is next to one that glibc describes for libthread_db. Both are checked
// against the offsets of the loaded libraries. The process is untrusted: only data is read, with bounds.
#ifndef HOLDFAST_REPORT_RUN_STATIC_TLS_H_
#define HOLDFAST_REPORT_RUN_STATIC_TLS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace holdfast {

struct ModuleInfo;

struct StaticTls {
  uint64_t bytes = 0, alignment = 1;
};

// What a library's file needs; 0 bytes: none.
absl::StatusOr<StaticTls> StaticTlsNeededBy(const std::string& library);
// What a process with a shared glibc has left. An error says what is unknown.
absl::StatusOr<StaticTls> FreeStaticTls(pid_t pid);

// Returns how far after errno a thread keeps what dlerror() will say; 0: unknown. `libc`: of the process.
int64_t DlerrorFromErrno(pid_t pid, const ModuleInfo& libc);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_STATIC_TLS_H_
