#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/locks/calls_text.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/locks/stuck_words.h"
#include "report/base/printable.h"

namespace holdfast {
namespace {

constexpr size_t kMaxStuckShown = 12, kMaxNames = 6, kWidth = 100;

// Threads of any process that do the same.
struct Alike {
  std::string does, way;
  size_t depth = 0, threads = 0;
  std::vector<std::string> processes;
};

bool IsHeldUp(const StuckWords& words) {
  return std::any_of(words.list().waits.begin(), words.list().waits.end(),
                     [&](const record::Wait& wait) { return words.RankOf(wait) != WaitRank::kIdle; });
}

void AddThreads(const StuckWords& words, const std::string& process,
                std::map<std::pair<std::string, std::string>, Alike>* all) {
  for (uint32_t number = 1; number <= words.list().threads.size(); ++number) {
    const record::WaitingThread& thread = words.list().ThreadAt(number);
    if (words.list().IsWaiting(number) || thread.does.empty()) continue;
    const std::string way = words.Way(thread.stack);
    Alike& alike = (*all)[{thread.does, way}];
    alike.does = thread.does;
    alike.way = way;
    alike.depth = words.FunctionCount(thread.stack);
    ++alike.threads;
    if (alike.processes.empty() || alike.processes.back() != process) alike.processes.push_back(process);
  }
}

std::string ProcessNames(const std::vector<std::string>& processes) {
  const size_t shown = std::min(processes.size(), kMaxNames);
  std::string text =
      fmt::format("{}", fmt::join(processes.begin(), processes.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (processes.size() > shown) text += fmt::format(" and {} more", processes.size() - shown);
  return text;
}

}  // namespace

std::string StuckTextOfAll(const std::vector<StuckProcess>& processes, const CallsShown& shown) {
  std::string text;
  std::map<std::pair<std::string, std::string>, Alike> all;
  size_t unhindered = 0, idle = 0;
  for (const StuckProcess& process : processes) {
    const StuckWords words(process.profile, shown);
    if (IsHeldUp(words)) {
      text += StuckText(process.profile, process.name, shown) + "\n";
      continue;
    }
    ++unhindered;
    idle += words.list().waits.size();
    AddThreads(words, process.name, &all);
  }
  if (unhindered == 0) return text;
  text +=
      fmt::format("{}: no lock waits seen{}\n", unhindered == 1 ? "1 process" : fmt::format("{} processes", unhindered),
                  idle == 0 ? "" : fmt::format("; {} idle", idle));
  std::vector<Alike> sorted;
  sorted.reserve(all.size());
  for (auto& [key, alike] : all) sorted.push_back(std::move(alike));
  std::stable_sort(sorted.begin(), sorted.end(), [](const Alike& a, const Alike& b) {
    return std::tuple(b.depth, a.threads) < std::tuple(a.depth, b.threads);
  });
  size_t more = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Alike& alike = sorted[i];
    if (i >= kMaxStuckShown) {
      more += alike.threads;
      continue;
    }
    text += fmt::format("  {}{}: {}\n", alike.threads == 1 ? "" : fmt::format("{} threads, each ", alike.threads),
                        Printable(alike.does), ProcessNames(alike.processes));
    text += WrappedCalls(alike.way, "    ", kWidth);
  }
  if (more > 0) text += fmt::format("  and {} more {}: see --json\n", more, more == 1 ? "thread" : "threads");
  return text;
}

}  // namespace holdfast
