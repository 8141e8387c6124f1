#include "report/analysis/thread_names.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/locks/waiting_list.h"
#include "report/analysis/profiles/thread_start.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kMaxThreadNameLength = 15;  // TASK_COMM_LEN without the terminating zero
constexpr size_t kMaxThreadsShown = 4;

// Adds the names in the records.
void AddNoted(const Profile& profile, ThreadNames* names) {
  if (!profile.records().threads.has_value()) return;
  const record::Threads& threads = *profile.records().threads;
  std::vector<std::string> starts;  // by stack
  for (const std::vector<uint32_t>& stack : threads.stack) starts.push_back(ThreadStartOf(profile, stack));
  for (const record::NamedThread& thread : threads.thread) {
    if (thread.stack != 0 && thread.stack <= starts.size() && !thread.name.empty())
      (*names)[starts[thread.stack - 1]].insert(thread.name);
  }
}

// Splits "io-31" into "io-" and "31". The second part is empty if the name does not end with a number.
std::pair<std::string_view, std::string_view> NumberedName(std::string_view name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  return {name.substr(0, digits), name.substr(digits)};
}

// Merges names that differ only in their last number: "io-0 … io-31". Ordered by name.
std::vector<std::string> Grouped(const std::set<std::string>& names) {
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> groups;
  for (const std::string& name : names) {
    const auto [stem, number] = NumberedName(name);
    const auto known =
        std::find_if(groups.begin(), groups.end(), [&, same = stem](const auto& group) { return group.first == same; });
    (known != groups.end() ? *known : groups.emplace_back(stem, std::vector<std::string_view>()))
        .second.push_back(number);
  }
  std::vector<std::string> shown;
  for (auto& [stem, numbers] : groups) {
    std::sort(numbers.begin(), numbers.end(),
              [](std::string_view a, std::string_view b) { return std::pair(a.size(), a) < std::pair(b.size(), b); });
    if (numbers.size() < 3) {
      for (const std::string_view number : numbers) shown.push_back(fmt::format("{}{}", stem, number));
    } else {
      shown.push_back(fmt::format("{0}{1} … {0}{2}", stem, numbers.front(), numbers.back()));
    }
  }
  return shown;
}

}  // namespace

void AddThreadNames(const Profile& profile, ThreadNames* names) {
  AddNoted(profile, names);
  const std::string_view program = std::string_view(profile.process().program).substr(0, kMaxThreadNameLength);
  const WaitingList list = ReadWaitingList(profile);
  for (const record::Wait& wait : list.waits) {
    if (wait.thread == 0 || wait.stack == 0) continue;
    const std::string& name = list.ThreadAt(wait.thread).name;
    if (name.empty() || name == program) continue;
    (*names)[ThreadStartOf(profile, list.StackAt(wait.stack))].insert(name);
  }
}

std::string WithThreadNames(const std::string& start, const ThreadNames& names) {
  const auto found = names.find(start);
  if (found == names.end()) return start;
  std::vector<std::string> shown = Grouped(found->second);
  if (shown.size() > kMaxThreadsShown) {
    const size_t more = shown.size() - kMaxThreadsShown;
    shown.resize(kMaxThreadsShown);
    shown.back() += fmt::format(" and {} more", more);
  }
  return fmt::format("{}  ({})", start, fmt::join(shown, ", "));
}

}  // namespace holdfast
