#include <time.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/cmd/commands.h"
#include "report/daemon/find_tables.h"
#include "report/run/doctor_surroundings.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/cpu_sampling.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/options.h"

namespace holdfast {
namespace {

constexpr uint32_t kHeapKinds = KindBit(ProfileKind::kHeap);
constexpr uint32_t kLockKinds = KindBit(ProfileKind::kMutex) | KindBit(ProfileKind::kBlock);

// The user's request: to set one or both intervals (each to a value, or to its last value before it was switched off),
// or to switch on or off reading which pages are resident, or looking at threads.
struct Wish {
  bool heap = false, back_on = false, cpu = false;
  uint64_t interval = 0;
  std::optional<bool> resident = {}, wall = {};
};

absl::StatusOr<std::vector<Wish>> ParseWish(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  const auto bad = [&](std::string_view takes) {
    return absl::InvalidArgumentError(fmt::format("\"{}\": {}", Printable(text), takes));
  };
  if (name == "heap-interval") {
    const absl::StatusOr<uint64_t> bytes = ParseByteSize(value);
    if (!bytes.ok()) return bad("heap-interval takes a size (B, KiB, MiB, GiB, KB, MB, GB; 0 = off)");
    return std::vector<Wish>{{.heap = true, .interval = *bytes}};
  }
  if (name == "lock-interval") {
    const absl::StatusOr<uint64_t> ns = ParseTimeNs(value);
    if (!ns.ok()) return bad("lock-interval takes a time (ns, us, ms, s, m, h; 0 = off)");
    return std::vector<Wish>{{.interval = *ns}};
  }
  if (name == "cpu") {
    uint64_t ns = 0;
    bool is_forced = false;
    if (value == "on" || value == "off")
      return std::vector<Wish>{{.cpu = true, .interval = CpuIntervalNs(value == "on" ? kDefaultCpuHz : 0)}};
    if (value.empty() || !ParseCpu(value.c_str(), &ns, &is_forced) || is_forced)
      return bad("cpu takes samples a second from 1 to 1000 (0 = off), on or off");
    return std::vector<Wish>{{.cpu = true, .interval = ns}};
  }
  if (name == "resident") {
    if (value != "on" && value != "off") return bad("resident takes on or off");
    return std::vector<Wish>{{.resident = value == "on"}};
  }
  if (name == "wall") {
    if (value != "on" && value != "off") return bad("wall takes on or off");
    return std::vector<Wish>{{.wall = value == "on"}};
  }
  for (const auto& [which, heap, lock] :
       {std::tuple("heap", true, false), {"lock", false, true}, {"all", true, true}}) {
    if (name != which) continue;
    if (value != "on" && value != "off") return bad(fmt::format("{} takes on or off", which));
    std::vector<Wish> wishes;
    if (heap) wishes.push_back({.heap = true, .back_on = value == "on"});
    if (lock) wishes.push_back({.back_on = value == "on"});
    return wishes;
  }
  return bad(
      "use heap-interval=SIZE, lock-interval=TIME, cpu=HZ, or wall, resident, heap, lock or all (heap and lock) with =on or "
      "=off");
}

// Returns the newest interval that was not "off", or `fallback`.
uint64_t LastInterval(const std::vector<IntervalChange>& changes, uint64_t fallback) {
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    if (change->interval != 0) return change->interval;
  }
  return fallback;
}

std::string Shown(bool heap, uint64_t interval) {
  const auto value = static_cast<int64_t>(interval);
  return interval == 0 ? "off" : heap ? FormatSize(value) : FormatTimeNs(value);
}

std::string ShownCpu(uint64_t interval_ns) {
  return interval_ns == 0 ? "off" : fmt::format("{} Hz", 1'000'000'000 / interval_ns);
}

// The process applies the change in its next slow path, if there is one.
absl::Status SendCpuWish(const ProcessTable& process, uint64_t interval_ns) {
  absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  if (interval_ns != 0 && (snapshot->profiles & kAttachedBit) != 0)
    return absl::UnavailableError("holdfast attach takes no CPU samples. Start it with holdfast run --cpu");
  // The process would say so in its next slow path; an idle one has none.
  if (interval_ns != 0 && CpuHindrance("self") == CpuState::kOtherProcessor)
    return absl::UnavailableError(kCpuStateTexts[static_cast<int>(CpuState::kOtherProcessor)]);
  const uint64_t before = snapshot->cpu_intervals.back().interval;
  const absl::StatusOr<bool> changed =
      process.table.ChangeInterval(TableFile::IntervalOf::kCpu, interval_ns, KindBit(ProfileKind::kCpu));
  if (!changed.ok()) return changed.status();
  constexpr int kLooks = 20;
  constexpr timespec kPause = {0, 10'000'000};
  for (int i = 0; i < kLooks; ++i) {
    snapshot = process.table.TakeSnapshot();
    if (!snapshot.ok()) return snapshot.status();
    if (!snapshot->cpu_is_pending) break;
    nanosleep(&kPause, nullptr);
  }
  if (!snapshot->cpu_is_pending && interval_ns != 0 && snapshot->cpu_state != CpuState::kOn)
    return absl::UnavailableError(kCpuStateTexts[static_cast<int>(snapshot->cpu_state)]);
  if (snapshot->cpu_is_pending) {
    Say(fmt::format("{}: cpu {} → {}: pending until its next slow path (a sampled allocation, a wait, a new thread).",
                    process.Name(), ShownCpu(before), ShownCpu(interval_ns)));
  } else if (!*changed) {
    Say(fmt::format("{}: cpu is already {}.", process.Name(), ShownCpu(interval_ns)));
  } else {
    Say(fmt::format("{}: cpu {} → {}, {} threads with a timer.", process.Name(), ShownCpu(before),
                    ShownCpu(interval_ns), snapshot->cpu_timers));
  }
  return absl::OkStatus();
}

absl::Status SendWish(const ProcessTable& process, const Wish& wish) {
  if (wish.cpu) return SendCpuWish(process, wish.interval);
  if (wish.resident.has_value()) {
    if (!process.table.SetResident(*wish.resident)) return absl::UnavailableError("cannot write its table");
    Say(fmt::format("{}: resident {} from its next snapshot on.", process.Name(), *wish.resident ? "on" : "off"));
    return absl::OkStatus();
  }
  if (wish.wall.has_value()) {
    if (!process.table.SetWall(*wish.wall)) return absl::UnavailableError("cannot write its table");
    Say(fmt::format("{}: wall {} from now on.", process.Name(), *wish.wall ? "on" : "off"));
    return absl::OkStatus();
  }
  const absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) return snapshot.status();
  const std::vector<IntervalChange>& changes = wish.heap ? snapshot->heap_intervals : snapshot->lock_intervals;
  uint64_t interval = wish.interval;
  if (wish.back_on) {
    interval = changes.back().interval != 0
                   ? changes.back().interval
                   : LastInterval(changes, wish.heap ? kDefaultHeapInterval : kDefaultLockIntervalNs);
  }
  const absl::StatusOr<bool> changed =
      process.table.ChangeInterval(wish.heap ? TableFile::IntervalOf::kHeap : TableFile::IntervalOf::kLocks, interval,
                                   wish.heap ? kHeapKinds : kLockKinds);
  if (!changed.ok()) return changed.status();
  const std::string name = wish.heap ? "heap-interval" : "lock-interval";
  if (!*changed) {
    Say(fmt::format("{}: {} is already {}.", process.Name(), name, Shown(wish.heap, interval)));
    return absl::OkStatus();
  }
  Say(fmt::format("{}: {} {} → {}, in each thread {}.", process.Name(), name, Shown(wish.heap, changes.back().interval),
                  Shown(wish.heap, interval),
                  wish.heap ? "within the next 1MiB that it allocates" : "from its next wait on"));
  return absl::OkStatus();
}

struct SetForAll {
  int alive = 0;
  bool failed = false;
};

// Prints the result of each wish.
bool Apply(const ProcessTable& process, const std::vector<Wish>& wishes) {
  bool done = true;
  if (IsDetached(process.table)) {
    Say(fmt::format("{}: is detached, so nothing is sampled. First: holdfast attach {}", process.Name(),
                    process.pid.value_or(static_cast<pid_t>(process.table.owner().pid))));
    return false;
  }
  for (const Wish& wish : wishes) {
    if (const absl::Status status = SendWish(process, wish); !status.ok()) {
      Say(fmt::format("{}: not changed ({}).", process.Name(), std::string(status.message())));
      done = false;
    }
  }
  return done;
}

SetForAll ApplyToOwn(const std::vector<Wish>& wishes, const std::vector<std::string>& folders) {
  SetForAll result;
  for (const ProcessTable& process : FindTables(folders).tables) {
    if (process.liveness == Liveness::kDead) continue;
    ++result.alive;
    result.failed = !Apply(process, wishes) || result.failed;
  }
  return result;
}

// For root: applies the wishes to the programs of all users. For each user, a child with that user's rights does it.
SetForAll ApplyToAll(const std::vector<Wish>& wishes, const std::vector<std::string>& folders) {
  SetForAll result = ApplyToOwn(wishes, folders);
  for (const uid_t user : OtherUsers(folders)) {
    const std::string answer = AnswerOfUser(user, 0, [&] {
      const SetForAll own = ApplyToOwn(wishes, folders);
      return fmt::format("{} {}", own.alive, static_cast<int>(own.failed));
    });
    int alive = 0, failed = 1;
    if (sscanf(answer.c_str(), "%d %d", &alive, &failed) != 2)
      Say(fmt::format("user {}: cannot read the tables of this user's programs.", user));
    result.alive += alive;
    result.failed = result.failed || failed != 0;
  }
  return result;
}

int RunSet(const std::vector<std::string>& words, bool all, const std::vector<std::string>& folders) {
  // Parse all PIDs and wishes before anything is changed.
  std::vector<pid_t> pids;
  std::vector<Wish> wishes;
  for (const std::string& word : words) {
    if (word.find('=') == std::string::npos) {
      const absl::StatusOr<pid_t> pid = ParsePid(word);
      if (!pid.ok()) throw CLI::ValidationError(std::string(pid.status().message()));
      pids.push_back(*pid);
      continue;
    }
    const absl::StatusOr<std::vector<Wish>> parsed = ParseWish(word);
    if (!parsed.ok()) throw CLI::ValidationError(std::string(parsed.status().message()));
    wishes.insert(wishes.end(), parsed->begin(), parsed->end());
  }
  if (wishes.empty()) throw CLI::ValidationError("nothing to set: give NAME=VALUE");
  if (all == !pids.empty()) throw CLI::ValidationError(all ? "both --all and a PID are given" : "name a PID, or --all");

  bool failed = false;
  const auto fail = [&failed](const std::string& line) {
    failed = true;
    Say(line);
  };
  if (all) {
    const SetForAll result = ApplyToAll(wishes, folders);
    failed = result.failed;
    if (result.alive == 0) Say("this user has no profiled process. Start one with: holdfast run -- PROGRAM");
  }
  for (const pid_t pid : pids) {
    if (const absl::Status status = BecomeUserOf(pid); !status.ok()) {
      fail(std::string(status.message()));
      continue;
    }
    const absl::StatusOr<ProcessTable> process = FindTableOf(pid, folders);
    if (process.ok()) {
      failed = !Apply(*process, wishes) || failed;
    } else {
      fail(std::string(process.status().message()));
    }
  }
  return Finished(failed ? kCouldNot : kFine);
}

}  // namespace

