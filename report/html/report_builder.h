// The data of an HTML report: profiles of any number of processes, kinds and snapshots as one compact binary, which the
// page reads into typed arrays (report/web/src/core/data.ts is its reader; both name this format "HFR1").
//
//   "HFR1", u32 length, JSON      everything small: processes, snapshots, metrics, totals, labels; lengths of sections
//   strings                       varint lengths in UTF-16 units (so that one decoded text can be cut), then UTF-8;
//                                 string i is the name of function i, sorted; names of files and packages follow
//   functions, frames             columns of varints. A function: file, first line, object, package, whose code it is; a
//                                 frame: function, line, object, whether it is plumbing, the system's, inlined, sorted by them.
//                                 What is the system's and what a package, report/profiles/frame_origin.h says; what is
//                                 plumbing, plumbing.h there; how a name is shown, short_name.h
//   tree                          all stacks as one tree in preorder, root first: levels to climb, frame
//   for each series               rows (node, set of labels, what rank of wait it is); then for each snapshot and metric one column of values:
//                                 differences to the snapshot before, zigzag varints, runs of zeros as 0 and a length
//
// The road is that of every view: ProfileSet says which files belong together, which is newest and which always add up,
// FilteredStacks what a stack is (without what the profile itself wants dropped). Only adding up is left to the page, where a
// reader chooses moments, processes and labels. A series is one process and kind, its snapshots from the oldest to the
// newest; files that always add up are a series each. Functions are told apart by name, so that a page shows the same
// numbers as `holdfast top`.
//
// 1,000,000 nodes: about 2 s and 300 MB. Values above 2^53 lose their last digits in a browser. One thread at a time.
#ifndef HOLDFAST_REPORT_HTML_REPORT_BUILDER_H_
#define HOLDFAST_REPORT_HTML_REPORT_BUILDER_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "report/analysis/wait_rank.h"
#include "report/growth/growth_answer.h"
#include "report/html/html_source.h"
#include "report/memory/account_text.h"
#include "report/pprof/object_names.h"
#include "report/pprof/profile.h"
#include "report/profiles/filtered_stacks.h"
#include "report/profiles/plumbing.h"
#include "report/profiles/profile_set.h"

namespace holdfast {

class ReportBuilder {
 public:
  // `plumbing`: patterns of what else is plumbing, which compile. `arguments`: the profiles as they were named.
  // `across_builds`: two builds are compared, so functions get the names that both have (function_identity.h).
  explicit ReportBuilder(std::vector<std::string> plumbing = {}, std::vector<std::string> arguments = {},
                         bool across_builds = false);

  // `is_base`: the side to compare with. `newest`: of its process and kind, so far. False: the same snapshot is in it
  // already.
  bool Add(const ProfileFile& file, bool is_base, bool newest);

  // Who waits now, as StuckJson (report/waiters/stuck.h) says it: for a page of a running program.
  void SetWaiting(std::string json) { waiting_ = std::move(json); }

  // Brings the snapshots of one side into the order of the set that they were read from. Returns the files that turned out
  // to be the newest of their series: TakeDetails wants them once more.
  std::vector<std::string> Arrange(const ProfileSet& set, bool is_base);
  void TakeDetails(const ProfileFile& file, bool is_base);

  // Lines of source around those that the frames name, where the files can be read here.
  void AddSources(size_t max_bytes);

  // What `holdfast leaks` finds in the snapshots of one process (report/html/html_leaks.h). Slopes are for each hour.
  struct GrowingStack {
    std::vector<std::string> frames = {};  // functions, leaf first
    std::vector<uint32_t> functions = {};  // the same, filled in by AddGrowths
    std::string text = "";                 // "a ← b ← …": as many of them as tell it from the others
    Growth bytes, objects;
    int64_t bytes_now = 0, objects_now = 0;
    int64_t half_age_ns = -1, oldest_age_ns = -1;  // of what is in use; −1: not known
    std::vector<int64_t> course = {};              // bytes in use over the snapshots, thinned
  };
  struct Growths {
    std::string process;
    size_t snapshots = 0;
    double hours = 0;
    Growth total;
    int64_t total_now = 0;
    GrowthAnswer answer = {};
    std::vector<uint32_t> largest = {};    // answer.largest, filled in by AddGrowths
    std::vector<std::string> memory = {};  // what all resident memory did, in words
    size_t growing = 0;                    // stacks, also those that are not in `stacks`
    std::vector<GrowingStack> stacks = {};
  };
  void AddGrowths(Growths growths);

  // The binary, not compressed. Call it once, last.
  std::string Encode();

  // "redis-server (pid 4242)" or "redis-server and 2 more": the title of the page.
  std::string Title() const;
  size_t node_count() const { return parents_.size(); }

  // Whether a value type stands on both sides; true without a base.
  bool CanCompare() const;

  // The newest file of each series, base apart: what a page offers to download.
  std::vector<std::string> NewestFiles() const;

