#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
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

// A value of the label `holder_state`: the lock changes hands.
constexpr char kFreeLock[] = "free";

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
    std::map<std::tuple<uint32_t, ThreadDoes, WaitKind, int64_t, uint64_t, uint32_t, std::string>, double> sums;
    for (const ThreadTimeRow& row : times_.rows)
      sums[{row.name, row.does, row.wait, row.call, row.does == ThreadDoes::kLock ? row.lock : 0, StackOf(row),
            HolderText(row)}] += row.ns;
    for (const auto& [key, ns] : sums) {
      const auto& [name, does, wait, call, lock, stack, holder] = key;
      Add({.name = name, .does = does, .wait = wait, .call = call, .lock = lock, .stack = stack, .ns = ns}, holder);
    }
    // The looks, by which parts have an error, are not in the file.
    const std::array<double, 1> variances = {std::nan("")};
    AddComments(state_, kFileKinds[kWallFile], variances, columns_.full_sums(), &profile_);
    const FramesOfStack frames = [this](uint32_t stack) { return stacks_.Frames(stacks_.Intern(stack)); };
    if (!profile_.samples.empty()) {
      AddThreadRecords(state_, frames, &profile_);
      AddLockRecords(state_, /*earlier=*/true, frames, &profile_);
      AddThreadTimes(times_, &profile_);
      profile_.mutable_records()->thread_times->lacks_locks = LacksLocks();
    }
    segments_.AddMappings(&profile_);
    return std::move(profile_);
  }

 private:
  StringId Intern(std::string_view text) { return profile_.strings.Intern(text); }

  // Whether waits for locks were not recorded at any time since the first look.
  bool LacksLocks() const {
    const TableSnapshot& table = *state_.table;
    if ((table.profiles & (KindBit(ProfileKind::kMutex) | KindBit(ProfileKind::kBlock))) == 0) return true;
    const std::vector<IntervalChange>& changes = table.lock_intervals;
    for (size_t i = 0; i < changes.size(); ++i) {
      const bool is_over = i + 1 < changes.size() && changes[i + 1].wall_ns <= times_.lane_start_wall_ns;
      if (changes[i].interval == 0 && !is_over) return true;
    }
    return false;
  }

  static std::string StateText(ThreadDoes does, int64_t call) {
    std::string state = kThreadDoesNames[static_cast<int>(does)];
    if (does == ThreadDoes::kCall) state += ":" + SystemCallName(call);
    return state;
  }

  // Returns the activity of a lock's holder; "": not known.
  static std::string HolderText(const ThreadTimeRow& row) {
    if (row.does != ThreadDoes::kLock) return "";
    if (row.is_free) return kFreeLock;
    return row.holder_does == ThreadDoes::kUnknown ? "" : StateText(row.holder_does, row.holder_call);
  }

  // `row.stack`: of the profile.
  void Add(const ThreadTimeRow& row, const std::string& holder) {
    const std::array<int64_t, 1> values = {columns_.Value(0, row.ns)};
    if (values[0] == 0) return;
    labels_.clear();
    if (const std::string& name = times_.names[row.name]; !name.empty())
      labels_.push_back({.key = Intern("thread"), .text = Intern(RepairUtf8(name))});
    labels_.push_back({.key = Intern("state"), .text = Intern(StateText(row.does, row.call))});
    if (!holder.empty()) labels_.push_back({.key = Intern("holder_state"), .text = Intern(holder)});
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
