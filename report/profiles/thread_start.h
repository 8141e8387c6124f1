// Which thread a stack is of, where no label says it: named by the function that the thread was started with, which is
// what tells pools of threads apart ("worker_libevent", "bioProcessBackgroundJobs", "main").
//
//   clone3 · start_thread · worker_libevent · …                                    worker_libevent
//   clone3 · start_thread · execute_native_thread_routine · std::… · Pool::Run() …  Pool::Run()
//   _start · __libc_start_main · __libc_start_call_main · main · …                  main
#ifndef HOLDFAST_REPORT_PROFILES_THREAD_START_H_
#define HOLDFAST_REPORT_PROFILES_THREAD_START_H_

#include <cstdint>
#include <span>
#include <string>

#include "report/pprof/profile.h"

namespace holdfast {

// The outermost frame that is not the system's (frame_origin.h); where all are, the innermost. `frames`: locations, leaf
// first. A frame without a name is its object, [libfoo.so]; no frames: "(unknown)". Any thread.
std::string ThreadStartOf(const Profile& profile, std::span<const uint32_t> frames);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_THREAD_START_H_
