// The kind `holders`: what keeps memory alive, as a profile that every view and every pprof tool shows as a tree or a
// flame graph.
//
//   sample types   held_objects/count, held_space/bytes
//   stacks         a path in the tree of holders, the holder outermost: session_map (server) → Session::Log: Entry → …
//   values         the blocks' own; total of a row: what it retains
#ifndef HOLDFAST_REPORT_SHOW_HOLDERS_PROFILE_H_
#define HOLDFAST_REPORT_SHOW_HOLDERS_PROFILE_H_

#include "report/holders/holder_scan.h"
#include "report/profile/profile.h"

namespace holdfast {

inline constexpr char kHoldersKind[] = "holders";

// `all`: from BuildHolderTree. The caller sets which process it is of.
Profile HoldersProfile(const HolderNode& all);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_HOLDERS_PROFILE_H_