 private:
  struct Frame {
    uint32_t function = 0, object = 0;  // object 0: not known; i: objects_[i − 1]
    int64_t line = 0;
    bool is_inlined = false;
    auto Key() const { return std::tuple(function, line, object, is_inlined); }
  };
  struct Function {
    std::string name, file;
    int64_t start_line = 0;
    bool nameless = false;  // `name` is made of its object's: [libfoo.so]
    bool plumbing = false;
  };
  struct Snapshot {
    std::string file;
    int64_t time_nanos = 0;
    std::vector<std::optional<double>> half_widths;
    std::optional<int64_t> resident_bytes;
    std::vector<AccountLine> account;           // of all that was resident; empty: the file has none
    std::vector<std::vector<int64_t>> columns;  // one for each metric, indexed by row; shorter: zeros
  };
  static constexpr uint32_t kNoFunction = 0xffffffff, kNoFrame = 0xffffffff, kRoot = 0;
  // Single locks and who waited for whom (report/analysis/lock_list.h), stacks as nodes; kRoot: not known.
  struct Lengths {  // percentiles, nanoseconds; −1: not known
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
    uint32_t holder_function = kNoFunction, waiter_function = kNoFunction;  // as `holdfast locks` names the stacks
    double contentions = 0, delay_ns = 0;
    int64_t waited_p99 = -1, held_p99 = -1;  // at the call sites of these functions, for this lock's kind
  };
  struct Series {
    bool is_base = false;
    std::string kind, process, types;
    std::vector<std::pair<std::string, std::string>> metrics;  // name, unit
    size_t default_metric = 0;
    std::vector<Snapshot> snapshots;
    std::vector<std::pair<uint32_t, uint32_t>> rows;  // node, set of labels
    absl::flat_hash_map<uint64_t, uint32_t> row_of;
    // Of the newest snapshot.
    std::string details_of;  // its file
    std::string sampling, program, pid;
    int64_t period = 0;
    int64_t freed_at_exit = 0;  // see ProfileFile
    std::vector<std::string> comments, losses;
    std::string deadlocks;                          // in words (report/waiters/stuck.h), of the newest file
    std::string how_to_name;                        // what brings names that are missing, in words
    std::string how_to_name_locks;                  // and of locks without a name
    std::vector<uint32_t> plumbing;                 // functions
    absl::flat_hash_map<uint32_t, WaitRank> ranks;  // of rows that are no waits for locks
    std::vector<Lock> locks;
    std::vector<PairOfStacks> pairs;
  };

  uint32_t FunctionNumber(std::string_view name, std::string_view file, int64_t start_line);
  uint32_t FrameOf(const Frame& frame);
  uint32_t ObjectOf(std::string_view path, std::string_view build_id);
  uint32_t NodeOf(uint32_t parent, uint32_t frame);
  uint32_t RowOf(const FilteredStacks& stacks, size_t stack, const std::vector<uint32_t>& frames, Series* series);
  uint32_t LabelSetOf(const Profile& profile, const Profile::Sample& sample);
  // The report's frames, by node of `stacks`.
  std::vector<uint32_t> FramesOf(const FilteredStacks& stacks);
  void AddDetails(const ProfileFile& file, const FilteredStacks& stacks, const std::vector<uint32_t>& frames,
                  Series* series);
  void AddWhose(const FilteredStacks& stacks, const std::vector<uint32_t>& frames, Plumbing* whose, Series* series);
  void AddLocks(const FilteredStacks& stacks, const std::vector<uint32_t>& frames, Plumbing* plumbing, Series* series);
  Series* SeriesOf(const ProfileFile& file, bool is_base);
  void SortFunctionsAndFrames();
  bool IsProgram(std::string_view object) const;
  std::string FunctionColumns(std::vector<std::string>* strings) const;
  std::string FrameColumns() const;
  std::vector<uint32_t> SortTree(std::string* tree);
  std::string GrowthsAsJson() const;
  std::string Meta(const std::vector<size_t>& section_lengths) const;

  std::vector<std::string> patterns_, arguments_;
  const bool across_builds_;
  std::vector<Function> functions_;
  absl::flat_hash_map<std::string, uint32_t> function_of_;
  std::vector<Frame> frames_;
  std::map<std::tuple<uint32_t, int64_t, uint32_t, bool>, uint32_t> frame_of_;
  std::vector<std::pair<std::string, std::string>> objects_;  // path, build id
  std::map<std::string, std::string> called_;                 // by path, where that does not say it
  std::map<std::pair<std::string, std::string>, uint32_t> object_of_;
  std::vector<uint32_t> parents_, node_frames_;
  absl::flat_hash_map<uint64_t, uint32_t> node_of_;
  std::vector<std::string> label_sets_;  // as JSON
  absl::flat_hash_map<std::string, uint32_t> label_set_of_;
  std::vector<Series> series_;
  std::vector<SourceText> sources_;
  std::vector<Growths> growths_;
  std::string waiting_;  // JSON, "" = not known
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTML_REPORT_BUILDER_H_
