// What the library's start (start.cc) does for a library that was loaded into a running program.
#ifndef HOLDFAST_INTERPOSE_PROCESS_ATTACH_H_
#define HOLDFAST_INTERPOSE_PROCESS_ATTACH_H_

namespace holdfast {

// Finds the real functions and reads the options from `variables`, which have the form of an environment: once, and later calls
// only go on. Returns false if another thread forks now (fork_handlers.h): call again.
bool StartLate(const char* const* variables);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_PROCESS_ATTACH_H_
