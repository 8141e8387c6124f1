// The typed records of a profile. scripts/generate-records makes this file from proto/holdfast.proto, which explains every field.
//
// `Fields` lists a record's fields with their numbers and names, for the codec (record_codec.h) and for whatever else
// visits each field. A member that is a message is absent, or it was written.
#ifndef HOLDFAST_REPORT_PROFILE_TYPED_RECORDS_H_
#define HOLDFAST_REPORT_PROFILE_TYPED_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/profile/time_counts.h"

namespace holdfast::record {

enum class Moment : int32_t { kRunning = 0, kBeforeExitHandlers = 1, kAfterExitHandlers = 2 };

enum class HolderSource : int32_t { kNotKept = 0, kFree = 1, kNow = 2, kStart = 3, kLast = 4, kReaders = 5 };

enum class NamesMissing : int32_t { kNames = 0, kLines = 1, kAll = 2 };

enum class MergeMode : int32_t { kSum = 0, kDifference = 1, kMean = 2, kHighest = 3 };

struct ObjectName {
  std::string file = {};
  std::string called = {};

  bool operator==(const ObjectName&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "file", self.file);
    visit(2, "called", self.called);
  }
};

struct Process {
  std::string kind = {};
  std::string id = {};
  std::string program = {};
  std::string executable = {};
  std::string command = {};
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  std::string version = {};
  int64_t started_ns = 0;
  int64_t elapsed_ns = 0;
  std::vector<std::string> profiled = {};
  std::string unseen_waits = {};
  Moment moment = Moment::kRunning;
  uint64_t resident_bytes = 0;
  uint64_t unchanged_snapshots = 0;
  std::vector<ObjectName> object = {};
  bool attached = false;

  bool operator==(const Process&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "kind", self.kind);
    visit(2, "id", self.id);
    visit(3, "program", self.program);
    visit(4, "executable", self.executable);
    visit(5, "command", self.command);
    visit(6, "pid", self.pid);
    visit(7, "parent_pid", self.parent_pid);
    visit(8, "version", self.version);
    visit(9, "started_ns", self.started_ns);
    visit(10, "elapsed_ns", self.elapsed_ns);
    visit(11, "profiled", self.profiled);
    visit(12, "unseen_waits", self.unseen_waits);
    visit(13, "moment", self.moment);
    visit(14, "resident_bytes", self.resident_bytes);
    visit(15, "unchanged_snapshots", self.unchanged_snapshots);
    visit(16, "object", self.object);
    visit(17, "attached", self.attached);
  }
};

struct Interval {
  int64_t since_ns = 0;
  int64_t mean = 0;
  std::string unit = {};

  bool operator==(const Interval&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "since_ns", self.since_ns);
    visit(2, "mean", self.mean);
    visit(3, "unit", self.unit);
  }
};

struct Sampling {
  std::vector<Interval> interval = {};
  bool interval_in_part = false;
  std::string ages_known = {};
  uint32_t aged_one_in = 0;
  uint64_t aged_up_to_bytes = 0;

  bool operator==(const Sampling&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "interval", self.interval);
    visit(2, "interval_in_part", self.interval_in_part);
    visit(3, "ages_known", self.ages_known);
    visit(4, "aged_one_in", self.aged_one_in);
    visit(5, "aged_up_to_bytes", self.aged_up_to_bytes);
  }
};

struct Total {
  std::string type = {};
  int64_t value = 0;
  double half_width = 0;

  bool operator==(const Total&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "type", self.type);
    visit(2, "value", self.value);
    visit(3, "half_width", self.half_width);
  }
};

struct Loss {
  std::string cause = {};
  uint64_t count = 0;

  bool operator==(const Loss&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "cause", self.cause);
    visit(2, "count", self.count);
  }
};

struct UnseenFrees {
  std::string module = {};
  double bytes = 0;
  double blocks = 0;

  bool operator==(const UnseenFrees&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "module", self.module);
    visit(2, "bytes", self.bytes);
    visit(3, "blocks", self.blocks);
  }
};

struct Counters {
  uint64_t alloc_calls = 0;
  uint64_t alloc_bytes = 0;
  uint64_t free_calls = 0;
  uint64_t free_bytes = 0;
  bool calls_are_sampled = false;
  uint64_t own_time_ns = 0;
  uint64_t own_table_bytes = 0;
  uint64_t own_table_steps = 0;
  uint64_t own_memory_probes = 0;

