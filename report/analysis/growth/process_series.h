// The bytes in use of one process over time, of each of its stacks and in all. report/analysis/growth/growth.h decides
// whether a series grows. A stack is identified by its function names (only the innermost `depth`), so that it is the same
// in every snapshot, whatever was loaded in between. Not synchronized: one thread at a time.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_PROCESS_SERIES_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_PROCESS_SERIES_H_

#include <algorithm>
#include <compare>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "report/analysis/growth/alive_ages.h"
#include "report/analysis/growth/growth.h"
#include "report/analysis/growth/suppressions.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/string_table.h"
#include "report/profile/typed_records.h"
#include "report/profile/unrecorded_blocks.h"

namespace holdfast {

// The order of stacks in a list, largest first: growing stacks by the lower end of their slope's interval; then the others
// by bytes in use.
inline auto ListKey(const Growth& bytes, int64_t bytes_now) {
  const bool grows = IsLeak(bytes.growth_class);
  return std::tuple(grows, grows ? bytes.lower() : 0, bytes_now);
}

// Profiles may be added in any order. FramesOf, NumbersOf, CourseOf, AllocatedOf, BytesAt and AgesOf need a call of Entries
// before.
class ProcessSeries {
 public:
  // Why a stack that grows is not called a leak; all but the last one if the course of only one run is known.
  enum class Doubt {
    kNone,
    kLittle,      // by less than 64 KiB and less than 1 % of the bytes in use
    kNotInTotal,  // the bytes in use of the process do not grow
    kNoStack,     // only the total grows. Never of an Entry; see GrowthAnswer
    kFreed,       // main freed it before it returned
    kOlder,       // any number of snapshots: new blocks may replace older ones, which no snapshot has
  };
  struct Entry {
    uint64_t key = 0;  // for FramesOf and CourseOf
    bool suppressed = false;
    Growth bytes, objects;  // per hour
    int64_t bytes_now = 0, objects_now = 0;
    Doubt doubt = Doubt::kNone;  // its class is kUndecided then
  };

  ProcessSeries(StackOptions options, size_t depth, const Suppressions* suppressions)
      : options_(std::move(options)), depth_(depth), suppressions_(suppressions) {}

  absl::Status Add(const ProfileFile& file);
  // Adds a lifetimes profile of the process: the ages of what is in use. Call after Add; ages of a time without a
  // snapshot are ignored, and only the newest are kept.
  absl::Status AddAges(const ProfileFile& file);
  size_t snapshots() const { return snapshots_.size(); }
  // Whether the course is reconstructed from the ages of live blocks, because there are too few snapshots. All hours then
  // count from the start of the process.
  bool is_by_births() const { return IsByBirths(ByTime()); }
  // Returns the number of snapshots that are evidence: written, or known to be unchanged. What is in use after exit
  // handlers is no evidence.
  size_t evidence() const;
  // Returns the number of course points that count beside the files: exact runs record what was in use at earlier times
  // (record::Course). 0 if there are enough files.
  size_t course_points() const;
  // Whether the program freed most of its memory before it ended, and the course of a single run is known. What is in
  // use "now" is then what was in use before that.
  bool is_freed_at_end() const;
  // Whether a rise that goes on can be recognized.
  bool has_course() const { return evidence() + course_points() >= kMinSnapshots || is_by_births(); }
  // For profiles that seldom change: no later file means that nothing changed until then, because other profiles were
  // written. Counts as one snapshot.
  void LastsUntil(int64_t steady_nanos) {
    if (steady_nanos > lasts_.until) lasts_ = {steady_nanos, 1};
  }
  // The same by the table (held_until.h), for every moment until then. Counts as snapshots at the distance of the files.
  void HeldUntil(int64_t steady_nanos) {
    if (steady_nanos > lasts_.until) lasts_ = {steady_nanos, 0};
  }
  int64_t NewestEvidence() const;  // steady_nanos; 0: none
  // Combines the processes of a family: those of one program and build that one process started. `together`: the sum of
  // all at each of at most 60 times. Otherwise the maximum of each process, in order of time: whether each process reaches more than the one before.
  void AddFamily(const std::vector<const ProcessSeries*>& members, bool together);
  double Hours() const;
  // Mean bytes between samples; 1: every allocation is known.
  int64_t interval() const { return interval_; }
  bool exact() const { return interval_ <= 1; }
  // Whether blocks from before a fork or an attach, or from a time without samples, are in use and in no snapshot. A rise
  // then is a leak only if the resident memory rises, too.
  bool has_older_blocks() const { return has_older_blocks_; }
  // Returns why new blocks are missing in some snapshots, so that what is in use may grow unseen; "" if none are.
  std::string WhyUnrecorded() const;

