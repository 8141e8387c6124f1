// The entries that wait to be sent, in the output folder of the programs. Nothing is lost while the server is
// unreachable, or when the pusher is killed and another one continues.
//
//   OUT/.push/<server>/lock                     held by the only pusher of this folder and server; contains its pid
//   OUT/.push/<server>/server                   the server's URL; then, on lines of their own, its tenant and its state:
//                                               `refused` (our credentials), `taken` (it accepted a profile)
//   OUT/.push/<server>/notes                    a SentNote: which entries are under way, and which were accepted
//   OUT/.push/<server>/000000000042.<process>.entry   a PushEntry (push_entry.h); sent in numeric order within a series
//   … .still                                    the same without counters: it only says what is in use
//   OUT/.push/<server>/000000000042.request     entries without counters that are under way; named after the first one
//   OUT/.push/<server>/<process>.told           a ReportedProcess: the sum of this process's entries up to its `last_entry`
//   OUT/.push/<server>/done                     completely reported processes, a line each: <process> <pid> <program>
//   OUT/.push/<server>/aside/<program>.<pid>.<number>.<family>.pb.gz    what the server rejected: `holdfast top` reads it
//
// Entries without counters stay in memory while the server accepts them. They are written to disk when it does not, and
// at the end. Entries under way are always on disk: another pusher sends them again with the same id and time, so that
// the server recognizes the copy.
//
// Put, Put, Commit: an entry counts once the process's `reported` includes it. Later entries come from a pusher that was
// killed in between; they are deleted, because the next increase contains them again.
//
// Files of sent entries are reused under new names: after many deletions, ext4 searches long for a free inode (0.6 ms;
// half of the cost of a pusher for a thousand processes).
//
// Entries, profiles set aside and the profiles of the folder together take at most --max-disk. Above it, profiles set
// aside are deleted first, then the oldest entries; both are counted. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_SPOOL_H_
#define HOLDFAST_REPORT_FLEET_PUSH_SPOOL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/builder/output_folder.h"
#include "report/fleet/push/push_entry.h"
#include "report/fleet/push/reported_process.h"
#include "report/fleet/push/sent_note.h"

namespace holdfast {

class Spool {
 public:
  // Returns FailedPrecondition if another pusher holds the spool. Takes over the entries of another tenant of this
  // server if the server refused that tenant and never accepted anything from it.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const std::string& out, const std::string& server,
                                                     const std::string& tenant = "");
  ~Spool();

  const std::string& out() const { return out_; }
  const OutputFolder& profiles() const { return profiles_; }

  // Returns what was reported about this process, if anything.
  std::optional<ReportedProcess> ReportedOf(const std::string& process);
  // Returns what an earlier pusher reported about processes for which neither ReportedOf nor Finish was called.
  std::vector<ReportedProcess> Earlier() const;
  // Whether this or an earlier pusher has reported all of this process.
  bool IsDone(const std::string& process) const;
  // Older files existed before the list of processes began, as an older release had no list.
  int64_t done_since_ns() const { return done_since_ns_; }
  // Returns the time of this process's entry that an earlier pusher had under way; 0: none.
  int64_t InDoubtSince(const std::string& process) const;

  // Writes an entry of a process. Only one process at a time may have entries between Put and Commit. `counts`: the entry
  // has counters, must not be sent twice, and waits for Commit. An entry with only memory in use does not.
  absl::Status Put(const std::string& process, const PushEntry& entry, bool counts = true);
  absl::Status Commit(ReportedProcess* reported);
  void Abandon();  // instead of Commit
  // The process has exited, and nothing more comes.
  void Finish(const ReportedProcess& reported);

  struct Waiting {
    uint64_t number = 0;
    std::string process;  // as in the file name
    uint64_t bytes = 0;
    bool counts = true;
    std::string content = {};  // "": in a file
    bool under_way = false;
    int64_t put_ns = 0;  // monotonic clock; 0: by an earlier pusher
    // Set once the entry was read; 0: not read.
    uint64_t series = 0;
    int64_t until_ns = 0;
    size_t profile_bytes = 0;  // uncompressed
  };
  size_t waiting() const;