  bool operator==(const Counters&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "alloc_calls", self.alloc_calls);
    visit(2, "alloc_bytes", self.alloc_bytes);
    visit(3, "free_calls", self.free_calls);
    visit(4, "free_bytes", self.free_bytes);
    visit(5, "calls_are_sampled", self.calls_are_sampled);
    visit(6, "own_time_ns", self.own_time_ns);
    visit(7, "own_table_bytes", self.own_table_bytes);
    visit(8, "own_table_steps", self.own_table_steps);
    visit(9, "own_memory_probes", self.own_memory_probes);
  }
};

struct Peak {
  int64_t bytes = 0;
  int64_t time_ns = 0;
  int64_t missing_bytes = 0;
  int64_t stacks_bytes = 0;
  int64_t stacks_time_ns = 0;

  bool operator==(const Peak&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "bytes", self.bytes);
    visit(2, "time_ns", self.time_ns);
    visit(3, "missing_bytes", self.missing_bytes);
    visit(4, "stacks_bytes", self.stacks_bytes);
    visit(5, "stacks_time_ns", self.stacks_time_ns);
  }
};

struct Pages {
  int64_t swapped_bytes = 0;
  bool huge_known = false;
  int64_t huge_bytes = 0;

  bool operator==(const Pages&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "swapped_bytes", self.swapped_bytes);
    visit(2, "huge_known", self.huge_known);
    visit(3, "huge_bytes", self.huge_bytes);
  }
};

struct Estimate {
  double value = 0;
  double variance = 0;

  bool operator==(const Estimate&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "value", self.value);
    visit(2, "variance", self.variance);
  }
};

struct AccountFile {
  std::string name = {};
  uint64_t bytes = 0;

  bool operator==(const AccountFile&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "name", self.name);
    visit(2, "bytes", self.bytes);
  }
};

struct Account {
  uint64_t total = 0;
  uint64_t allocator = 0;
  uint64_t files = 0;
  uint64_t shared = 0;
  uint64_t stacks = 0;
  uint64_t own = 0;
  uint64_t mapped = 0;
  uint64_t rest = 0;
  uint64_t swapped = 0;
  uint64_t huge = 0;
  uint64_t hugetlb = 0;
  uint64_t heaps = 0;
  uint64_t arenas = 0;
  uint64_t threads = 0;
  uint64_t sampled = 0;
  bool has_pages = false;
  std::optional<Estimate> live = {};
  double beyond_variance = 0;
  double rest_variance = 0;
  std::optional<Estimate> rounding = {};
  std::optional<Estimate> in_use_resident = {};
  std::optional<Estimate> in_use = {};
  std::optional<Estimate> in_use_swapped = {};
  std::string allocator_name = {};
  std::vector<AccountFile> file = {};

  bool operator==(const Account&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "total", self.total);
    visit(2, "allocator", self.allocator);
    visit(3, "files", self.files);
    visit(4, "shared", self.shared);
    visit(5, "stacks", self.stacks);
    visit(6, "own", self.own);
    visit(7, "mapped", self.mapped);
    visit(8, "rest", self.rest);
    visit(9, "swapped", self.swapped);
    visit(10, "huge", self.huge);
    visit(11, "hugetlb", self.hugetlb);
    visit(12, "heaps", self.heaps);
    visit(13, "arenas", self.arenas);
    visit(14, "threads", self.threads);
    visit(15, "sampled", self.sampled);
    visit(16, "has_pages", self.has_pages);
    visit(17, "live", self.live);
    visit(18, "beyond_variance", self.beyond_variance);
    visit(19, "rest_variance", self.rest_variance);
    visit(20, "rounding", self.rounding);
    visit(21, "in_use_resident", self.in_use_resident);
    visit(22, "in_use", self.in_use);
    visit(23, "in_use_swapped", self.in_use_swapped);
    visit(24, "allocator_name", self.allocator_name);
    visit(25, "file", self.file);
  }
};

