// The folder that profiles are written to: names, whole files only, and how many are kept.
//
// `<program>.<pid>.<seq>.<kind>.pb.gz`, e.g. `redis-server.4242.0003.heap.pb.gz`. A file is written under a temporary
// name and renamed without replacing, so that a reader never sees half of one and no file is ever overwritten; `seq`
// goes on above the highest present, since in containers every run has pid 1.
// The folder is opened once: whatever happens to its path later, files go where they went before. Files are 0600: a
// command line in a profile may hold a secret.
//
// What lies in it is listed once; from then on the kernel tells what comes and goes (inotify), so that the work for one more
// file does not grow with the files that are there. Where it cannot tell, the folder is listed again each time.
#ifndef HOLDFAST_REPORT_EXPORT_OUTPUT_FOLDER_H_
#define HOLDFAST_REPORT_EXPORT_OUTPUT_FOLDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ProfileName {
  std::string program;  // as it stands in the file name, see ProgramForFileName
  uint32_t pid = 0;
  uint32_t seq = 0;
  std::string kind;

  std::string ToString() const;
};

// Nothing for names that are not ours, also for a temporary name.
std::optional<ProfileName> ParseProfileName(const std::string& name);
// The program's name with what has no place in a file name ('/', control bytes, a leading dot, '%') as %XX.
std::string ProgramForFileName(const std::string& program);

// Which of the snapshots taken at `times_ns` (ascending) to remove so that `keep` rules hold. keep: 0 = all,
// kKeepThinned = the newest 60, then one an hour, then one a day, 100 in all; else the newest so many.
std::vector<size_t> SnapshotsToRemove(const std::vector<int64_t>& times_ns, uint32_t keep);

class OutputFolder {
 public:
  // Makes the folder, and those above it, when missing, for this user alone; see folder_owner.h for whose it may be.
  static absl::StatusOr<OutputFolder> Open(const std::string& path);

  // One that hands each profile on to `place` and holds no file.
  using Place = std::function<absl::StatusOr<ProfileName>(const ProfileName&, const std::function<absl::Status(int)>&)>;
  static OutputFolder Into(Place place);

  const std::string& path() const { return path_; }
  // False of one that hands its profiles on.
  bool has_files() const { return folder_.valid(); }
  const FileDescriptor& folder() const { return folder_; }
  FolderId id() const;
  // What all profiles in the folder take together.
  uint64_t bytes() const { return Current().bytes; }
  // Whether somebody removed the folder: nothing can be written into it any more.
  bool IsRemoved() const;

  struct Entry {
    ProfileName name;
    uint64_t bytes = 0;
    int64_t modified_ns = 0;
    bool regular = true;  // a regular file: nothing else is ever read or removed
    bool own = true;      // this user's: what others put there may be hostile
  };
  // Everything that is named as a profile.
  std::vector<Entry> List() const;
  // What is named as a profile of this program and pid.
  std::vector<Entry> ListOf(const std::string& program, uint32_t pid) const;

  // Frees what is known of them, until it is asked for again.
  void ForgetListing() const { listing_.reset(); }

  // One above the highest seq of this program and pid.
  uint32_t NextSeq(const std::string& program, uint32_t pid) const;

  // Writes a file by `write(fd)` and gives it the name, or, if that is taken, the same with a higher seq; the name that
  // it got. On failure nothing is left behind.
  absl::StatusOr<ProfileName> Write(ProfileName name, const std::function<absl::Status(int)>& write) const;

  // Writes a file of ours once more, in the place of what it holds: a reader sees the old or the new one. Keeps its time.
  // NotFound: it is gone.
  absl::Status Replace(const ProfileName& name, const std::function<absl::Status(int)>& write) const;

  void Remove(const ProfileName& name) const;
  // By which the file can be opened, wherever the folder has gone since.
  std::string PathOf(const ProfileName& name) const;
  // Removes what writers that were killed left behind more than an hour ago.
  void RemoveStaleTemporaries() const;

  // Removes of `own`, the snapshots that may go, oldest first, until all profiles in the folder together take at most
  // `max_bytes`, or none is left. Nothing else is ever removed. 0 = no limit. Which were removed.
  std::vector<ProfileName> Shrink(uint64_t max_bytes, const std::vector<ProfileName>& own) const;

 private:
  using Process = std::pair<std::string, uint32_t>;  // program, pid
  struct Listing {
    std::map<std::string, Entry> by_name;  // of the file
    std::map<Process, std::set<std::string>> by_process;
    uint64_t bytes = 0;
    FileDescriptor changes;  // inotify; invalid: the listing holds only for now
  };

  template <typename Function>
  void ForEachName(Function function) const;
  // As the folder is now.
  Listing& Current() const;
  void Update(Listing* listing, const std::string& file) const;
  void Add(Listing* listing, const std::string& file) const;
  static void Forget(Listing* listing, const std::string& file);
  // The name of a file of its own in the folder; invalid: errno says why.
  FileDescriptor MakeTemporary(const std::string& temporary) const;
  std::string TemporaryFor(const ProfileName& name) const;

  std::string path_;
  FileDescriptor folder_;
  Place place_;
  uint32_t writer_ = 0;  // pid of who opened it: part of temporary names
  mutable std::unique_ptr<Listing> listing_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_OUTPUT_FOLDER_H_