  // Returns what may be sent next: the first entry of each series that has none under way, or all of them if `several`.
  // Examines the oldest kMaxVisits entries.
  struct Candidate {
    uint64_t number = 0, series = 0;
    int64_t until_ns = 0;
    size_t profile_bytes = 0;
  };
  static constexpr size_t kMaxVisits = 4096;
  std::vector<Candidate> Candidates(bool several = false);
  // Marks entries as under way. Omits entries that can no longer be read.
  using Outgoing = std::pair<Waiting, PushEntry>;
  std::vector<Outgoing> Begin(const std::vector<uint64_t>& numbers);
  // Returns the series and times of the entries that an earlier pusher had under way.
  std::vector<std::pair<uint64_t, int64_t>> TimesInDoubt();
  // The server accepted these entries.
  void Sent(const std::vector<uint64_t>& numbers);
  // Puts entries back. `not_taken`: the server rejected them or was not reached.
  void Return(const std::vector<uint64_t>& numbers, bool not_taken);
  // Gives an entry another time.
  void Change(const Waiting& entry, const PushEntry& changed);
  void SetAside(const Waiting& entry, const PushEntry& content);
  // The server does not accept entries: writes those in memory to disk, and all further ones at once.
  void WriteDown();
  // The server rejected our credentials.
  void Refused();

  // Whether an earlier pusher was killed while it sent an entry. The server may have accepted it; it is sent again.
  bool in_doubt() const { return in_doubt_; }
  // How many entries were taken over from the spool of another tenant.
  size_t taken_over() const { return taken_over_; }

  // Deletes until the limit is met, and returns how many entries were dropped. 0 = no limit.
  uint64_t Shrink(uint64_t max_bytes);

 private:
  static constexpr uint64_t kMaxInMemory = 4 << 20;
  static constexpr size_t kMaxFreeFiles = 64;

  Spool(std::string out, OutputFolder profiles) : out_(std::move(out)), profiles_(std::move(profiles)) {}

  void ReadExisting();
  void ReadAside();
  void ReadDone(bool is_older_release);
  void NoteDone(const std::string& key, uint32_t pid, const std::string& program);
  void WriteServer();
  void TakeOverOthers(int all, const std::string& own);
  void TakeOver(int other);

  // `under`: a temporary name until the file is complete. Overwrites an old file of that name, and replaces `name`.
  absl::Status Write(const std::string& name, std::string_view bytes, const std::string& under);
  absl::Status WriteFreely(const std::string& name, std::string_view bytes);
  void RemoveFreely(const std::string& name);
  void Add(Waiting entry);
  bool WriteEntry(Waiting* entry);
  void WriteDownLocked();
  bool Load(Waiting* entry, PushEntry* content);
  void WriteRequest(const std::vector<Outgoing>& entries);
  void RemoveRequestOf(uint64_t number);
  void Remove(uint64_t number);  // deletes the file; requires mutex_
  void RemoveReportedIfDone(const std::string& process);
  void AbandonLocked();

  const std::string out_;
  const OutputFolder profiles_;
  FileDescriptor folder_, aside_, lock_;
  std::optional<SentNote> note_;
  std::string url_, tenant_;
  bool in_doubt_ = false, refused_ = false, taken_ = false;
  size_t taken_over_ = 0;
  int64_t done_since_ns_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::map<uint64_t, Waiting> waiting_;
  std::vector<Waiting> uncommitted_;
  std::map<std::string, uint64_t> of_process_;  // how many wait
  std::map<std::string, bool> finished_;        // for every process with a `reported`
  std::set<std::string> earlier_;
  std::map<std::string, std::pair<uint32_t, std::string>> done_;  // pid and program, by process
  size_t done_lines_ = 0;                                         // since the list was last rewritten
  std::map<std::string, int64_t> in_doubt_since_;
  std::map<uint64_t, std::set<uint64_t>> requests_;  // entries under way per request file, by the number in its name
  std::deque<std::pair<std::string, uint64_t>> set_aside_;
  std::vector<std::string> free_files_;
  uint64_t bytes_ = 0, in_memory_ = 0, next_number_ = 1, next_free_ = 0;
  bool write_all_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_SPOOL_H_
