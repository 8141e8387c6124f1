// What waits to be sent, in the output folder of the programs: nothing is lost while the server is away, or when the pusher is
// killed and another one goes on.
//
//   OUT/.push/<server>/lock                     held by the one pusher of this folder and server; its pid
//   OUT/.push/<server>/server                   the server's URL; then, on lines of their own, its tenant and what became of it:
//                                               `refused` (its credentials were), `taken` (it took a profile)
//   OUT/.push/<server>/notes                    a SentNote: which entries are under way, which ones were taken
//   OUT/.push/<server>/000000000042.<process>.entry   a PushEntry (push_entry.h); of one series sent in the order of their numbers
//   … .still                                    the same of one that counts nothing: it says what is in use
//   OUT/.push/<server>/000000000042.request     what only says what is in use and is under way, from the request's first entry on
//   OUT/.push/<server>/<process>.told           a ToldProcess: what all entries of this process up to its `last_entry` hold
//   OUT/.push/<server>/done                     processes with nothing left to tell, a line each: <process> <pid> <program>
//   OUT/.push/<server>/aside/<program>.<pid>.<number>.<family>.pb.gz    what the server refused: `holdfast top` reads it
//
// What only says what is in use is kept in memory as long as the server takes it, and written down when it does not, and at the
// end. What is under way is on disk in any case: another pusher sends it again under the same id and time, so that the server
// knows the copy.
//
// Put, Put, Commit: an entry counts once the process's `told` names it. What comes after that was left by a pusher that was
// killed in between; it is removed, as the next increase holds it again.
//
// Files of entries that were sent are used again, under other names: where many have just been removed ext4 looks long for a
// number for a new one (0.6 ms; half of what a pusher of a thousand processes cost).
//
// Entries, what was set aside and the folder's profiles together take at most --max-disk: beyond it what was set aside goes
// first, then the oldest entries; both are counted.
// Any thread.
#ifndef HOLDFAST_REPORT_PUSH_SPOOL_H_
#define HOLDFAST_REPORT_PUSH_SPOOL_H_

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
#include "report/export/output_folder.h"
#include "report/push/push_entry.h"
#include "report/push/sent_note.h"
#include "report/push/told_process.h"

namespace holdfast {

class Spool {
 public:
  // FailedPrecondition: another pusher has it. Takes over what waits under another tenant of this server, if the server refused that
  // tenant and never took anything under its name.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const std::string& out, const std::string& server,
                                                     const std::string& tenant = "");
  ~Spool();

  const std::string& out() const { return out_; }
  const OutputFolder& profiles() const { return profiles_; }

  // What was told of this process, if anything was.
  std::optional<ToldProcess> ToldOf(const std::string& process);
  // What an earlier pusher told of processes of which nobody has asked by ToldOf, nor said that they are finished.
  std::vector<ToldProcess> Earlier() const;
  // Whether this pusher or an earlier one has told all of this process.
  bool IsDone(const std::string& process) const;
  // Files that are older were there when this list of processes was begun by an older release.
  int64_t done_since_ns() const { return done_since_ns_; }
  // The time of what an earlier pusher had under way of this process; 0: nothing.
  int64_t InDoubtSince(const std::string& process) const;

  // For the process whose entries are being written; one at a time.
  // `counts`: it must not be sent twice, and waits for Commit. What is in use now needs that not.
  absl::Status Put(const std::string& process, const PushEntry& entry, bool counts = true);
  absl::Status Commit(ToldProcess* told);
  void Abandon();  // instead of Commit
  // It has ended, and nothing more comes.
  void Finish(const ToldProcess& told);

  struct Waiting {
    uint64_t number = 0;
    std::string process;  // as in the name
    uint64_t bytes = 0;
    bool counts = true;
    std::string content = {};  // "": in a file
    bool under_way = false;
    int64_t put_ns = 0;  // when, by the clock that nobody sets; 0: by an earlier pusher
    // Of the entry, once it was read; 0: it was not.
    uint64_t series = 0;
    int64_t until_ns = 0;
    size_t profile_bytes = 0;  // unpacked
  };
  size_t waiting() const;

  // What may be sent next: the first of each series that has none under way. Looks at the oldest kMostLooked entries.
  struct Candidate {
    uint64_t number = 0, series = 0;
    int64_t until_ns = 0;
    size_t profile_bytes = 0;
  };
  static constexpr size_t kMostLooked = 4096;
  std::vector<Candidate> Candidates();
  // These are under way from now on. Those that can no longer be read are left out.
  using Outgoing = std::pair<Waiting, PushEntry>;
  std::vector<Outgoing> Begin(const std::vector<uint64_t>& numbers);
  // What became of entries that were under way.
  void Sent(const std::vector<uint64_t>& numbers);
  // They wait again. `not_taken`: the server says so, or was not reached.
  void Return(const std::vector<uint64_t>& numbers, bool not_taken);
  // Gives an entry another time.
  void Change(const Waiting& entry, const PushEntry& changed);
  void SetAside(const Waiting& entry, const PushEntry& content);
  // The server does not take them: what is in memory alone is written down, from now on at once.
  void WriteDown();
  // The server refused our credentials.
  void Refused();

  // Whether an earlier pusher was killed while it sent one, of which nobody knows whether it was taken: it is sent again.
  bool in_doubt() const { return in_doubt_; }
  // How many entries were taken over from a spool of another tenant.
  size_t taken_over() const { return taken_over_; }

  // Makes room; how many entries were dropped. 0 = no limit.
  uint64_t Shrink(uint64_t max_bytes);

 private:
  static constexpr uint64_t kMostInMemory = 4 << 20;
  static constexpr size_t kMostFreeFiles = 64;

  Spool(std::string out, OutputFolder profiles) : out_(std::move(out)), profiles_(std::move(profiles)) {}

  void ReadWhatIsThere();
  void ReadAside();
  void ReadDone(bool is_older_release);
  void NoteDone(const std::string& key, uint32_t pid, const std::string& program);
  void WriteServer();
  void TakeOverOthers(int all, const std::string& own);
  void TakeOver(int other);

  // `under`: another name, until it is whole. An old file of that name is written over, and `name` keeps none.
  absl::Status Write(const std::string& name, std::string_view bytes, const std::string& under);
  absl::Status WriteFreely(const std::string& name, std::string_view bytes);
  void RemoveFreely(const std::string& name);
  void Add(Waiting entry);
  bool WriteEntry(Waiting* entry);
  void WriteDownLocked();
  bool Load(Waiting* entry, PushEntry* content);
  void WriteRequest(const std::vector<Outgoing>& entries);
  void RemoveRequestOf(uint64_t number);
  void Remove(uint64_t number);  // the file; mutex_ is held
  void RemoveToldIfDone(const std::string& process);
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
  std::map<std::string, bool> finished_;        // of every process with a `told`
  std::set<std::string> earlier_;
  std::map<std::string, std::pair<uint32_t, std::string>> done_;  // pid and program, by process
  size_t done_lines_ = 0;                                         // since the list was last written anew
  std::map<std::string, int64_t> in_doubt_since_;
  std::map<uint64_t, std::set<uint64_t>> requests_;  // entries under way of each request file, by its name's number
  std::deque<std::pair<std::string, uint64_t>> set_aside_;
  std::vector<std::string> free_files_;
  uint64_t bytes_ = 0, in_memory_ = 0, next_number_ = 1, next_free_ = 0;
  bool write_all_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_SPOOL_H_
