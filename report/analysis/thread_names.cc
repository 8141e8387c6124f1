#include "report/analysis/thread_names.h"

#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/waiting_list.h"
#include "report/profiles/thread_start.h"

namespace holdfast {
namespace {

constexpr size_t kMostOfAThread = 15;  // TASK_COMM_LEN, and its end
constexpr size_t kMostShown = 4;

}  // namespace

void AddThreadNames(const Profile& profile, ThreadNames* names) {
  const std::string_view program = profile.CommentValue("program").substr(0, kMostOfAThread);
  const WaitingList list = ReadWaitingList(profile);
  for (const WaitingList::Wait& wait : list.waits) {
    if (wait.thread == WaitingList::kUnknown || wait.stack == WaitingList::kUnknown) continue;
    const std::string& name = list.threads[static_cast<size_t>(wait.thread)].name;
    if (name.empty() || name == program) continue;
    (*names)[ThreadStartOf(profile, list.stacks[static_cast<size_t>(wait.stack)])].insert(name);
  }
}

std::string WithThreadNames(const std::string& start, const ThreadNames& names) {
  const auto found = names.find(start);
  if (found == names.end()) return start;
  std::vector<std::string> shown(found->second.begin(), found->second.end());
  if (shown.size() > kMostShown) {
    const size_t more = shown.size() - kMostShown;
    shown.resize(kMostShown);
    shown.back() += fmt::format(" and {} more", more);
  }
  return fmt::format("{}  ({})", start, fmt::join(shown, ", "));
}

}  // namespace holdfast
