#include "report/builder/written_threads.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/base/printable.h"
#include "report/base/thread_name.h"
#include "report/builder/stack_interner.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kMaxThreadTimes = 1024, kMaxWholeTimes = 768, kMaxLanes = 256;

void AddTime(const record::ThreadTime& one, record::ThreadTime* sum) {
  sum->began_ns = sum->threads == 0 ? one.began_ns : std::min(sum->began_ns, one.began_ns);
  sum->threads += one.threads;
  sum->lived_ns += one.lived_ns;
  sum->cpu_ns += one.cpu_ns;
  sum->runnable_ns += one.runnable_ns;
  sum->lock_ns += one.lock_ns;
  sum->io_ns += one.io_ns;
  sum->sleep_ns += one.sleep_ns;
  sum->call_ns += one.call_ns;
  sum->stopped_ns += one.stopped_ns;
  sum->unknown_ns += one.unknown_ns;
}

// `threads`: the longest lifetimes first.
void SumShorterLives(std::vector<record::ThreadTime>* threads) {
  if (threads->size() <= kMaxThreadTimes) return;
  std::map<std::string, record::ThreadTime> sums;
  for (size_t i = kMaxWholeTimes; i < threads->size(); ++i) {
    std::string name = FoldedThreadName((*threads)[i].name);
    if (!sums.contains(name) && sums.size() + 1 >= kMaxThreadTimes - kMaxWholeTimes) name = kOtherThreads;
    record::ThreadTime& sum = sums.try_emplace(name, record::ThreadTime{.name = name}).first->second;
    AddTime((*threads)[i], &sum);
  }
  threads->resize(kMaxWholeTimes);
  for (auto& [name, sum] : sums) threads->push_back(std::move(sum));
}

}  // namespace

void AddThreadRecords(const ProcessState& state, const FramesOfStack& frames, Profile* profile) {
  constexpr size_t kMaxThreads = 256;
  constexpr size_t kMaxFrames = 20;  // frames between clone and a thread's own function
  std::map<std::vector<uint32_t>, uint32_t> stacks;
  record::Threads threads;
  for (size_t i = 0; i < state.thread_names.size(); ++i) {
    const NotedThreadInfo& thread = state.table->noted_threads[i];
    const std::string& name = state.thread_names[i];
    const StackInfo& info = state.stack(thread.stack);
    if (name.empty() || info.truncated || info.overflow || info.missing) continue;
    if (threads.thread.size() == kMaxThreads) break;
    std::vector<uint32_t> outer = frames(thread.stack);
    if (outer.size() > kMaxFrames) outer.erase(outer.begin(), outer.end() - kMaxFrames);
    const auto [place, added] = stacks.emplace(outer, static_cast<uint32_t>(stacks.size() + 1));
    threads.thread.push_back({.stack = place->second, .tid = thread.id, .name = Printable(name)});
    if (added) threads.stack.push_back(std::move(outer));
  }
  if (!threads.thread.empty()) profile->mutable_records()->threads = std::move(threads);
}

void AddThreadTimes(const ThreadTimes& times, Profile* profile) {
  record::ThreadTimes written{.looks = times.looks,
                              .unseen_cpu_ns = Rounded(times.unseen_cpu_ns),
                              .lane_start_ns = times.lane_start_wall_ns,
                              .lane_step_ns = times.lane_step_ns,
                              .unknown = times.unknown,
                              .most_unlisted = times.most_unlisted};
  for (const ThreadTime& one : times.threads) {
    const auto ns = [&one](ThreadDoes does) { return Rounded(one.ns[static_cast<int>(does)]); };
    written.thread.push_back({.name = Printable(times.names[one.name]),
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
  std::stable_sort(written.thread.begin(), written.thread.end(), [](const auto& a, const auto& b) {
    return std::pair(a.lived_ns, b.tid) > std::pair(b.lived_ns, a.tid);
  });
  SumShorterLives(&written.thread);
  for (size_t i = kMaxLanes; i < written.thread.size(); ++i) written.thread[i].lane.clear();
  profile->mutable_records()->thread_times = std::move(written);
}

}  // namespace holdfast
