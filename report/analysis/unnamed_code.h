// Computes how much of a profile is in unnamed code: a stripped program, or a library with inner functions that only
// its debug file names.
//
// A sample counts for an object if its owner (plumbing.h) is unnamed there. It also counts if at least half of its
// non-plumbing frames are unnamed; then the object with most of them gets it. Single unnamed frames, as in libc, do not
// matter. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_UNNAMED_CODE_H_
#define HOLDFAST_REPORT_ANALYSIS_UNNAMED_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"

namespace holdfast {

struct UnnamedCode {
  struct Object {
    std::string path, build_id;
    double share = 0;         // of the total, 0 … 1
    std::string called = {};  // the name that people use; for the main program, as it was started
    std::string unread = {};  // its unreadable debug information, and the reason; "": none
  };
  double share = 0;             // of the total, all objects together
  std::vector<Object> objects;  // largest first; empty if too little is unnamed

  // Share of code generated at run time and of scripts: only a perf map has their names. `how_to_map`: how to make the
  // runtime write one; "" if the share is too small.
  double without_map = 0;
  std::string how_to_map = {};

  // The smallest share that is reported.
  static constexpr double kMinShare = 0.2;
};

// For the column `metric`. `plumbing` must belong to `profile`.
UnnamedCode UnnamedCodeOf(const Profile& profile, size_t metric, Plumbing* plumbing);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_UNNAMED_CODE_H_
