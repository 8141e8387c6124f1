// The profiles that a user names on the command line: files and folders, grouped by process and kind.
//
// All files of one process have the same `process` comment. Unless they are differences, each file holds all that
// earlier ones held, so adding them up would count everything several times. Readers therefore get one group per
// process and kind, oldest file first, and choose: the newest file (most views), all files in order (leaks, timelines),
// or the difference of two.
//
//   app.42.0001.heap.pb.gz ┐                        ┌ group (app, heap)   files 0001, 0002
//   app.42.0002.heap.pb.gz ├─► ReadProfileSet ──►   ├ group (app, block)  file 0002
//   app.42.0002.block.pb.gz│                        └ group (sh, heap)    file 0001
//   sh.57.0001.heap.pb.gz  ┘
//
// The state at the end of a process is of little use: destructors, main's locals and exit handlers have freed memory by
// then. The last files of a process in a folder are therefore left out if FreedAtExit says so. Files that the user
// names are never left out.
//
// Files without a `process` comment (from other tools) form one group per kind, with process "". Memory: depends on
// `keep`; with kNewest one profile per process. One thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_PROFILE_SET_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_PROFILE_SET_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/profile/profile.h"

namespace holdfast {

// When a profile was taken, from its comment `moment`.
enum class ProfileMoment : uint8_t { kNone, kBeforeHandlers, kAfterHandlers };
ProfileMoment ProfileMomentOf(const Profile& profile);

class Plumbing;

struct ProfileFile {
  std::string path;  // "-": standard input
  std::string kind;  // heap, mutex, block, map, threads, exceptions, peak; else the names of the value types
  bool kind_stated = false;
  bool from_folder = false;  // found in a folder that the user named
  std::string types;         // "alloc_objects/count alloc_space/bytes …"
  std::string process;       // identity; "" if the file does not state it
  std::string program;       // "redis-server (pid 42)"
  int64_t time_nanos = 0, duration_nanos = 0;
  // The same moment by a clock that starts with the process and never jumps. For intervals between files of one process.
  int64_t steady_nanos = 0;
  int64_t start_nanos = 0;  // when the process began; 0: the file does not say
  uint64_t sequence = 0;    // in <program>.<pid>.<sequence>.<kind>.pb.gz; 0: another kind of name
  ProfileMoment moment = ProfileMoment::kNone;
  int64_t in_use = 0;  // bytes, of heap, map, lifetimes and resident profiles; threads alive, of threads profiles
  int64_t freed_at_exit = 0;                   // time_nanos of the next file, which FreedAtExit left out; 0: none
  std::shared_ptr<Profile> profile;            // nullptr: not kept
  mutable std::shared_ptr<Plumbing> plumbing;  // of `profile`; nullptr: PlumbingOf was not called

  // Whether the file holds all that earlier files of its process held.
  bool cumulative() const { return duration_nanos == 0; }
  // Whether the file always counts, in addition to all others: a difference, or a file without a `process` comment. Of
  // other files, only the newest of each process counts.
  bool adds_up() const { return process.empty() || !cumulative(); }
};

// Whether the process freed memory at its end between two consecutive files: in exit handlers or, if the later file is
// from the end of the process, anywhere, provided that less than half is left.
bool FreedAtExit(const ProfileFile& before, const ProfileFile& last);

struct ProfileGroup {
  std::string process, kind, program;
  std::vector<ProfileFile> files;  // oldest first

  const ProfileFile& newest() const { return files.back(); }
  // Returns the newest cumulative file, which represents the process, or nullptr.
  const ProfileFile* NewestCumulative() const;
  // Whether the file counts in views that show one state.
  bool Counts(const ProfileFile& file) const { return file.adds_up() || &file == NewestCumulative(); }
};

struct ProfileSet {
  std::vector<ProfileGroup> groups;   // in the order of their first files
  std::vector<std::string> warnings;  // one line per unreadable file of a folder

  size_t files() const;
  // Returns each kind that exists once.
  std::vector<std::string> Kinds() const;
  void KeepKind(std::string_view kind);
};

enum class KeepProfiles {
  kNone,    // profiles are dropped; ReadPprofFile reads one again
  kNewest,  // the newest cumulative profile per process and kind, all differences, all without a `process`
  kAll,
};

struct ReadSetOptions {
  KeepProfiles keep = KeepProfiles::kNewest;
  bool after_exit = false;  // also include files that FreedAtExit leaves out
  std::string kind = "";    // only this kind; "": all. In folders, files of other kinds are not even opened
  // Called with each file before its profile may be dropped, and with the progress: files done, and files in all.
  // `newest`: the file is the newest of its process and kind so far.
  std::function<void(const ProfileFile&, bool newest)> each = {};
  std::function<void(size_t done, size_t all)> progress = {};
};

// Returns the pid if the argument names a process: "4242", if there is no such file.
std::optional<pid_t> AsProcess(const std::string& argument);

// Whether an argument is a folder or a process instead of one file.
bool NamesSeveralFiles(const std::string& argument);

// Takes a snapshot of a process now and returns all files of that process. A second call returns them without a new
// snapshot.
using FilesOfProcess = absl::StatusOr<std::vector<std::string>> (*)(pid_t pid);
// Sets the function that FindProfiles calls for processes. The tool calls this at its start.
void SetFilesOfProcess(FilesOfProcess files);

// Expands `arguments` to files: for a folder all *.pb.gz and *.pb directly in it, by name; for a
// process its snapshots up to now; "-" and files for themselves. A folder without such files is an error.
struct FoundFile {
  std::string path;
  bool from_folder = false;  // or of a process
};
absl::StatusOr<std::vector<FoundFile>> FindProfiles(const std::vector<std::string>& arguments,
                                                    std::string_view kind = "");

// Replaces each named file by the newest peak profile of its process in the same folder. Folders stay.
absl::StatusOr<std::vector<std::string>> PeakFilesFor(const std::vector<std::string>& arguments);

inline constexpr std::string_view kLifetimesKind = "lifetimes";
// The same for lifetimes profiles. If a folder has none, the error says how to get one.
absl::StatusOr<std::vector<std::string>> LifetimesFilesFor(const std::vector<std::string>& arguments);

inline constexpr std::string_view kResidentKind = "resident";
// The same for resident profiles.
absl::StatusOr<std::vector<std::string>> ResidentFilesFor(const std::vector<std::string>& arguments);

// A named file that cannot be read is an error. A file of a folder is a warning, because it may be deleted meanwhile.
absl::StatusOr<ProfileSet> ReadProfileSet(const std::vector<std::string>& arguments, const ReadSetOptions& options);

// Returns what a profile says about itself. Does not set `profile`.
ProfileFile DescribeFile(std::string_view path, const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_PROFILE_SET_H_
