#include "report/analysis/locks/wait_rank.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace holdfast {

namespace {

// Functions that wait for a condition or a futex in order to take a lock that libc does not know: those of Java, Rust's
// standard library and parking_lot. Rust's reader-writer lock is two futexes, and no function both waits for one and
// wakes the same one.
constexpr std::string_view kLockFunctions[] = {"ObjectMonitor::enter",
                                               "ObjectMonitor::EnterI",
                                               "ObjectMonitor::ReenterI",
                                               "Mutex::lock_contended",
                                               "RwLock::read_contended",
                                               "RwLock::write_contended",
                                               "RawMutex::lock_slow",
                                               "RawRwLock::lock_shared_slow",
                                               "RawRwLock::lock_exclusive_slow",
                                               "RawRwLock::lock_upgradable_slow"};
// Functions that wait for a futex until another thread has something to tell: conditions and parked threads of Rust's
// standard library and of parking_lot. The thread that wakes the waiter held nothing.
constexpr std::string_view kEventFunctions[] = {
    "Condvar::wait",       "Condvar::wait_timeout", "Condvar::wait_optional_timeout", "Condvar::wait_until_internal",
    "thread::park",        "thread::park_timeout",  "thread::current::park",          "Parker::park",
    "Parker::park_timeout"};
// Threads of OpenJDK (8 to 21) and node; the kernel truncates names to 15 bytes. A final "*" matches any text.
constexpr std::string_view kRuntimeThreads[] = {
    "Finalizer",       "Reference Handl", "Common-Cleaner",  "Signal Dispatch", "Service Thread",
    "Notification Th", "VM Thread",       "VM Periodic Tas", "Attach Listener", "Sweeper thread",
    "Monitor Deflat*", "C1 Compiler*",    "C2 Compiler*",    "GC Thread#*",     "G1 *",
    "Shenandoah*",     "ZWorker*",        "ZDriver*",        "ZDirector*",      "ZUncommitter*",
    "ZStat*",          "Concurrent*",     "GC task thread*", "DelayedTaskSche", "V8 DefaultWorke"};

bool IsOneOf(std::span<const std::string_view> functions, std::string_view name) {
  // Newer Rust: <std::sys::sync::rwlock::futex::RwLock>::read_contended.
  std::string plain(name.substr(0, name.find('(')));
  if (const size_t type = plain.find(">::"); plain.starts_with('<') && type != std::string::npos) plain.erase(type, 1);
  return std::ranges::any_of(functions, [&plain](std::string_view known) {
    return plain.ends_with(known) &&
           (plain.size() == known.size() ||
            std::string_view(":<").find(plain[plain.size() - known.size() - 1]) != std::string_view::npos);
  });
}

enum class Purpose : uint8_t { kUnknown, kLock, kEvent };

// A thread that has been told of an event may wait for the lock of a condition: the innermost known function decides.
Purpose PurposeOf(const Profile& profile, std::span<const uint32_t> stack) {
  for (const uint32_t frame : stack) {
    for (const Profile::Line& line : profile.LinesOf(profile.locations[frame])) {
      if (line.function == Profile::kNone) continue;
      const std::string_view name = profile.strings[profile.functions[line.function].name];
      if (IsOneOf(kLockFunctions, name)) return Purpose::kLock;
      if (IsOneOf(kEventFunctions, name)) return Purpose::kEvent;
    }
  }
  return Purpose::kUnknown;
}

}  // namespace

bool IsRuntimeThread(std::string_view name) {
  return std::any_of(std::begin(kRuntimeThreads), std::end(kRuntimeThreads), [name](std::string_view known) {
    return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1)) : name == known;
  });
}

bool TakesALock(const Profile& profile, std::span<const uint32_t> stack) {
  return PurposeOf(profile, stack) == Purpose::kLock;
}

bool WaitsForAnEvent(const Profile& profile, std::span<const uint32_t> stack) {
  return PurposeOf(profile, stack) == Purpose::kEvent;
}

WaitRank RankOfUnheld(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing) {
  if (TakesALock(profile, stack)) return WaitRank::kLock;
  return IsInOwnLoop(profile, stack, since_start, plumbing) ? WaitRank::kIdle : WaitRank::kEvent;
}

size_t OwnFunctions(const Profile& profile, std::span<const uint32_t> stack, Plumbing* plumbing) {
  size_t functions = 0;
  for (const uint32_t frame : stack) {
    const Profile::Location& location = profile.locations[frame];
    if (location.lines == 0) functions += plumbing->HoldsObject(location.mapping) ? 0 : 1;
    for (const Profile::Line& line : profile.LinesOf(location)) {
      if (line.function != Profile::kNone) functions += plumbing->Holds(line.function, location.mapping) ? 0 : 1;
    }
  }
  return functions;
}

bool IsInOwnLoop(const Profile& profile, std::span<const uint32_t> stack, bool since_start, Plumbing* plumbing) {
  constexpr std::string_view kTruncatedName = "[truncated]";  // the outermost frame of a truncated stack
  if (stack.empty()) return false;
  for (const Profile::Line& line : profile.LinesOf(profile.locations[stack.back()])) {
    if (line.function != Profile::kNone && profile.strings[profile.functions[line.function].name] == kTruncatedName)
      return false;
  }
  return OwnFunctions(profile, stack, plumbing) <= (since_start ? kStartFunctions : kLoopFunctions);
}

}  // namespace holdfast