struct Lock {
  uint32_t number = 0;
  std::string kind = {};
  uint64_t address = 0;
  int64_t contentions = 0;
  int64_t delay_ns = 0;
  int64_t longest_ns = 0;
  int64_t holds = 0;
  int64_t hold_ns = 0;
  int64_t held_ns = 0;
  int64_t longest_held_ns = 0;
  int64_t alone_ns = 0;
  TimeCounts wait_times = {};
  TimeCounts hold_times = {};
  int64_t waiting = 0;
  int64_t waiting_ns = 0;
  int64_t longest_waiting_ns = 0;
  std::string name = {};
  std::string file = {};
  uint64_t file_address = 0;
  std::string member = {};
  int64_t block_bytes = 0;
  int64_t block_offset = 0;
  uint32_t block_stack = 0;
  int64_t thread_offset = 0;
  int32_t locks = 0;
  int64_t hottest_ns = 0;

  bool operator==(const Lock&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "number", self.number);
    visit(2, "kind", self.kind);
    visit(3, "address", self.address);
    visit(4, "contentions", self.contentions);
    visit(5, "delay_ns", self.delay_ns);
    visit(6, "longest_ns", self.longest_ns);
    visit(7, "holds", self.holds);
    visit(8, "hold_ns", self.hold_ns);
    visit(9, "held_ns", self.held_ns);
    visit(10, "longest_held_ns", self.longest_held_ns);
    visit(11, "alone_ns", self.alone_ns);
    visit(12, "wait_times", self.wait_times);
    visit(13, "hold_times", self.hold_times);
    visit(14, "waiting", self.waiting);
    visit(15, "waiting_ns", self.waiting_ns);
    visit(16, "longest_waiting_ns", self.longest_waiting_ns);
    visit(17, "name", self.name);
    visit(18, "file", self.file);
    visit(19, "file_address", self.file_address);
    visit(20, "member", self.member);
    visit(21, "block_bytes", self.block_bytes);
    visit(22, "block_offset", self.block_offset);
    visit(23, "block_stack", self.block_stack);
    visit(24, "thread_offset", self.thread_offset);
    visit(25, "locks", self.locks);
    visit(26, "hottest_ns", self.hottest_ns);
  }
};

struct LockPair {
  uint32_t lock = 0;
  uint32_t holder = 0;
  uint32_t waiter = 0;
  double contentions = 0;
  double delay_ns = 0;

  bool operator==(const LockPair&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "lock", self.lock);
    visit(2, "holder", self.holder);
    visit(3, "waiter", self.waiter);
    visit(4, "contentions", self.contentions);
    visit(5, "delay_ns", self.delay_ns);
  }
};

struct LockSite {
  uint32_t stack = 0;
  std::string kind = {};
  bool is_holder = false;
  int64_t longest_ns = 0;
  TimeCounts times = {};
  int64_t delay_ns = 0;
  int64_t alone_ns = 0;

  bool operator==(const LockSite&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "stack", self.stack);
    visit(2, "kind", self.kind);
    visit(3, "is_holder", self.is_holder);
    visit(4, "longest_ns", self.longest_ns);
    visit(5, "times", self.times);
    visit(6, "delay_ns", self.delay_ns);
    visit(7, "alone_ns", self.alone_ns);
  }
};

struct LockKind {
  std::string kind = {};
  int64_t contentions = 0;
  int64_t acquired = 0;
  int64_t delay_ns = 0;
  int64_t gap_ns = 0;

  bool operator==(const LockKind&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "kind", self.kind);
    visit(2, "contentions", self.contentions);
    visit(3, "acquired", self.acquired);
    visit(4, "delay_ns", self.delay_ns);
    visit(5, "gap_ns", self.gap_ns);
  }
};

struct Locks {
  std::vector<Lock> lock = {};
  std::vector<std::vector<uint32_t>> stack = {};
  std::vector<LockPair> pair = {};
  std::vector<LockSite> site = {};
  int64_t contentions = 0;
  int64_t delay_ns = 0;
  int64_t gap_ns = 0;
  uint64_t samples = 0;
  std::vector<LockKind> kind = {};

  bool operator==(const Locks&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "lock", self.lock);
    visit(2, "stack", self.stack);
    visit(3, "pair", self.pair);
    visit(4, "site", self.site);
    visit(5, "contentions", self.contentions);
    visit(6, "delay_ns", self.delay_ns);
    visit(7, "gap_ns", self.gap_ns);
    visit(8, "samples", self.samples);
    visit(9, "kind", self.kind);
  }
};

