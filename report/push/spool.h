// What waits to be sent, in the output folder of the programs: nothing is lost while the server is away, or when the pusher is
// killed and another one goes on.
//
//   OUT/.push/<server>/lock                     held by the one pusher of this folder and server; its pid
//   OUT/.push/<server>/sent                     a SentNote: how far it has come
//   OUT/.push/<server>/000000000042.<process>.entry   a PushEntry (push_entry.h); sent in the order of their numbers
//   … .still                                    the same of one that counts nothing: it says what is in use
//   OUT/.push/<server>/<process>.told           a ToldProcess: what all entries of this process up to its `last_entry` hold
//   OUT/.push/<server>/aside/<program>.<pid>.<number>.<family>.pb.gz    what the server refused: `holdfast top` reads it
//
// What only says what is in use is kept in memory as long as the server takes it at once, and written down when it does not,
// and at the end: a pusher that is killed takes with it what it had not tried yet, and the next one says what is in use then.
//
// Put, Put, Commit: an entry counts once the process's `told` names it. What lies behind that was left by a pusher that was
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
  // `server`: what tells servers, and tenants of one, apart. FailedPrecondition: another pusher has it.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const std::string& out, const std::string& server);
  ~Spool();

  const std::string& out() const { return out_; }
  const OutputFolder& profiles() const { return profiles_; }

  // What was told of this process, if anything was.
  std::optional<ToldProcess> ToldOf(const std::string& process);
  // What an earlier pusher told of processes of which nobody has asked by ToldOf, nor said that they are finished.
  std::vector<ToldProcess> Earlier() const;

  // For the process whose entries are being written; one at a time.
  // `counts`: it must not be sent twice, and waits for Commit. What is in use now needs that not.
  absl::Status Put(const std::string& process, const PushEntry& entry, bool counts = true);
  absl::Status Commit(ToldProcess* told);
  void Abandon();  // instead of Commit
  // It has ended, and nothing more comes.
  void Finish(const std::string& process);

  struct Waiting {
    uint64_t number = 0;
    std::string process;  // as in the name
    uint64_t bytes = 0;
    bool counts = true;
    std::string content = {};  // of one that lies in no file
  };
  size_t waiting() const;
  // The first one, which is under way from now on.
  std::optional<std::pair<Waiting, PushEntry>> Front();
  void Sent(const Waiting& entry);
  // The server says that it has not taken the first one, or was not reached.
  void NotTaken() { note_->Begin(0); }
  // The server does not take them: what is in memory alone is written down, from now on at once.
  void WriteDown();
  // Whether an earlier pusher was killed while it sent one, of which nobody knows whether it was taken: it is sent again.
  bool in_doubt() const { return in_doubt_; }
  void SetAside(const Waiting& entry, const PushEntry& content);

  // Makes room; how many entries were dropped. 0 = no limit.
  uint64_t Shrink(uint64_t max_bytes);

 private:
  static constexpr uint64_t kMostInMemory = 4 << 20;
  static constexpr size_t kMostFreeFiles = 64;

  Spool(std::string out, OutputFolder profiles) : out_(std::move(out)), profiles_(std::move(profiles)) {}

  void ReadWhatIsThere();
  // `under`: another name, until it is whole. An old file of that name is written over, and `name` keeps none.
  absl::Status Write(const std::string& name, std::string_view bytes, const std::string& under);
  absl::Status WriteEntryFile(const Waiting& entry, std::string_view bytes);
  void RemoveEntryFile(const Waiting& entry);
  void Add(Waiting entry);
  bool WriteEntry(Waiting* entry);
  void WriteDownLocked();
  void Remove(const Waiting& entry);  // the file; mutex_ is held
  void RemoveToldIfDone(const std::string& process);
  void AbandonLocked();

  const std::string out_;
  const OutputFolder profiles_;
  FileDescriptor folder_, aside_, lock_;
  std::optional<SentNote> note_;
  bool in_doubt_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<Waiting> waiting_;
  std::vector<Waiting> uncommitted_;
  std::map<std::string, uint64_t> of_process_;  // how many wait
  std::map<std::string, bool> finished_;        // of every process with a `told`
  std::set<std::string> earlier_;
  std::deque<std::pair<std::string, uint64_t>> set_aside_;
  std::vector<std::string> free_files_;
  uint64_t bytes_ = 0, in_memory_ = 0, next_number_ = 1, next_free_ = 0;
  bool write_all_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_SPOOL_H_
