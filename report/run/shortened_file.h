// A file of a running program that was shortened in place, for example by `cp` over a library.
#ifndef HOLDFAST_REPORT_RUN_SHORTENED_FILE_H_
#define HOLDFAST_REPORT_RUN_SHORTENED_FILE_H_

#include <sys/types.h>

#include <string>

namespace holdfast {

// Returns the path of a file with code that is shorter than what the process has mapped of the file; "": none is known. Whoever
// reads beyond its end gets SIGBUS.
std::string ShortenedFileOf(pid_t pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SHORTENED_FILE_H_
