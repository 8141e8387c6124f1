// How much of a profile's values is the program's own: of stacks in which some function is not plumbing.
//
// A C++ program that has freed everything still holds 72 KiB: libstdc++'s reserve for exceptions. That is nothing to look at.
#ifndef HOLDFAST_REPORT_ANALYSIS_OWNED_TOTAL_H_
#define HOLDFAST_REPORT_ANALYSIS_OWNED_TOTAL_H_

#include <cstddef>
#include <cstdint>

#include "report/pprof/profile.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

int64_t OwnedTotal(const Profile& profile, size_t metric, Plumbing* plumbing);

// Whether everything that the program itself allocated is freed: AllWasFreed (report/profiles/metric.h) of what it owns.
bool OwnedWasFreed(const Profile& heap, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_OWNED_TOTAL_H_
