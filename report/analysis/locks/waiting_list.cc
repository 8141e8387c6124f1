#include "report/analysis/locks/waiting_list.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

namespace holdfast {
namespace {

void Check(uint32_t* number, size_t count) { *number = *number > count ? 0 : *number; }

// Each thread of the cycle waits.
bool IsCycle(const WaitingList& list, const std::vector<uint32_t>& cycle) {
  return !cycle.empty() && std::all_of(cycle.begin(), cycle.end(),
                                       [&](uint32_t thread) { return thread != 0 && list.IsWaiting(thread); });
}

// Drops all but one deadlock of the same threads.
void DropRepeatedDeadlocks(WaitingList* list) {
  std::set<std::set<int64_t>> seen;
  std::erase_if(list->deadlocks, [&](const std::vector<uint32_t>& cycle) {
    std::set<int64_t> ids;
    for (const uint32_t thread : cycle) ids.insert(list->ThreadAt(thread).tid);
    return !ids.contains(0) && !seen.insert(std::move(ids)).second;
  });
}

}  // namespace

WaitingList ReadWaitingList(const Profile& profile) {
  if (!profile.records().waits.has_value()) return {};
  const record::Waits& read = *profile.records().waits;
  WaitingList list{.total = read.threads,
                   .not_written = read.not_written,
                   .threads = read.thread,
                   .waits = read.wait,
                   .wait_of = std::vector<uint32_t>(read.thread.size()),
                   .deadlocks = {},
                   .stacks = read.stack,
                   .unknown = read.unknown};
  for (record::WaitingThread& thread : list.threads) Check(&thread.stack, list.stacks.size());
  for (record::Wait& wait : list.waits) {
    Check(&wait.thread, list.threads.size());
    Check(&wait.holder, list.threads.size());
    Check(&wait.stack, list.stacks.size());
    if (wait.thread == 0) continue;
    // Takes the shorter of two: it belongs to a signal handler that interrupted the other.
    uint32_t& of_thread = list.wait_of[wait.thread - 1];
    if (of_thread == 0 || wait.delay_ns < list.waits[of_thread - 1].delay_ns)
      of_thread = static_cast<uint32_t>(&wait - list.waits.data() + 1);
  }
  for (const record::Deadlock& deadlock : read.deadlock) {
    std::vector<uint32_t> cycle = deadlock.thread;
    for (uint32_t& thread : cycle) Check(&thread, list.threads.size());
    if (IsCycle(list, cycle)) list.deadlocks.push_back(std::move(cycle));
  }
  DropRepeatedDeadlocks(&list);
  return list;
}

}  // namespace holdfast
