// What the library's start (start.cc) does for a library that was loaded into a running program.
#ifndef HOLDFAST_INTERPOSE_PROCESS_ATTACH_H_
#define HOLDFAST_INTERPOSE_PROCESS_ATTACH_H_

namespace holdfast {

// Finds the real functions and reads the options from `variables`, which have the form of an environment. Call once.
void StartLate(const char* const* variables);
// As pthread_atfork, of whichever libc.
void RegisterForkHandlers(void (*before)(), void (*after)(), void (*in_child)());

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_PROCESS_ATTACH_H_
