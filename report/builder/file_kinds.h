// The kinds of files, each in one row of a table: its name, when it is written, what is in it, and which files are kept.
//
//     for (const FileKind& kind : kFileKinds) if (kind.is_wanted(state)) Profile profile = kind.build(state);
#ifndef HOLDFAST_REPORT_BUILDER_FILE_KINDS_H_
#define HOLDFAST_REPORT_BUILDER_FILE_KINDS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "report/observe/process_state.h"
#include "report/profile/profile.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct FileKind {
  const char* name;  // in file names and in the record `process`
  ProfileKind rows;  // the rows of the table that it is made of
  uint32_t needs;    // one of these kinds must be recorded
  // The contents of its comments and records, besides identity, totals and losses.
  enum Contents : uint8_t { kCounts = 1, kPeak = 2, kAges = 4, kPages = 8, kHeapOnly = 16 };
  uint8_t contents = kCounts;
  bool shows_growth = false;  // two equal files far apart are evidence that nothing grew
  bool keeps_newest = false;  // a new file replaces the previous one
  bool is_shared = true;      // also written for short processes that share a file
  bool is_lean = false;       // written even if little memory is left
  bool has_account = false;   // contains the account of resident memory
  bool (*is_wanted)(const ProcessState&) = [](const ProcessState&) { return true; };
  // Equal if nothing changed since the last file; 0, as for a missing kind, if there was never anything.
  uint64_t (*fingerprint)(const ProcessState&);
  Profile (*build)(const ProcessState&);
};

// First those of ProfileKind, then three more from the heap: its state at an earlier moment, the ages of its blocks, and
// their resident bytes. The last one is made from looks at threads, and has no rows in the table.
inline constexpr int kFileKindCount = kProfileKinds + 4, kHeapFile = 0, kPeakFile = kProfileKinds,
                     kLifetimesFile = kProfileKinds + 1, kResidentFile = kProfileKinds + 2,
                     kWallFile = kProfileKinds + 3;
extern const FileKind kFileKinds[kFileKindCount];

// Returns the index into kFileKinds; nothing if no kind has this name.
std::optional<int> FileKindNamed(std::string_view name);

// For a process that ends this soon, with nearly everything in use that it had at its peak, the heap profile is enough:
// a build has thousands of them.
inline constexpr int64_t kShortLife = 1'000'000'000;

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_FILE_KINDS_H_