  // In the order of ListKey; equal ones by name.
  std::vector<Entry> Entries() const;
  // Returns the names of the stack's functions, leaf first.
  std::vector<std::string> FramesOf(const Entry& entry) const;
  // The same as numbers, for comparisons; NameOf has the text.
  std::span<const StringId> NumbersOf(const Entry& entry) const;
  std::string_view NameOf(StringId number) const { return names_[number]; }
  // Whether all snapshots have cumulative allocations.
  bool turnover_known() const { return turnover_known_; }
  // Returns the bytes that the stack allocated until the newest snapshot.
  int64_t AllocatedOf(const Entry& entry) const;
  // Returns the bytes in use of an entry at the snapshots, oldest first, evenly thinned to `most` (2 or more).
  std::vector<int64_t> CourseOf(const Entry& entry, size_t most) const;
  // Of all bytes in use. `doubt`, if not null: set if a rise is not called a leak for that reason.
  Growth Total(Doubt* doubt = nullptr) const;
  int64_t TotalNow() const;
  // Returns the ages of what is in use at the newest snapshot. Empty if they were not added.
  AliveAges AgesOf(const Entry& entry) const;
  // Returns the first snapshot at or after `hours`, a time such as Growth::since; the last one if there is none. If
  // is_by_births(), returns kStart (the state before anything was allocated) for a time before the first snapshot.
  static constexpr uint32_t kStart = UINT32_MAX;
  uint32_t SnapshotAt(double hours) const;
  // Returns the newest snapshot at or before `hours`; the first one if there is none.
  uint32_t SnapshotBefore(double hours) const;
  int64_t TotalAt(uint32_t snapshot) const { return PointOf(totals_, snapshot).bytes; }
  int64_t BytesAt(const Entry& entry, uint32_t snapshot) const;

