#include "report/analysis/locks/lock_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/base/libc_names.h"

namespace holdfast {
namespace {

using Addresses = std::vector<uint64_t>;

Addresses AddressesOf(const Profile& profile, std::span<const uint32_t> frames) {
  Addresses addresses;
  for (const uint32_t frame : frames) addresses.push_back(profile.locations[frame].address);
  return addresses;
}

bool IsInLibc(const Profile& profile, const Profile::Location& location) {
  if (location.mapping == Profile::kNone) return false;
  const std::string_view file = profile.strings[profile.mappings[location.mapping].file];
  return IsFileOfGlibc(file) || IsFileOfMusl(file) || BaseName(file).starts_with("libpthread") ||
         IsHoldfastLibrary(file);
}

bool LocksOrUnlocks(const Profile& profile, const Profile::Location& location) {
  return std::ranges::any_of(profile.LinesOf(location), [&](const Profile::Line& line) {
    if (line.function == Profile::kNone) return false;
    const std::string_view name = profile.strings[profile.functions[line.function].name];
    return std::ranges::any_of(std::array<std::string_view, 4>{"mutex", "rwlock", "spin_", "lll_lock"},
                               [name](std::string_view part) { return name.find(part) != std::string_view::npos; });
  });
}

// Returns the stack of the caller, if the innermost frames are libc's functions that lock or unlock.
std::span<const uint32_t> CallerOfLock(const Profile& profile, std::span<const uint32_t> frames) {
  bool is_lock = false;
  while (!frames.empty() && IsInLibc(profile, profile.locations[frames[0]])) {
    is_lock = LocksOrUnlocks(profile, profile.locations[frames[0]]);
    frames = frames.subspan(1);
  }
  return is_lock ? frames : std::span<const uint32_t>();
}

}  // namespace

void AddCpuOfCalls(const Profile& locks, const Profile& cpu, LockList* list) {
  const auto metric = FindMetric(cpu, "cpu");
  if (!metric.ok()) return;
  std::map<Addresses, std::map<int, double>> locks_of_stack;  // with the delay of each
  const auto add = [&](int stack, int lock, double delay_ns) {
    if (stack == LockList::kUnknown) return;
    const Addresses addresses = AddressesOf(locks, list->stacks[static_cast<size_t>(stack)]);
    // A file may contain any number.
    constexpr double kMaxDelay = 1e18;
    if (!addresses.empty()) locks_of_stack[addresses][lock] += (delay_ns > 0 ? std::min(delay_ns, kMaxDelay) : 0) + 1;
  };
  for (const LockList::Pair& pair : list->pairs) {
    add(pair.holder, pair.lock, pair.delay_ns);
    // Pairs with a holder repeat a part of the delay of pairs without.
    add(pair.waiter, pair.lock, pair.holder == LockList::kUnknown ? pair.delay_ns : 0);
  }
  std::map<int, double> cpu_of_lock;
  for (size_t i = 0; i < cpu.samples.size(); ++i) {
    const std::span<const uint32_t> caller = CallerOfLock(cpu, cpu.FramesOf(cpu.samples[i]));
    if (caller.empty()) continue;
    const auto found = locks_of_stack.find(AddressesOf(cpu, caller));
    if (found == locks_of_stack.end()) continue;
    double all = 0;
    for (const auto& [lock, delay_ns] : found->second) all += delay_ns;
    for (const auto& [lock, delay_ns] : found->second)
      cpu_of_lock[lock] += static_cast<double>(cpu.ValuesOf(i)[*metric]) * delay_ns / all;
  }
  for (LockList::Lock& lock : list->locks) {
    const auto found = cpu_of_lock.find(lock.number);
    if (found != cpu_of_lock.end()) lock.call_cpu_ns = std::llround(found->second);
  }
}

void AddHolderStates(const Profile& wall, LockList* list) {
  std::map<std::pair<std::string, std::string>, LockList::HolderStates> by_lock;  // by address and kind
  for (size_t i = 0; i < wall.samples.size(); ++i) {
    std::string_view address, state, kind;
    for (const Profile::Label& label : wall.LabelsOf(wall.samples[i])) {
      const std::string_view key = wall.strings[label.key];
      if (key == "lock_address") address = wall.strings[label.text];
      if (key == "holder_state") state = wall.strings[label.text];
      if (key == "wait") kind = wall.strings[label.text];
    }
    if (address.empty()) continue;
    int64_t& ns = by_lock[{std::string(address), LockKindOf(kind)}][std::string(state)];
    ns = WrappedSum(ns, wall.ValuesOf(i)[0]);
  }
  for (LockList::Lock& lock : list->locks) {
    lock.lacks_holders = lock.locks > 1;  // its address is that of one of them
    const auto found = by_lock.find({lock.address, LockKindOf(lock.kind)});
    if (found != by_lock.end() && !lock.lacks_holders) lock.holder_does = found->second;
  }
}

std::string HolderStateText(std::string_view state) {
  constexpr std::string_view kCall = "syscall:";
  static constexpr std::pair<std::string_view, std::string_view> kTexts[] = {
      {"cpu", "on a CPU"},
      {"runnable", "waiting for a CPU"},
      {"lock", "waiting for another lock"},
      {"sleep", "asleep"},
      {"io", "in input and output"},
      {"stopped", "stopped"},
      {"free", "not there: the lock changed hands"},
      {"", "not known"}};
  for (const auto& [value, text] : kTexts) {
    if (state == value) return std::string(text);
  }
  return fmt::format("in {}", state.starts_with(kCall) ? state.substr(kCall.size()) : state);
}

std::string HolderStatesText(const LockList::HolderStates& states) {
  std::vector<std::pair<int64_t, std::string_view>> parts;
  double all = 0;
  for (const auto& [state, ns] : states) {
    parts.emplace_back(ns, state);
    all += static_cast<double>(ns);
  }
  std::ranges::sort(parts, std::greater<>());
  std::vector<std::string> texts;
  for (const auto& [ns, state] : parts) {
    const double share = all > 0 ? static_cast<double>(ns) / all : 0;
    if (share >= 0.01) texts.push_back(fmt::format("{} {:.0f} %", HolderStateText(state), 100 * share));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace holdfast
