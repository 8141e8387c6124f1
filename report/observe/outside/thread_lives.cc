#include "report/observe/outside/thread_lives.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "report/base/thread_name.h"
#include "report/base/time_budget.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

constexpr size_t kMaxEndedNames = 1024;  // further ended threads have one name

struct CpuAndWait {
  double cpu_ns = 0, waited_ns = 0;
};
// Some kernels have no such file, or zeros.
CpuAndWait CpuAndWaitOf(const std::string& text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  CpuAndWait read;
  if (words.size() < 2 || !absl::SimpleAtod(words[0], &read.cpu_ns) || !absl::SimpleAtod(words[1], &read.waited_ns))
    return {};
  return read;
}

ThreadTime SumOf(uint32_t threads) {
  ThreadTime sum;
  sum.threads = threads;
  return sum;
}

}  // namespace

void ThreadLives::Read(pid_t pid, bool other_namespace) {
  std::map<pid_t, Life> alive;
  uint32_t left_out = 0;
  for (const auto& [thread, id] : ThreadsOf(pid, other_namespace)) {
    const auto before = alive_.find(thread);
    const bool has_room = alive.size() < kMost;
    std::string name;
    CpuAndWait used;
    std::optional<uint64_t> start_ticks;
    std::optional<int64_t> began;
    if (has_room) {
      // The start is read last: if it can be read, the thread had not ended before.
      used = CpuAndWaitOf(read_(pid, thread, "schedstat"));
      // Without its id, a thread would look like a sum of ended ones.
      if (id != 0) {
        const std::string stat = read_(pid, thread, "stat");
        name = NameInStat(stat);
        start_ticks = StartTicksOf(stat);
        began = began_(stat);
      }
    }
    // CPU times only grow. If the known one is greater, the file could not be read.
    const bool is_same = before != alive_.end() && start_ticks == before->second.start_ticks;
    if (!start_ticks.has_value() || !began.has_value() ||
        (is_same && used.cpu_ns < before->second.time.ns[static_cast<int>(ThreadDoes::kCpu)])) {
      // It has just ended, or we lack descriptors: the next call tells. Its last times are the last that are known.
      if (before != alive_.end()) {
        alive.insert(*before);
      } else if (!has_room) {
        ++left_out;
      }
      continue;
    }
    // Of this thread: on a busy machine it is seconds from the first thread to the last.
    const int64_t now_ns = NowNs(), wall_ns = NowNs(CLOCK_REALTIME);
    Life life{.name = std::move(name), .start_ticks = *start_ticks, .time = {}, .began_ns = *began};
    life.time.id = id;
    life.time.lived_ns = std::max(static_cast<double>(now_ns - *began), used.cpu_ns + used.waited_ns);
    life.time.began_wall_ns = wall_ns - (now_ns - *began);
    life.time.ns[static_cast<int>(ThreadDoes::kCpu)] = used.cpu_ns;
    life.time.ns[static_cast<int>(ThreadDoes::kRunnable)] = used.waited_ns;
    life.time.ns[static_cast<int>(ThreadDoes::kUnknown)] = life.time.lived_ns - used.cpu_ns - used.waited_ns;
    alive.emplace(thread, std::move(life));
  }
  if (alive.empty()) return;  // the process has ended: what was read last is the last that is known
  for (const auto& [thread, life] : alive_) {
    const auto now = alive.find(thread);
    if (now != alive.end() && now->second.start_ticks == life.start_ticks) continue;
    const bool may_be_added = ended_.size() < kMaxEndedNames || ended_.contains(life.name);
    ended_.try_emplace(may_be_added ? life.name : kOtherThreads, SumOf(0)).first->second.Add(life.time);
  }
  alive_ = std::move(alive);
  auto times = std::make_shared<ThreadTimes>();
  const auto add = [&](const std::string& name, ThreadTime time) {
    time.name = static_cast<uint32_t>(times->names.size());
    times->names.push_back(name);
    times->threads.push_back(std::move(time));
  };
  for (const auto& [thread, life] : alive_) add(life.name, life.time);
  for (const auto& [name, sum] : ended_) add(name, sum);
  if (left_out > 0) add(kOtherThreads, SumOf(left_out));
  times_ = std::move(times);
}

}  // namespace holdfast
