// Profiles as the commands are given them: files and folders, sorted into processes and kinds.
//
// All files of one process say the same `process` comment and, unless they are differences, each holds all that the
// earlier ones held: adding them up would count everything several times. So a reader gets groups, one for each process
// and kind, the oldest file first, and decides: the newest (most views), all in their order (leaks, timelines), or the
// difference of two.
//
//   app.42.0001.heap.pb.gz ┐                        ┌ group (app, heap)   files 0001, 0002
//   app.42.0002.heap.pb.gz ├─► ReadProfileSet ──►   ├ group (app, block)  file 0002
//   app.42.0002.block.pb.gz│                        └ group (sh, heap)    file 0001
//   sh.57.0001.heap.pb.gz  ┘
//
// The state at the end of a process says little: destructors, main's locals and exit handlers have freed memory by then. So the last
// files of a process in a folder are left out where FreedAtExit says so. Files that are named are never left out.
//
// Files that do not say whose they are (written by others) make one group for each kind, with process "".
// Memory: what `keep` says; with kNewest one profile for each process. One thread.
#ifndef HOLDFAST_REPORT_PROFILES_PROFILE_SET_H_
#define HOLDFAST_REPORT_PROFILES_PROFILE_SET_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/pprof/profile.h"

namespace holdfast {

// When a profile was taken, by its comment `moment`.
enum class ProfileMoment : uint8_t { kNone, kBeforeHandlers, kAfterHandlers };
ProfileMoment ProfileMomentOf(const Profile& profile);

struct ProfileFile {
  std::string path;  // "-": standard input
  std::string kind;  // heap, mutex, block, map, threads, exceptions, peak; else the names of the value types
  bool kind_stated = false;
  bool from_folder = false;  // found in one that was given, not given by name
  std::string types;         // "alloc_objects/count alloc_space/bytes …"
  std::string process;       // identity, "" when the file does not say
  std::string program;       // "redis-server (pid 42)"
  int64_t time_nanos = 0, duration_nanos = 0;
  uint64_t sequence = 0;  // in <program>.<pid>.<sequence>.<kind>.pb.gz; 0: not named so
  ProfileMoment moment = ProfileMoment::kNone;
  int64_t in_use = 0;         // bytes in use, of heap, map, lifetimes and resident profiles
  int64_t freed_at_exit = 0;  // time_nanos of the first file after it that was left out, see FreedAtExit; 0: none was
  std::shared_ptr<Profile> profile;  // nullptr when it was not kept

  // Holds all that earlier files of its process held.
  bool cumulative() const { return duration_nanos == 0; }
  // Whether it always counts, beside all others: a difference, or a file that does not say whose it is. Of the others the
  // newest of each process counts.
  bool adds_up() const { return process.empty() || !cumulative(); }
};

// Whether memory was freed at the end of the process between these two files of it, one after the other: by exit handlers, or, where the
// later one is from the end of the process, by anybody, if less than half is left.
bool FreedAtExit(const ProfileFile& before, const ProfileFile& last);

struct ProfileGroup {
  std::string process, kind, program;
  std::vector<ProfileFile> files;  // oldest first

  const ProfileFile& newest() const { return files.back(); }
  // The file that stands for the process: the newest that is cumulative, or nullptr.
  const ProfileFile* NewestCumulative() const;
  // Whether the file counts where one state is shown.
  bool Counts(const ProfileFile& file) const { return file.adds_up() || &file == NewestCumulative(); }
};

struct ProfileSet {
  std::vector<ProfileGroup> groups;   // in the order in which their first files were given
  std::vector<std::string> warnings;  // one line each: files of a folder that could not be read

  size_t files() const;
  // The kinds that there are, each once.
  std::vector<std::string> Kinds() const;
  void KeepKind(std::string_view kind);
};

enum class KeepProfiles {
  kNone,    // profiles are dropped; ReadPprofFile reads one again
  kNewest,  // of each process and kind the newest cumulative one, all differences, all that do not say whose they are
  kAll,
};

struct ReadSetOptions {
  KeepProfiles keep = KeepProfiles::kNewest;
  bool after_exit = false;  // also the files that FreedAtExit leaves out
  std::string kind = "";    // only this one; "": all. In folders, files of other kinds are not even opened
  // Called with each file before its profile may be dropped, and with how many are done of how many. `newest`: of those
  // of its process and kind that were read so far.
  std::function<void(const ProfileFile&, bool newest)> each = {};
  std::function<void(size_t done, size_t all)> progress = {};
};

// A process in the place of a file: "4242" where no such file is. Nothing: another argument.
std::optional<pid_t> AsProcess(const std::string& argument);

// Whether an argument is a folder or a process, and not one file.
bool StandsForSeveral(const std::string& argument);

// Takes a snapshot of a process now and names all files of that process. Called again, names them without a new snapshot.
using FilesOfProcess = absl::StatusOr<std::vector<std::string>> (*)(pid_t pid);
// By what FindProfiles answers for a process: the tool sets it at its start.
void SetFilesOfProcess(FilesOfProcess files);

// The files behind `arguments`: a folder stands for all *.pb.gz and *.pb directly in it, by name; a process for its
// snapshots, up to now; "-" and files for themselves. An error when a folder holds none.
struct FoundFile {
  std::string path;
  bool from_folder = false;  // or of a process
};
absl::StatusOr<std::vector<FoundFile>> FindProfiles(const std::vector<std::string>& arguments,
                                                    std::string_view kind = "");

// In the place of each file that is named the newest peak profile of its process, from the same folder; folders stay.
absl::StatusOr<std::vector<std::string>> PeakFilesFor(const std::vector<std::string>& arguments);

inline constexpr std::string_view kLifetimesKind = "lifetimes";
// The same for lifetimes profiles. Also says, where a folder has none, how to get one.
absl::StatusOr<std::vector<std::string>> LifetimesFilesFor(const std::vector<std::string>& arguments);

inline constexpr std::string_view kResidentKind = "resident";
// The same for resident profiles.
absl::StatusOr<std::vector<std::string>> ResidentFilesFor(const std::vector<std::string>& arguments);

// A named file that cannot be read is an error; one of a folder is a warning (it may be removed while we look).
absl::StatusOr<ProfileSet> ReadProfileSet(const std::vector<std::string>& arguments, const ReadSetOptions& options);

// What a profile says about itself; `profile` is not set.
ProfileFile DescribeFile(std::string_view path, const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_PROFILE_SET_H_
