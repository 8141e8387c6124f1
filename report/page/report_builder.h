// The data of an HTML report: profiles of any number of processes, kinds and snapshots as one compact binary. The page
// reads it into typed arrays (report/page/web/src/core/data.ts). Both call the format "HFR1".
//
//   "HFR1", u32 length, JSON      everything small: processes, snapshots, metrics, totals, labels; lengths of sections
//   strings                       varint lengths in UTF-16 units (so that one decoded text can be cut), then UTF-8;
//                                 string i is the name of function i, sorted; names of files and packages follow
//   functions, frames             columns of varints. A function: file, first line, object, package, origin; a frame: function,
//                                 line, object, whether it is plumbing, system code, inlined; sorted by these.
//                                 report/analysis/profiles/frame_origin.h defines system code and packages, plumbing.h plumbing,
//                                 short_name.h the displayed names
//   tree                          all stacks as one tree in preorder, root first: levels to climb, frame
//   for each series               rows (node, set of labels, rank of the wait); then for each snapshot and metric one column of
//                                 values: differences to the snapshot before, zigzag varints, runs of zeros as 0 and a length
//
// Uses the same steps as every view: ProfileSet decides which files belong together, which is the newest and which
// always add up; FilteredStacks defines stacks (without frames that the profile itself drops). Only adding up is left
// to the page, where a reader chooses moments, processes and labels. A series is one process and kind, with its
// snapshots from the oldest to the newest; each file that always adds up is a series of its own. Functions are
// identified by name, so that the page shows the same numbers as `holdfast top`.
//
// 1,000,000 nodes take about 2 s and 300 MB. Browsers lose the last digits of values above 2^53. One thread at a time.
#ifndef HOLDFAST_REPORT_PAGE_REPORT_BUILDER_H_
#define HOLDFAST_REPORT_PAGE_REPORT_BUILDER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "report/analysis/growth/growth_answer.h"
#include "report/analysis/locks/wait_rank.h"
#include "report/analysis/opening.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/observe/memory/account_text.h"
#include "report/page/html_source.h"
#include "report/profile/object_names.h"
#include "report/profile/profile.h"
#include "report/profile/typed_records.h"

namespace holdfast {

class ReportBuilder {
 public:
  // `plumbing`: additional patterns for plumbing; must be valid. `arguments`: the profiles as the user named them.
  // `across_builds`: two builds are compared, so functions get names that both builds share (function_identity.h).
  explicit ReportBuilder(std::vector<std::string> plumbing = {}, std::vector<std::string> arguments = {},
                         bool across_builds = false);

  // `is_base`: the side to compare with. `newest`: the newest of its process and kind so far. Returns false if the same
  // snapshot was already added.
  bool Add(const ProfileFile& file, bool is_base, bool newest);

  // Sets who waits now, as StuckJson (report/analysis/locks/stuck.h) formats it. For the page of a running program.
  void SetWaiting(std::string json) { waiting_ = std::move(json); }

  // Sorts the snapshots of one side as in the set from which they were read. Returns the files that are the newest of
  // their series: TakeDetails needs them again.
  std::vector<std::string> Arrange(const ProfileSet& set, bool is_base);
  void TakeDetails(const ProfileFile& file, bool is_base);
  // Marks the series of processes that ended before the others, of one side: what they held is not in the sum (live_processes.h).
  void MarkEnded(const ProfileSet& set, bool is_base);

  // Adds source lines around those that frames name, if the files can be read here.
  void AddSources(size_t max_bytes);

  // A growing stack that `holdfast leaks` finds in the snapshots of one process (report/page/html_leaks.h). Slopes are
  // per hour.
  struct GrowingStack {
    std::vector<std::string> frames = {};  // functions, leaf first
    std::vector<uint32_t> functions = {};  // the same, set by AddGrowths
    std::string text = "";                 // "a ← b ← …": enough to distinguish it from the others
    Growth bytes, objects;
    int64_t bytes_now = 0, objects_now = 0;
    int64_t half_age_ns = -1, oldest_age_ns = -1;  // of what is in use; −1: unknown
    std::vector<int64_t> course = {};              // bytes in use over the snapshots, thinned
  };
  struct Growths {
    std::string process, kind = "heap";
    size_t snapshots = 0;
    bool by_births = false;  // the ages of live blocks are the course (ProcessSeries)
    double hours = 0;
    Growth total;
    int64_t total_now = 0;
    GrowthAnswer answer = {};
    std::vector<uint32_t> largest = {};    // answer.largest, set by AddGrowths
    std::vector<std::string> memory = {};  // what all resident memory did, in words
    size_t growing = 0;                    // number of growing stacks, including those not in `stacks`
    std::vector<GrowingStack> stacks = {};
  };
  void AddGrowths(Growths growths);

  // Returns the binary, not compressed. Call once, last.
  std::string Encode();

  // Returns "redis-server (pid 4242)" or "redis-server and 2 more": the title of the page.
  std::string Title() const;
  size_t node_count() const { return parents_.size(); }

  // Whether both sides have a common value type; true without a base.
  bool CanCompare() const;

  // Returns the newest file of each series, without the base: the files that a page offers for download.
  std::vector<std::string> NewestFiles() const;

