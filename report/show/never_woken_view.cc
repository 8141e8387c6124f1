#include "report/show/never_woken_view.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "report/base/json_text.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"
#include "report/holders/never_woken.h"
#include "report/holders/unreachable.h"
#include "report/show/observed_process.h"
#include "report/show/unreachable_view.h"

namespace holdfast {
namespace {

// `stuck` answers at once for a program that hangs.
constexpr double kMaxWakeSeconds = 3;  // of CPU
constexpr uint64_t kMaxWakeBytes = 256 << 20;
constexpr double kMaxFalseThreads = 0.001;

// Returns whether a system call waits for a futex, without a timeout, that only this process can wake.
bool WaitsForever(const AddressSpace& space, const BlockedCall& call) {
  if (call.number != SYS_futex) return false;
  const uint64_t operation = call.arguments[1] & FUTEX_CMD_MASK;
  const bool waits = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET || operation == FUTEX_LOCK_PI ||
                     operation == FUTEX_LOCK_PI2;
  const MemoryMapping* mapping = space.MappingAt(call.arguments[0]);
  return waits && call.arguments[3] == 0 && mapping != nullptr && !mapping->shared;
}

// Returns whether the futex still has the value for which the call waits. Otherwise the call, which a stop interrupts,
// returns at once when it is resumed: another thread changed the value, and its wake-up found nobody in the kernel's queue.
bool StillWaits(AddressSpace& space, const BlockedCall& call) {
  const uint64_t operation = call.arguments[1] & FUTEX_CMD_MASK;
  if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) return true;  // no value to compare
  uint32_t value = 0;
  return !space.Read(call.arguments[0], &value, sizeof value) || value == static_cast<uint32_t>(call.arguments[2]);
}

std::string ThreadLabel(const TargetThread& thread) {
  return fmt::format("T{} {}", thread.number, Printable(thread.name));
}

class WokenSearch {
 public:
  explicit WokenSearch(ObservedProcess* process) : process_(*process), space_(*process->running()) {}

  absl::StatusOr<NeverWoken> Run(bool stop, const TracingRights* rights) {
    if (absl::Status status = space_.Refresh(); !status.ok()) return status;
    began_ = SleepersNow();
    if (began_.empty()) return found_;
    found_.stopped = stop;
    absl::Status status = stop ? SearchCopy(rights) : SearchRunning();
    if (!status.ok()) return status;
    // A thread that was woken meanwhile has another call, or none, or has run.
    if (status = space_.Refresh(); !status.ok()) return status;
    const Sleepers now = SleepersNow();
    for (const auto& [thread, lost] : lost_) {
      const Sleepers::const_iterator before = began_.find(thread), after = now.find(thread);
      if (before == began_.end() || after == now.end() || before->second.address != after->second.address) continue;
      if (!stop && before->second.switches != after->second.switches) continue;
      found_.threads.push_back(lost);
    }
    std::ranges::sort(found_.threads, {}, &LostThread::number);
    return std::move(found_);
  }

 private:
  struct Sleeper {
    uint64_t address, switches;
  };
  using Sleepers = std::map<pid_t, Sleeper>;  // by thread
  using LostThreads = std::map<pid_t, LostThread>;

  Sleepers SleepersNow() {
    Sleepers sleepers;
    for (const TargetThread& thread : space_.threads()) {
      const std::optional<BlockedCall> call = BlockedCallOf(space_.pid(), thread.id);
      const std::optional<ThreadSwitches> switches = SwitchesOf(space_.pid(), thread.id);
      if (call.has_value() && switches.has_value() && WaitsForever(space_, *call) && StillWaits(space_, *call))
        sleepers.emplace(thread.id, Sleeper{call->arguments[0], switches->count});
    }
    return sleepers;
  }

