// How much of a profile lies in code that nothing named: of a program that was stripped, of a library whose inner functions
// only its debug file knows.
//
// A sample counts for an object when the function that it belongs to (plumbing.h) has no name there, or when at least half
// of what is not plumbing in its stack has none: then most of that is the object's. A nameless frame here and there, as in
// libc, is no loss. Any thread.
#ifndef HOLDFAST_REPORT_MISSING_NAMES_UNNAMED_CODE_H_
#define HOLDFAST_REPORT_MISSING_NAMES_UNNAMED_CODE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/pprof/profile.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

struct UnnamedCode {
  struct Object {
    std::string path, build_id;
    double share = 0;         // of the total, 0 … 1
    std::string called = {};  // as people call it: of the main program as it was started
    std::string unread = {};  // its debug information that could not be read, and why; "": none
  };
  double share = 0;             // of the total, of all objects together
  std::vector<Object> objects;  // the largest first; none where too little is nameless to speak of it

  // Code that a compiler makes at run time, and scripts: only a map of perf has their names. How the runtime is made to write one,
  // "" for too little of it.
  double without_map = 0;
  std::string how_to_map = {};

  // From here on it is said.
  static constexpr double kLeastShare = 0.2;
};

// Of the column `metric`. `whose` is of `profile`.
UnnamedCode UnnamedCodeOf(const Profile& profile, size_t metric, Plumbing* whose);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MISSING_NAMES_UNNAMED_CODE_H_
