// The comments for people that say which process a profile is of and how samples were taken, made from its records:
//
//   kind: heap                                     heap, mutex, block, map, threads, exceptions, peak, lifetimes, resident
//   process: box/4026531836/4242/777/0000000000000abc
//   program, executable, command, pid, version, started (UTC), elapsed; forked from pid: only in forked children
//   interval: 524288 bytes                         (ns for locks) the newest; 0 = off
//   interval since 2023-11-14T22:13:20.000Z: 524288 bytes    one for each, once it was changed
#ifndef HOLDFAST_REPORT_PROFILE_PROCESS_COMMENTS_H_
#define HOLDFAST_REPORT_PROFILE_PROCESS_COMMENTS_H_

#include "report/profile/profile.h"

namespace holdfast {

void AddProcessComments(Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_PROCESS_COMMENTS_H_