struct WaitingThread {
  int64_t tid = 0;
  uint32_t number = 0;
  bool gone = false;
  bool since_start = false;
  std::string name = {};
  std::string labels = {};
  std::string does = {};
  bool polls = false;
  uint32_t stack = 0;

  bool operator==(const WaitingThread&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "tid", self.tid);
    visit(2, "number", self.number);
    visit(3, "gone", self.gone);
    visit(4, "since_start", self.since_start);
    visit(5, "name", self.name);
    visit(6, "labels", self.labels);
    visit(7, "does", self.does);
    visit(8, "polls", self.polls);
    visit(9, "stack", self.stack);
  }
};

struct Wait {
  uint32_t thread = 0;
  std::string kind = {};
  uint64_t address = 0;
  uint32_t lock = 0;
  int64_t delay_ns = 0;
  uint32_t stack = 0;
  uint32_t holder = 0;
  HolderSource source = HolderSource::kNotKept;
  int64_t readers = 0;
  bool owner_died = false;

  bool operator==(const Wait&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "thread", self.thread);
    visit(2, "kind", self.kind);
    visit(3, "address", self.address);
    visit(4, "lock", self.lock);
    visit(5, "delay_ns", self.delay_ns);
    visit(6, "stack", self.stack);
    visit(7, "holder", self.holder);
    visit(8, "source", self.source);
    visit(9, "readers", self.readers);
    visit(10, "owner_died", self.owner_died);
  }
};

struct Deadlock {
  std::vector<uint32_t> thread = {};

  bool operator==(const Deadlock&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "thread", self.thread);
  }
};

struct Waits {
  int64_t threads = 0;
  int64_t delay_ns = 0;
  int64_t not_written = 0;
  std::string unknown = {};
  std::vector<WaitingThread> thread = {};
  std::vector<Wait> wait = {};
  std::vector<Deadlock> deadlock = {};
  std::vector<std::vector<uint32_t>> stack = {};

  bool operator==(const Waits&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "threads", self.threads);
    visit(2, "delay_ns", self.delay_ns);
    visit(3, "not_written", self.not_written);
    visit(4, "unknown", self.unknown);
    visit(5, "thread", self.thread);
    visit(6, "wait", self.wait);
    visit(7, "deadlock", self.deadlock);
    visit(8, "stack", self.stack);
  }
};

struct NamedThread {
  uint32_t stack = 0;
  int64_t tid = 0;
  std::string name = {};

  bool operator==(const NamedThread&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "stack", self.stack);
    visit(2, "tid", self.tid);
    visit(3, "name", self.name);
  }
};

struct Threads {
  std::vector<NamedThread> thread = {};
  std::vector<std::vector<uint32_t>> stack = {};

  bool operator==(const Threads&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "thread", self.thread);
    visit(2, "stack", self.stack);
  }
};

struct MissingNames {
  NamesMissing what = NamesMissing::kNames;
  std::string path = {};
  std::string why = {};
  bool not_in_time = false;
  bool is_debug_file = false;

  bool operator==(const MissingNames&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "what", self.what);
    visit(2, "path", self.path);
    visit(3, "why", self.why);
    visit(4, "not_in_time", self.not_in_time);
    visit(5, "is_debug_file", self.is_debug_file);
  }
};

struct Merged {
  MergeMode how = MergeMode::kSum;
  uint64_t files = 0;
  uint64_t processes = 0;
  std::vector<std::string> from = {};

  bool operator==(const Merged&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "how", self.how);
    visit(2, "files", self.files);
    visit(3, "processes", self.processes);
    visit(4, "from", self.from);
  }
};

struct Allocator {
  std::string outcome = {};
  bool is_seen = false;
  std::string incomplete = {};
  std::string not_seen = {};

  bool operator==(const Allocator&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "outcome", self.outcome);
    visit(2, "is_seen", self.is_seen);
    visit(3, "incomplete", self.incomplete);
    visit(4, "not_seen", self.not_seen);
  }
};

struct SampleCourse {
  uint32_t number = 0;
  std::vector<uint64_t> allocated_bytes = {};
  std::vector<uint64_t> allocated_objects = {};
  std::vector<uint64_t> freed_bytes = {};
  std::vector<uint64_t> freed_objects = {};

  bool operator==(const SampleCourse&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "number", self.number);
    visit(2, "allocated_bytes", self.allocated_bytes);
    visit(3, "allocated_objects", self.allocated_objects);
    visit(4, "freed_bytes", self.freed_bytes);
    visit(5, "freed_objects", self.freed_objects);
  }
};

