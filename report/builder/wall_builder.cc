#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/builder/code_segments.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_builder.h"
#include "report/builder/profile_comments.h"
#include "report/builder/stack_interner.h"
#include "report/builder/written_locks.h"
#include "report/builder/written_threads.h"
#include "report/observe/table/thread_status.h"
#include "report/profile/profile_kind.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kMaxThreadTimes = 1024, kMaxLanes = 256;

class WallBuilder {
 public:
  explicit WallBuilder(const ProcessState& state)
      : state_(state), times_(*state.thread_times), segments_(state), stacks_(state, segments_, &profile_) {}

  Profile Build() {
    for (const auto& [type, unit] : ValueTypesOf("wall")) profile_.sample_types.push_back({Intern(type), Intern(unit)});
    profile_.default_sample_type = profile_.period_type.type = profile_.sample_types[0].type;
    profile_.period_type.unit = profile_.sample_types[0].unit;
    profile_.period = kWallPeriodNs;
    profile_.time_nanos = state_.table->wall_ns;
    // States that differ only in what no label says are one sample: others find samples by frames and labels.
    std::map<std::tuple<uint32_t, ThreadDoes, WaitKind, int64_t, uint64_t, uint32_t>, double> sums;
    for (const ThreadTimeRow& row : times_.rows)
      sums[{row.name, row.does, row.wait, row.call, row.does == ThreadDoes::kLock ? row.lock : 0, StackOf(row)}] +=
          row.ns;
    for (const auto& [key, ns] : sums) {
      const auto& [name, does, wait, call, lock, stack] = key;
      Add({.name = name, .does = does, .wait = wait, .call = call, .lock = lock, .stack = stack, .ns = ns});
    }
    // Exact as a whole; scripts and the page show no interval for parts.
    const std::array<double, 1> variances = {0};
    AddComments(state_, kFileKinds[kWallFile], variances, columns_.full_sums(), &profile_);
    const FramesOfStack frames = [this](uint32_t stack) { return stacks_.Frames(stacks_.Intern(stack)); };
    if (!profile_.samples.empty()) {
      AddThreadRecords(state_, frames, &profile_);
      AddLockRecords(state_, /*earlier=*/true, frames, &profile_);
      AddThreadTimes();
    }
    segments_.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  // `row.stack`: of the profile.
  void Add(const ThreadTimeRow& row) {
    const std::array<int64_t, 1> values = {columns_.Value(0, row.ns)};
    if (values[0] == 0) return;
    labels_.clear();
    if (const std::string& name = times_.names[row.name]; !name.empty())
      labels_.push_back({.key = Intern("thread"), .text = Intern(RepairUtf8(name))});
    std::string state = kThreadDoesNames[static_cast<int>(row.does)];
    if (row.does == ThreadDoes::kCall) state += ":" + SystemCallName(row.call);
    labels_.push_back({.key = Intern("state"), .text = Intern(state)});
    if (row.wait != WaitKind::kNone)
      labels_.push_back({.key = Intern("wait"), .text = Intern(kWaitKindNames[static_cast<int>(row.wait)])});
    if (row.lock != 0)
      labels_.push_back({.key = Intern("lock_address"), .text = Intern(fmt::format("0x{:x}", row.lock))});
    profile_.AddSample(stacks_.Frames(row.stack), values, labels_);
  }

  // From outside, the stack of a running thread is not known.
  uint32_t StackOf(const ThreadTimeRow& row) {
    if (row.stack != kNoStack) return stacks_.Intern(row.stack);
    const auto number = static_cast<uint32_t>(row.does);
    switch (row.does) {
      case ThreadDoes::kCpu:
        return stacks_.InternNamed(number, "[on a CPU]");
      case ThreadDoes::kRunnable:
        return stacks_.InternNamed(number, "[waits for a CPU]");
      case ThreadDoes::kUnknown:
        return stacks_.InternNamed(number, "[not seen]");
      default:
        return stacks_.Intern(kNoStack);
    }
  }

  void AddThreadTimes() {
    record::ThreadTimes times{.looks = times_.looks,
                              .unseen_cpu_ns = Rounded(times_.unseen_cpu_ns),
                              .lane_start_ns = times_.lane_start_wall_ns,
                              .lane_step_ns = times_.lane_step_ns,
                              .unknown = times_.unknown};
    for (const ThreadTime& one : times_.threads) {
      const auto ns = [&one](ThreadDoes does) { return Rounded(one.ns[static_cast<int>(does)]); };
      times.thread.push_back({.name = Printable(times_.names[one.name]),
                              .tid = one.id,
                              .threads = one.threads,
                              .began_ns = one.began_wall_ns,
                              .lived_ns = Rounded(one.lived_ns),
                              .cpu_ns = ns(ThreadDoes::kCpu),
                              .runnable_ns = ns(ThreadDoes::kRunnable),
                              .lock_ns = ns(ThreadDoes::kLock),
                              .io_ns = ns(ThreadDoes::kIo),
                              .sleep_ns = ns(ThreadDoes::kSleep),
                              .call_ns = ns(ThreadDoes::kCall),
                              .stopped_ns = ns(ThreadDoes::kStopped),
                              .unknown_ns = ns(ThreadDoes::kUnknown),
                              .lane = one.lane});
    }
    std::stable_sort(times.thread.begin(), times.thread.end(), [](const auto& a, const auto& b) {
      return std::pair(a.lived_ns, b.tid) > std::pair(b.lived_ns, a.tid);
    });
    times.thread.resize(std::min(times.thread.size(), kMaxThreadTimes));
    for (size_t i = kMaxLanes; i < times.thread.size(); ++i) times.thread[i].lane.clear();
    profile_.mutable_records()->thread_times = std::move(times);
  }

  const ProcessState& state_;
  const ThreadTimes& times_;
  Profile profile_;
  Segments segments_;
  StackInterner stacks_;
  std::vector<Profile::Label> labels_;  // of the current sample
  Columns columns_;
};

}  // namespace

Profile BuildWallProfile(const ProcessState& state) {
  return state.thread_times != nullptr ? WallBuilder(state).Build() : Profile();
}

}  // namespace holdfast