 private:
  struct Point {
    int64_t bytes = 0, objects = 0;                      // in use
    int64_t bytes_allocated = 0, objects_allocated = 0;  // cumulative
    double bytes_variance = 0, objects_variance = 0;
    double bytes_allocated_variance = 0, objects_allocated_variance = 0;
  };
  struct Taken {
    int64_t time = 0;
    std::string path;
    ProfileMoment moment = ProfileMoment::kNone;
    uint64_t unchanged = 0;        // snapshots since the previous one that were not written
    bool is_course_point = false;  // from a later file's course
    int64_t resident = 0;          // bytes of the process without Holdfast's table; 0: unknown
    uint64_t lost = 0;             // samples that found no room, so far
    auto operator<=>(const Taken&) const = default;
  };
  // By snapshot, in the order of addition. A stack may be missing in some snapshots.
  using Points = std::vector<std::pair<uint32_t, Point>>;
  // For a million stacks of 30 functions: 64 + 120 bytes each, and 72 for each snapshot.
  struct Stack {
    uint64_t first_frame = 0;  // index into frames_
    uint32_t frames = 0;
    bool suppressed = false;
    Points points;
  };
  void AddCourse(const ProfileFile& file, const record::Course& course,
                 const absl::flat_hash_map<uint32_t, uint64_t>& key_of_sample);
  static Point PointOf(const Points& points, uint32_t snapshot);  // zeros if there is none
  static void AddTo(const Point& from, Point* to);
  std::span<const uint32_t> NamesOf(const Stack& stack) const {
    return {frames_.data() + stack.first_frame, stack.frames};
  }
  std::span<const StringId> ShownNamesOf(const Stack& stack) const {
    return {(options_.fold_plumbing ? folded_frames_ : frames_).data() + stack.first_frame, stack.frames};
  }
  using StackMap = absl::flat_hash_map<uint64_t, Stack>;
  const StackMap& Shown() const { return options_.fold_plumbing ? folded_ : stacks_; }
  void Fold() const;
  uint64_t FoldedKeyOf(const Stack& stack, std::vector<StringId>* names) const;
  std::vector<uint32_t> ByTime() const;
  // For how long the state of the newest snapshot is known to hold, because nothing changed. `until`: steady_nanos; 0: no
  // longer than its own time.
  struct Lasting {
    int64_t until = 0;
    uint64_t unwritten = 1;  // snapshots
  };
  // The snapshots by time, and the origin of hours: the oldest snapshot, or by births the start of the process.
  struct Timeline {
    std::vector<uint32_t> order;
    bool by_births = false;
    int64_t origin_ns = 0;
    Lasting lasting = {};
  };
  Timeline MakeTimeline() const;
  // The judgement of a process by the course of one run, instead of by snapshots.
  struct OfOneRun {
    bool is_judged = false;  // false: there are no course points in the timeline
    uint32_t end = kStart;   // the file that shows what was freed at the end; kStart: nothing was
    int64_t in_use = 0;
  };
  OfOneRun MakeOfOneRun(const Timeline& timeline) const;
  uint32_t FileAfter(uint32_t course_point) const;
  Doubt DoubtOf(const OfOneRun& run, const Entry& entry, const Timeline& timeline) const;
  bool MayReplaceOlder(const Points& points, double since, const Timeline& timeline) const;
  bool IsOffBetween(int64_t from, int64_t to) const;
  double RiseOfTotal(double since, const Timeline& timeline) const;
  static bool IsMuch(int64_t growth, int64_t in_use);
  double HoursOf(uint32_t snapshot, const Timeline& timeline) const;
  static double HoursAt(int64_t time, const Timeline& timeline);
  // `ages`: of what was in use at ages_time_; null: unknown. `freed`: the ages of blocks when freed. `looked_at`: the number
  // of series that are judged.
  Growth Fit(const Points& points, const Timeline& timeline, bool objects, const AliveAges* ages,
             const AliveAges* freed, size_t looked_at) const;
  Growth FitBirths(const Points& points, const Timeline& timeline, const AliveAges& alive, const AliveAges& freed,
                   size_t looked_at) const;
  bool IsByBirths(const std::vector<uint32_t>& order) const;
  size_t EvidenceIn(const std::vector<uint32_t>& order) const;
  // Returns for each snapshot until when (in hours) the previous one's state is known to hold, because no file was
  // written meanwhile; 0: unknown.
  std::vector<double> UnchangedUntil(const Timeline& timeline) const;
  Lasting LastingOf(const std::vector<uint32_t>& order) const;
  void LeaveOutFallAtEnd(std::vector<uint32_t>* order) const;
  bool IsFreedAtEnd(const std::vector<uint32_t>& order) const;

  StackOptions options_;
  size_t depth_;
  const Suppressions* suppressions_;
  std::vector<Taken> snapshots_;
  std::set<int64_t> course_times_;
  StringTable names_;
  std::vector<StringId> frames_;  // of all stacks
  StackMap stacks_;
  // Whether a name is plumbing, by the newest snapshot that has it: profiles are cumulative, so the newest has most
  // evidence. A function that only forwards calls in one snapshot may turn out not to in the next, so stacks are kept
  // unchanged and folded on request.
  struct Forwards {
    int64_t time = 0;
    bool always = true;        // wherever the name occurs
    bool calls_users = false;  // calls functions that are no plumbing
  };
  absl::flat_hash_map<StringId, Forwards> plumbing_;
  mutable StackMap folded_;
  mutable std::vector<StringId> folded_frames_;
  absl::flat_hash_map<uint64_t, AliveAges> ages_;        // by stack
  absl::flat_hash_map<uint64_t, AliveAges> freed_ages_;  // of freed blocks, by age at the free
  int64_t ages_time_ = 0;                                // the snapshot of these ages
  mutable absl::flat_hash_map<uint64_t, AliveAges> folded_ages_, folded_freed_ages_;
  Points totals_;
  bool turnover_known_ = true;
  int64_t interval_ = 1;    // the largest of all snapshots
  Lasting lasts_;           // by LastsUntil and HeldUntil; `unwritten` 0: as many as at the distance of the files
  int64_t started_ns_ = 0;  // start of the process, steady_nanos; 0: unknown
  bool has_older_blocks_ = false;
  std::vector<TimeOff> times_off_;  // by the newest file
  int64_t times_off_at_ = 0;        // its time
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_PROCESS_SERIES_H_