struct Course {
  std::vector<uint64_t> elapsed_ns = {};
  std::vector<SampleCourse> sample = {};

  bool operator==(const Course&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "elapsed_ns", self.elapsed_ns);
    visit(2, "sample", self.sample);
  }
};

struct ThreadTime {
  std::string name = {};
  uint32_t tid = 0;
  uint32_t threads = 0;
  int64_t began_ns = 0;
  int64_t lived_ns = 0;
  int64_t cpu_ns = 0;
  int64_t runnable_ns = 0;
  int64_t lock_ns = 0;
  int64_t io_ns = 0;
  int64_t sleep_ns = 0;
  int64_t call_ns = 0;
  int64_t stopped_ns = 0;
  int64_t unknown_ns = 0;
  std::vector<uint32_t> lane = {};

  bool operator==(const ThreadTime&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "name", self.name);
    visit(2, "tid", self.tid);
    visit(3, "threads", self.threads);
    visit(4, "began_ns", self.began_ns);
    visit(5, "lived_ns", self.lived_ns);
    visit(6, "cpu_ns", self.cpu_ns);
    visit(7, "runnable_ns", self.runnable_ns);
    visit(8, "lock_ns", self.lock_ns);
    visit(9, "io_ns", self.io_ns);
    visit(10, "sleep_ns", self.sleep_ns);
    visit(11, "call_ns", self.call_ns);
    visit(12, "stopped_ns", self.stopped_ns);
    visit(13, "unknown_ns", self.unknown_ns);
    visit(14, "lane", self.lane);
  }
};

struct ThreadTimes {
  std::vector<ThreadTime> thread = {};
  uint64_t looks = 0;
  int64_t unseen_cpu_ns = 0;
  int64_t lane_start_ns = 0;
  int64_t lane_step_ns = 0;
  std::string unknown = {};
  uint64_t most_unlisted = 0;
  bool lacks_locks = false;

  bool operator==(const ThreadTimes&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1, "thread", self.thread);
    visit(2, "looks", self.looks);
    visit(3, "unseen_cpu_ns", self.unseen_cpu_ns);
    visit(4, "lane_start_ns", self.lane_start_ns);
    visit(5, "lane_step_ns", self.lane_step_ns);
    visit(6, "unknown", self.unknown);
    visit(7, "most_unlisted", self.most_unlisted);
    visit(8, "lacks_locks", self.lacks_locks);
  }
};

struct Profile {
  std::optional<Process> process = {};
  std::optional<Sampling> sampling = {};
  std::vector<Total> total = {};
  std::vector<Loss> loss = {};
  std::vector<UnseenFrees> unseen_frees = {};
  std::optional<Counters> counters = {};
  std::optional<Peak> peak = {};
  std::optional<Pages> pages = {};
  std::optional<Account> account = {};
  std::optional<Locks> locks = {};
  std::optional<Waits> waits = {};
  std::optional<Threads> threads = {};
  std::vector<MissingNames> missing_names = {};
  std::optional<Merged> merged = {};
  std::optional<Allocator> allocator = {};
  std::optional<Course> course = {};
  std::optional<ThreadTimes> thread_times = {};

  bool operator==(const Profile&) const = default;
  template <typename Self, typename Visit>
  static void Fields(Self& self, Visit& visit) {
    visit(1003, "process", self.process);
    visit(1004, "sampling", self.sampling);
    visit(1005, "total", self.total);
    visit(1006, "loss", self.loss);
    visit(1007, "unseen_frees", self.unseen_frees);
    visit(1008, "counters", self.counters);
    visit(1009, "peak", self.peak);
    visit(1010, "pages", self.pages);
    visit(1011, "account", self.account);
    visit(1012, "locks", self.locks);
    visit(1013, "waits", self.waits);
    visit(1014, "threads", self.threads);
    visit(1015, "missing_names", self.missing_names);
    visit(1016, "merged", self.merged);
    visit(1017, "allocator", self.allocator);
    visit(1018, "course", self.course);
    visit(1019, "thread_times", self.thread_times);
  }
};

}  // namespace holdfast::record

#endif  // HOLDFAST_REPORT_PROFILE_TYPED_RECORDS_H_
