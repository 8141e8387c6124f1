// Names the thread of a stack, if no label does, by the function that the thread was started with. These functions
// distinguish thread pools ("worker_libevent", "bioProcessBackgroundJobs", "main").
//
//   clone3 · start_thread · worker_libevent · …                                    worker_libevent
//   clone3 · start_thread · execute_native_thread_routine · std::… · Pool::Run() …  Pool::Run()
//   _start · __libc_start_main · __libc_start_call_main · main · …                  main
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_THREAD_START_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_THREAD_START_H_

#include <cstdint>
#include <span>
#include <string>

#include "report/profile/profile.h"

namespace holdfast {

// Returns the outermost frame that is not system code (frame_origin.h), or the innermost frame if all are. `frames`:
// locations, leaf first. A frame without a name is its object, [libfoo.so]; an empty stack is "(unknown)". Any thread.
std::string ThreadStartOf(const Profile& profile, std::span<const uint32_t> frames);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_THREAD_START_H_