void AddSetCommand(CLI::App& app, Invocation* invocation) {
  auto words = std::make_shared<std::vector<std::string>>();
  auto folders = std::make_shared<std::vector<std::string>>();
  auto all = std::make_shared<bool>(false);
  CLI::App* set =
      app.add_subcommand("set", "Change the sampling intervals of running programs, or switch sampling off and on");
  set->footer(
      "Sends no signal: threads read the heap interval within the next 1 MiB that they allocate, and the lock interval at\n"
      "their next wait. Children forked later inherit these two. cpu= takes effect at the process's next slow path (a sampled\n"
      "allocation, a wait, a new thread): until then it is pending. A program that was attached takes no CPU samples.\n"
      "Estimates stay correct: each sample is weighted by its own interval, and profiles list every interval and when it\n"
      "began. The heap and lock intervals can be changed 31 times.\n"
      "\n"
      "  holdfast set 4242 heap-interval=64KiB        sample more often\n"
      "  holdfast set 4242 lock=off                   stop sampling locks\n"
      "  holdfast set 4242 cpu=100                    sample the CPU time of each thread, 100 times a second\n"
      "  holdfast set 4242 wall=on                    record where the time of each thread goes\n"
      "  holdfast set 4242 resident=on                add resident profiles to snapshots\n"
      "  holdfast set --all all=off cpu=off wall=off  stop all sampling in all programs\n"
      "  holdfast set --all all=on                    resume heap and locks with the previous intervals");
  // One positional list holds PIDs and settings, because CLI11 allows no '=' in the name of an argument.
  set->add_option(
         "PID", *words,
         "Process ids, and what to set: heap-interval=SIZE, lock-interval=TIME, cpu=HZ, or wall, resident, heap,\n"
         "lock or all (heap and lock) with =on or =off")
      ->type_name("NAME=VALUE");
  set->add_flag("--all", *all, "Every profiled process of this user (for root: of all users)");
  set->add_option("--tables", *folders, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  set->callback([words, folders, all, invocation] { invocation->exit_code = RunSet(*words, *all, *folders); });
}

}  // namespace holdfast