 private:
  struct Frame {
    uint32_t function = 0, object = 0;  // object 0: unknown; i: objects_[i − 1]
    int64_t line = 0;
    bool is_inlined = false;
    auto Key() const { return std::tuple(function, line, object, is_inlined); }
  };
  struct Function {
    std::string name, file;
    int64_t start_line = 0;
    bool nameless = false;  // the name is that of its object: [libfoo.so]
    bool plumbing = false;
  };
  struct Snapshot {
    std::string file;
    int64_t time_nanos = 0;
    std::vector<std::optional<double>> half_widths;
    std::optional<int64_t> resident_bytes;
    std::vector<AccountLine> account;           // of all resident memory; empty: not in the file
    std::vector<std::vector<int64_t>> columns;  // one per metric, indexed by row; may be shorter: zeros
  };
  static constexpr uint32_t kNoFunction = 0xffffffff, kNoFrame = 0xffffffff, kRoot = 0;
  // Single locks and who waited for whom (report/analysis/locks/lock_list.h). Stacks are nodes; kRoot: unknown.
  struct Lengths {  // percentiles in nanoseconds; −1: unknown
    int64_t p50 = -1, p90 = -1, p99 = -1, longest = -1;
  };
  struct Lock {
    int number = 0;
    std::string name, kind;
    int64_t contentions = 0, delay_ns = 0, longest_ns = 0, holds = 0, hold_ns = 0;
    uint32_t top_holder = kNoFunction, top_waiter = kNoFunction;
    WaitRank rank = WaitRank::kLock;
    Lengths waited = {}, held = {};
    int64_t waiting = 0, waiting_ns = 0;  // in progress at the snapshot, so far
  };
  struct PairOfStacks {
    int lock = 0;
    uint32_t holder = 0, waiter = 0;
    uint32_t holder_function = kNoFunction, waiter_function = kNoFunction;  // as in `holdfast locks`
    double contentions = 0, delay_ns = 0;
    int64_t waited_p99 = -1, held_p99 = -1;  // at the call sites of these functions, for locks of this kind
  };
  struct Series {
    bool is_base = false;
    std::string kind, process, types;
    std::vector<std::pair<std::string, std::string>> metrics;  // name, unit
    size_t default_metric = 0;
    std::vector<Snapshot> snapshots;
    std::vector<std::pair<uint32_t, uint32_t>> rows;  // node, set of labels
    absl::flat_hash_map<uint64_t, uint32_t> row_of;
    // These members describe the newest snapshot.
    std::string details_of;  // its file
    std::string sampling, program, pid;
    int64_t period = 0;
    int64_t freed_at_exit = 0;                // see ProfileFile
    bool is_ended = false;                    // see MarkEnded
    std::optional<OwnMemory> own_memory;      // of a heap
    int64_t held_lock_delay_ns = 0;           // of a block profile
    std::optional<LockTrouble> lock_trouble;  // of a block profile
    std::vector<std::string> comments, losses;
    std::string older_blocks;                       // see OlderBlocksIn
    record::Profile records;                        // without single locks, waits, threads, the account and the course
    std::string deadlocks;                          // in words (report/analysis/locks/stuck.h), from the newest file
    std::string how_to_name;                        // what provides missing names, in words
    std::string how_to_name_locks;                  // the same for locks without names
    std::vector<uint32_t> plumbing;                 // functions
    absl::flat_hash_map<uint32_t, WaitRank> ranks;  // of rows with waits that are not for locks
    std::vector<Lock> locks;
    std::vector<PairOfStacks> pairs;
  };

  uint32_t FunctionNumber(std::string_view name, std::string_view file, int64_t start_line);
  uint32_t FrameOf(const Frame& frame);
  uint32_t ObjectOf(std::string_view path, std::string_view build_id);
  uint32_t NodeOf(uint32_t parent, uint32_t frame);
  uint32_t RowOf(const FilteredStacks& stacks, size_t stack, const std::vector<uint32_t>& frames, Series* series);
  uint32_t LabelSetOf(const Profile& profile, const Profile::Sample& sample);
  // Returns the report's frames, by node of `stacks`.
  std::vector<uint32_t> FramesOf(const FilteredStacks& stacks);
  void AddDetails(const ProfileFile& file, const FilteredStacks& stacks, const std::vector<uint32_t>& frames,
                  Series* series);
  void AddPlumbing(const FilteredStacks& stacks, const std::vector<uint32_t>& frames, Plumbing* plumbing,
                   Series* series);
  void AddLocks(const FilteredStacks& stacks, const std::vector<uint32_t>& frames, Plumbing* plumbing, Series* series);
  Series* SeriesOf(const ProfileFile& file, bool is_base);
  void SortFunctionsAndFrames();
  bool IsProgram(std::string_view object) const;
  std::string FunctionColumns(std::vector<std::string>* strings) const;
  std::string FrameColumns() const;
  std::vector<uint32_t> SortTree(std::string* tree);
  std::string GrowthsAsJson() const;
  std::map<const Growths*, int64_t> OrderOfGrowths() const;
  std::map<const GrowingStack*, int64_t> OrderOfStacks() const;
  std::string OpensAsJson() const;
  std::string Meta(const std::vector<size_t>& section_lengths) const;

  std::vector<std::string> patterns_, arguments_;
  const bool across_builds_;
  std::vector<Function> functions_;
  absl::flat_hash_map<std::string, uint32_t> function_of_;
  std::vector<Frame> frames_;
  std::map<std::tuple<uint32_t, int64_t, uint32_t, bool>, uint32_t> frame_of_;
  std::vector<std::pair<std::string, std::string>> objects_;  // path, build id
  std::map<std::string, std::string> called_;                 // by path, if the path does not show the name
  std::map<std::pair<std::string, std::string>, uint32_t> object_of_;
  std::vector<uint32_t> parents_, node_frames_;
  absl::flat_hash_map<uint64_t, uint32_t> node_of_;
  std::vector<std::string> label_sets_;  // as JSON
  absl::flat_hash_map<std::string, uint32_t> label_set_of_;
  std::vector<Series> series_;
  std::vector<SourceText> sources_;
  std::vector<Growths> growths_;
  std::string waiting_;  // JSON, "" = unknown
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PAGE_REPORT_BUILDER_H_