  // The waits of threads that slept at the beginning and still sleep, in a copy at the moment of the stop.
  std::vector<FutexWait> WaitsIn(const AddressSpace& space) const {
    std::vector<FutexWait> waits;
    for (uint32_t i = 0; i < space.threads().size(); ++i) {
      const TargetThread& thread = space.threads()[i];
      const auto sleeper = began_.find(thread.id);
      if (sleeper == began_.end() || thread.sp == 0) continue;
      if (found_.stopped ? SleptAtStop(thread, sleeper->second.address) : Sleeps(thread, sleeper->second.address))
        waits.push_back({i, sleeper->second.address});
    }
    return waits;
  }
  bool Sleeps(const TargetThread& thread, uint64_t address) const {
    const std::optional<BlockedCall> call = BlockedCallOf(space_.pid(), thread.id);
    return call.has_value() && call->arguments[0] == address && call->sp == thread.sp;
  }
  bool SleptAtStop(const TargetThread& thread, uint64_t address) const {
    const Sleepers::const_iterator at_stop = at_stop_.find(thread.id);
    return at_stop != at_stop_.end() && at_stop->second.address == address && thread.resumes_call;
  }

  absl::StatusOr<LostThreads> SearchOnce(AddressSpace* space, const HeapBlocksInput& input) {
    const std::vector<FutexWait> waits = WaitsIn(*space);
    const absl::StatusOr<WakeChances> chances = FindWakeChances(space, input, waits);
    if (!chances.ok()) return chances.status();
    found_.hidden_threads = chances->hidden_threads;
    found_.unknown = 0;
    LostThreads lost;
    for (size_t i = 0; i < waits.size(); ++i) {
      const WakeChance& chance = chances->of_waits[i];
      found_.unknown += chance.kind == WakeChance::kUnknown ? 1 : 0;
      if (chance.kind != WakeChance::kNever) continue;
      const TargetThread& thread = space->threads()[waits[i].thread];
      lost.emplace(thread.id, LostThread{.id = thread.inner_id,
                                         .number = thread.number,
                                         .name = thread.name,
                                         .address = waits[i].address,
                                         .waits_for = Describe(*space, waits[i], chance)});
    }
    return lost;
  }

  std::string Describe(const AddressSpace& space, const FutexWait& wait, const WakeChance& chance) {
    const TargetThread& owner = space.threads()[chance.owner];
    switch (chance.place) {
      case WakeChance::kEndOfThread:
        return fmt::format("the end of {}", ThreadLabel(owner));
      case WakeChance::kStack:
        return chance.owner == wait.thread ? fmt::format("{:#x}, on its own stack", wait.address)
                                           : fmt::format("{:#x}, on the stack of {}", wait.address, ThreadLabel(owner));
      case WakeChance::kFreedBlock:
        return fmt::format("{:#x}, in a freed block", wait.address);
      case WakeChance::kBlock: {
        const LiveBlock* recorded = process_.RecordedIn(chance.block);
        const std::string site = recorded == nullptr ? "" : process_.SiteOf(*recorded);
        const int64_t bytes = static_cast<int64_t>(chance.block.end - chance.block.start);
        return fmt::format("{:#x}, in a block of {}{}", wait.address, FormatSize(bytes),
                           site.empty() ? "" : fmt::format(" that {} allocated", site));
      }
      case WakeChance::kElsewhere:
        break;
    }
    return fmt::format("{:#x}", wait.address);
  }

  absl::Status SearchCopy(const TracingRights* rights) {
    const absl::StatusOr<ScanBudget> budget = BudgetFor("");
    if (!budget.ok()) return budget.status();
    const absl::StatusOr<StoppedCopy> copy =
        CopyStopped(&process_, budget->most_bytes, false, rights, [&] { at_stop_ = SleepersNow(); });
    if (!copy.ok()) return copy.status();
    absl::StatusOr<LostThreads> once = SearchOnce(copy->space.get(), copy->input);
    if (!once.ok()) return once.status();
    lost_ = *std::move(once);
    return absl::OkStatus();
  }

