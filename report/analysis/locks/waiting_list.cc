#include "report/analysis/locks/waiting_list.h"

#include <algorithm>
#include <set>

#include "fmt/format.h"

namespace holdfast {
namespace {

// Files may say anything: a number out of range becomes unknown.
int IndexOfNumber(uint32_t number, size_t count) {
  return number == 0 || number > count ? WaitingList::kUnknown : static_cast<int>(number - 1);
}

// Each thread of the circle waits.
bool IsCircle(const WaitingList& list, const std::vector<int>& circle) {
  return !circle.empty() && std::all_of(circle.begin(), circle.end(), [&](int thread) {
    return thread != WaitingList::kUnknown && list.threads[static_cast<size_t>(thread)].wait != WaitingList::kUnknown;
  });
}

// Drops all but one deadlock of the same threads.
void DropRepeatedDeadlocks(WaitingList* list) {
  std::set<std::set<int64_t>> seen;
  std::erase_if(list->deadlocks, [&](const std::vector<int>& circle) {
    std::set<int64_t> ids;
    for (const int thread : circle) ids.insert(list->threads[static_cast<size_t>(thread)].tid);
    return !ids.contains(0) && !seen.insert(std::move(ids)).second;
  });
}

}  // namespace

WaitingList ReadWaitingList(const Profile& profile) {
  WaitingList list;
  if (!profile.records().waits.has_value()) return list;
  const record::Waits& read = *profile.records().waits;
  list.total = read.threads;
  list.not_written = read.not_written;
  list.unknown = read.unknown;
  list.stacks = read.stack;
  for (const record::WaitingThread& thread : read.thread) {
    list.threads.push_back({.tid = thread.tid,
                            .number = static_cast<int>(std::min<uint32_t>(thread.number, INT32_MAX)),
                            .gone = thread.gone,
                            .since_start = thread.since_start,
                            .name = thread.name,
                            .labels = thread.labels,
                            .does = thread.does,
                            .polls = thread.polls,
                            .stack = IndexOfNumber(thread.stack, read.stack.size())});
  }
  for (const record::Wait& wait : read.wait) {
    list.waits.push_back(
        {.thread = IndexOfNumber(wait.thread, read.thread.size()),
         .kind = wait.kind,
         .address = fmt::format("0x{:x}", wait.address),
         .lock = wait.lock == 0 ? WaitingList::kUnknown : static_cast<int>(std::min<uint32_t>(wait.lock, INT32_MAX)),
         .delay_ns = wait.delay_ns,
         .stack = IndexOfNumber(wait.stack, read.stack.size()),
         .holder = IndexOfNumber(wait.holder, read.thread.size()),
         .source = wait.source,
         .readers = wait.readers,
         .owner_died = wait.owner_died});
    if (list.waits.back().thread == WaitingList::kUnknown) continue;
    // Of two the shorter one: it belongs to a signal handler that interrupted the other.
    int& of_thread = list.threads[static_cast<size_t>(list.waits.back().thread)].wait;
    if (of_thread == WaitingList::kUnknown || wait.delay_ns < list.waits[static_cast<size_t>(of_thread)].delay_ns)
      of_thread = static_cast<int>(list.waits.size() - 1);
  }
  for (const record::Deadlock& deadlock : read.deadlock) {
    std::vector<int> circle;
    for (const uint32_t thread : deadlock.thread) circle.push_back(IndexOfNumber(thread, read.thread.size()));
    if (IsCircle(list, circle)) list.deadlocks.push_back(std::move(circle));
  }
  DropRepeatedDeadlocks(&list);
  return list;
}

}  // namespace holdfast
