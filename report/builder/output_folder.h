// The folder in which profiles are written: names, complete files, and how many are kept.
//
// `<program>.<pid>.<seq>.<kind>.pb.gz`, e.g. `redis-server.4242.0003.heap.pb.gz`. A file is written under a temporary
// name and renamed without replacing, so that a reader never sees a partial file and no file is overwritten. `seq`
// continues above the highest existing one, because in containers every run has pid 1. The folder is opened once: files
// go to the same folder, whatever happens to its path later. Files have mode 0600, because a command line in a profile
// may contain a secret.
//
// The folder is listed once. Then the kernel reports changes (inotify), so that the work for another file does not grow
// with the number of files. Without inotify the folder is listed each time. The listing takes about 50 bytes for each file
// (a test measures it): a server that forks for each request has 260,000 of them in 1 GiB.
#ifndef HOLDFAST_REPORT_BUILDER_OUTPUT_FOLDER_H_
#define HOLDFAST_REPORT_BUILDER_OUTPUT_FOLDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ProfileName {
  std::string program;  // as in the file name, see ProgramForFileName
  uint32_t pid = 0;
  uint32_t seq = 0;
  std::string kind;

  std::string ToString() const;
};

// Returns nothing for names of other files, including temporary names.
std::optional<ProfileName> ParseProfileName(const std::string& name);
// Returns the program's name with characters that are invalid in a file name ('/', control characters, a leading dot,
// '%') as %XX.
std::string ProgramForFileName(const std::string& program);
// The inverse: the name for people. It may have control characters (Printable).
std::string ProgramOfFileName(const std::string& name);

// Returns which of the snapshots taken at `times_ns` (ascending) must be removed. keep: 0 = all; kKeepThinned = the
// newest 60, then one an hour, then one a day, 100 in total; otherwise the newest `keep`.
std::vector<size_t> SnapshotsToRemove(const std::vector<int64_t>& times_ns, uint32_t keep);

class OutputFolder {
 public:
  // Makes the folder and its missing parents, for this user only. folder_owner.h says who may own it.
  static absl::StatusOr<OutputFolder> Open(const std::string& path);

  // Returns a folder that passes each profile to `place` and has no files.
  using Place = std::function<absl::StatusOr<ProfileName>(const ProfileName&, const std::function<absl::Status(int)>&)>;
  static OutputFolder Into(Place place);

  const std::string& path() const { return path_; }
  // False for a folder that passes profiles on.
  bool has_files() const { return folder_.valid(); }
  const FileDescriptor& folder() const { return folder_; }
  FolderId id() const;
  // What all profiles in the folder take on a disk with blocks of kDiskBlock.
  uint64_t bytes() const { return Current().blocks * kDiskBlock; }
  // Returns whether the folder was removed: no file can be written any more.
  bool IsRemoved() const;

  static constexpr uint64_t kDiskBlock = 4096;  // of ext4 and xfs, unless they are made otherwise

  struct Entry {
    ProfileName name;
    uint64_t bytes = 0;  // its size, rounded up to whole blocks
    int64_t modified_ns = 0;
    bool regular = true;  // a regular file: no other kind is read or removed
    bool own = true;      // owned by this user: files of others are untrusted
  };
  // Lists all files with names of profiles.
  std::vector<Entry> List() const;
  // Lists the profiles of this program and pid, by name.
  std::vector<Entry> ListOf(const std::string& program, uint32_t pid) const;

  // Removes the names of files that no longer exist from `names`.
  void DropGone(std::deque<ProfileName>* names) const {
    Listing& now = Current();
    std::erase_if(*names, [&now](const ProfileName& name) { return !Find(&now, name).has_value(); });
  }

  // Frees the memory of the listing until it is needed again.
  void ForgetListing() const { listing_.reset(); }

  // Returns one more than the highest seq of this program and pid.
  uint32_t NextSeq(const std::string& program, uint32_t pid) const;

  // Writes a file with `write(fd)` and gives it the name, or if that is taken the same name with a higher seq. Returns
  // the name used. On failure no file remains.
  absl::StatusOr<ProfileName> Write(ProfileName name, const std::function<absl::Status(int)>& write) const;

  // Rewrites one of our files: a reader sees either the old or the new contents. Keeps the modification time. NotFound:
  // the file no longer exists.
  absl::Status Replace(const ProfileName& name, const std::function<absl::Status(int)>& write) const;

  void Remove(const ProfileName& name) const;
  // Returns a path to the file that stays valid if the folder is moved.
  std::string PathOf(const ProfileName& name) const;
  // Removes temporary files older than an hour, which killed writers left.
  void RemoveStaleTemporaries() const;

  // Removes snapshots from `own`, oldest first, until all profiles in the folder together take at most `max_bytes`, or
  // none is left. Never removes other files. 0 = no limit. Returns the removed names.
  std::vector<ProfileName> Shrink(uint64_t max_bytes, const std::vector<ProfileName>& own) const;

 private:
  // A file of one program. Ordered by pid, seq and kind.
  struct File {
    uint32_t pid = 0, seq = 0, kind = 0;  // kind: an index of Listing::kinds
    uint32_t blocks = 0;                  // of kDiskBlock; saturates
    int64_t modified_ns = 0;
    bool regular = false, own = false;

    bool operator<(const File& other) const {
      return std::tie(pid, seq, kind) < std::tie(other.pid, other.seq, other.kind);
    }
  };
  using Files = absl::btree_set<File>;
  struct Listing {
    std::map<std::string, Files> by_program;
    std::vector<std::string> kinds;  // each that a file has had
    uint64_t blocks = 0;
    FileDescriptor changes;  // inotify; invalid: relist the folder each time

    uint32_t KindNumber(const std::string& kind);
    Entry Unpack(const std::string& program, const File& file) const;
  };

  // Returns the folder's current listing.
  Listing& Current() const;
  // Adds a file, or what has changed of it, or removes it from the listing if it no longer exists.
  void Update(Listing* listing, const std::string& file) const;
  static void Forget(Listing* listing, const ProfileName& name);
  static std::optional<File> Find(Listing* listing, const ProfileName& name);
  // Creates a file with this name in the folder; invalid: errno has the error.
  FileDescriptor MakeTemporary(const std::string& temporary) const;
  std::string TemporaryFor(const ProfileName& name) const;

  std::string path_;
  FileDescriptor folder_;
  Place place_;
  uint32_t writer_ = 0;  // the writer's pid, a part of temporary names
  mutable std::unique_ptr<Listing> listing_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_OUTPUT_FOLDER_H_