  absl::Status SearchRunning() {
    const ScanEstimate estimate = EstimateScan(&process_);
    if (estimate.cpu_seconds >= kMaxWakeSeconds || estimate.bytes >= kMaxWakeBytes) {
      return absl::ResourceExhaustedError(fmt::format(
          "threads that can never be woken were not searched, because that takes about {} of CPU: holdfast stuck --stop {}",
          FormatRoughTimeNs(static_cast<int64_t>(estimate.cpu_seconds * 1e9)), space_.pid()));
    }
    std::vector<uint64_t> dropped;
    for (int scan = 1; scan <= kMaxScans; ++scan) {
      const std::optional<uint64_t> before = space_.SwitchesWhileAsleep();
      const absl::StatusOr<HeapBlocksInput> input = process_.Prepare(false);
      if (!input.ok()) return input.status();
      absl::StatusOr<LostThreads> once = SearchOnce(&space_, *input);
      if (!once.ok()) return once.status();
      if (scan == 1) {
        lost_ = *std::move(once);
      } else {
        dropped.push_back(std::erase_if(lost_, [&](const auto& lost) { return !once->contains(lost.first); }));
      }
      const bool is_exact = before.has_value() && space_.SwitchesWhileAsleep() == before;
      if (lost_.empty() || is_exact || ExpectedFalse(dropped) < kMaxFalseThreads) return absl::OkStatus();
    }
    found_.unknown += static_cast<uint32_t>(lost_.size());  // not settled
    lost_.clear();
    return absl::OkStatus();
  }

  ObservedProcess& process_;
  ProcessAddressSpace& space_;
  Sleepers began_, at_stop_;
  LostThreads lost_;
  NeverWoken found_;
};

}  // namespace

absl::StatusOr<NeverWoken> FindNeverWoken(pid_t pid, const std::vector<std::string>& tables, bool stop,
                                          const TracingRights* rights) {
  const absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, tables);
  if (!process.ok()) return process.status();
  return WokenSearch(process->get()).Run(stop, rights);
}

std::string NeverWokenText(const NeverWoken& found, pid_t pid) {
  if (found.threads.empty()) return "";
  const size_t count = found.threads.size();
  const std::string threads = count == 1 ? std::string("1 thread waits") : fmt::format("{} threads wait", count);
  std::string text = fmt::format("never woken: no pointer found to what {} for\n", threads);
  if (!found.IsCertain() && found.stopped) {
    text = fmt::format(
        "never woken: cannot tell. No pointer found to what {} for, but {} could not be stopped\n", threads,
        found.hidden_threads == 1 ? std::string("1 thread") : fmt::format("{} threads", found.hidden_threads));
  } else if (!found.IsCertain()) {
    text = fmt::format(
        "never woken: cannot tell. No pointer found to what {} for, but {} may hold one: holdfast stuck --stop {} decides\n",
        threads,
        found.hidden_threads == 1 ? std::string("registers of another thread")
                                  : fmt::format("registers of {} other threads", found.hidden_threads),
        pid);
  }
  for (const LostThread& thread : found.threads)
    text += fmt::format("  T{} {} (tid {})  waits for {}\n", thread.number, Printable(thread.name), thread.id,
                        thread.waits_for);
  return text;
}

std::string NeverWokenJson(const NeverWoken& found) {
  JsonText json;
  json.Open('{').Key("certain").Bool(found.IsCertain()).Key("unknown").Number(int64_t{found.unknown});
  json.Key("threads").Open('[');
  for (const LostThread& thread : found.threads) {
    json.Open('{').Key("tid").Number(int64_t{thread.id}).Key("number").Number(int64_t{thread.number});
    json.Key("name").String(thread.name).Key("address").Number(static_cast<int64_t>(thread.address));
    json.Key("waits_for").String(thread.waits_for).Close('}');
  }
  return json.Close(']').Close('}').text();
}

}  // namespace holdfast
