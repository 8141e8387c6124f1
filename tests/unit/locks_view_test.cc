// `holdfast locks` in lines of 80, 100, 120 columns and without an end: the golden tables of tests/golden/locks_*.txt. What is
// idly waited for comes after every lock, whatever its delay, there and in `top`.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "fmt/format.h"
#include "report/analysis/locks/lock_list.h"
#include "report/show/locks.h"
#include "report/show/merge_command.h"
#include "report/show/top.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

constexpr char kHolder[] =
    "store::Table<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, Row, "
    "std::allocator<Row> >::Compact(std::vector<Row, std::allocator<Row> > const&)";

// Those of the samples, numbered from 1.
void AddLockStacks(Profile* profile) {
  for (size_t i = 0; i < profile->samples.size(); ++i) {
    std::string text;
    for (const uint32_t frame : profile->FramesOf(profile->samples[i]))
      text += fmt::format(" 0x{:x}", profile->locations[frame].address);
    profile->AddComment(fmt::format("lock stack {}:{}", i + 1, text));
  }
}

// A mutex profile: one lock is contended, one is inside a block, some threads park on futexes of their own, others contend
// for one futex, and all wait for work most of the time.
Profile LockProfile() {
  Profile p = StackProfile({{std::string("main;worker;std::mutex::lock()"), 10},
                            {std::string("main;") + kHolder + ";std::lock_guard<std::mutex>::~lock_guard()", 20},
                            {"main;accept_loop;std::condition_variable::wait(std::unique_lock<std::mutex>&)", 30},
                            {"main;park;std::sys::futex_wait", 40},
                            {"main;send;std::sys::futex_wake", 50},
                            {"main;update;std::sync::mutex::Mutex<T>::lock", 60},
                            {"main;update;std::sync::mutex::Mutex<T>::unlock", 70}});
  std::map<std::string, std::string> stacks;  // by the leaf's function
  AddLockStacks(&p);
  std::erase(p.comments, p.strings.Intern("kind: heap"));
  p.AddComment("kind: mutex");
  p.AddComment(
      "lock 1: condition 0x7f0000001000 contentions 400 delay_ns 90000000000 longest_ns 5000000000 holds 0 hold_ns 0");
  p.AddComment(
      "lock 2: futex 0x7f0000002000 contentions 70 delay_ns 60000000000 longest_ns 900000000 holds 70 hold_ns 1");
  p.AddComment(
      "lock 3: mutex 0x7f0000003000 contentions 5000 delay_ns 3000000000 longest_ns 80000000 holds 4000 hold_ns 1");
  p.AddComment("lock 3 wait_times: 196608:4500 917504:440 67108864:60");
  p.AddComment("lock 3 hold_times: held_ns 2900000000 longest_ns 70000000 196608:3950 58720256:50");
  p.AddComment("lock site 2 mutex hold_times: longest_ns 60000000 196608:1000.50 50331648:30");
  p.AddComment("lock site 1 mutex wait_times: longest_ns 80000000 196608:4500 67108864:60");
  p.AddComment("lock site 1 condition wait_times: longest_ns 99 64:1");
  p.AddComment("lock 3 name: rows_mutex_of_the_table (server)");
  p.AddComment("lock 4: futex 0x7f0000004000 contentions 300 delay_ns 20000000 longest_ns 900000 holds 300 hold_ns 1");
  p.AddComment(
      "lock 5: join 0x7f0000005000 contentions 1 delay_ns 95000000000 longest_ns 95000000000 holds 0 hold_ns 0");
  p.AddComment("lock pair 1: lock 3 holder 2 waiter - contentions 4000 delay_ns 3000000000");
  p.AddComment("lock pair 2: lock 3 holder - waiter 1 contentions 5000 delay_ns 3000000000");
  p.AddComment("lock pair 3: lock 1 holder - waiter 3 contentions 400 delay_ns 90000000000");
  p.AddComment("lock pair 4: lock 2 holder 5 waiter 4 contentions 70 delay_ns 60000000000");
  p.AddComment("lock pair 5: lock 4 holder 7 waiter 6 contentions 300 delay_ns 20000000");
  return p;
}

class LocksView : public ::testing::Test {
 protected:
  Result Locks(LocksOptions options) {
    options.files = {folder_.Write("app.1.0001.mutex.pb.gz", EncodePprof(LockProfile()))};
    options.color = "never";
    return Catch([&](std::ostream& out, std::ostream& err) { return RunLocks(options, out, err); });
  }
  std::string Write(const std::string& name, const std::string& process, int64_t time, Profile p) {
    p.AddComment("process: " + process);
    p.time_nanos = time;
    return folder_.Write(name, EncodePprof(p));
  }
  // What `locks --format csv` says of the files' sum or difference.
  std::string Merged(MergeMode mode, const std::vector<std::string>& files) {
    MergeOptions options{.mode = mode, .output = folder_.path() + "/merged.mutex.pb.gz"};
    options.view.files = files;
    const Result r = Catch([&](std::ostream& out, std::ostream& err) { return RunMerge(options, out, err); });
    EXPECT_EQ(r.exit_code, 0) << r.err;
    const LocksOptions locks{.files = {options.output}, .format = "csv", .color = "never", .each = true};
    return Catch([&](std::ostream& out, std::ostream& err) { return RunLocks(locks, out, err); }).out;
  }
  static std::string Golden(const std::string& name) {
    std::ifstream file(HOLDFAST_TESTS "/golden/" + name);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static size_t Columns(const std::string& line) {
    return static_cast<size_t>(
        std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  }
  Folder folder_;
};

TEST_F(LocksView, FitsEachWidthWithWhatAnswers) {
  for (const size_t width : {80, 100, 120}) {
    const Result r = Locks({.width = width});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_EQ(r.out, Golden(fmt::format("locks_{}.txt", width))) << width << "\n" << r.out;
    std::istringstream lines(r.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(Columns(line), width) << line;
    for (const char* title : {"waits", "total", "p99", "top holder", "top waiter", "lock"}) {
      EXPECT_NE(r.out.find(title), std::string::npos) << width << title;
    }
    // What is cut says so.
    for (const char* whole : {"rows_mutex_of_the_table (server)", "store::Table"}) {
      EXPECT_TRUE(r.out.find(whole) != std::string::npos || r.out.find("…") != std::string::npos) << width << whole;
    }
  }
}

TEST_F(LocksView, LocksWithoutRoomAreReported) {
  Profile p = LockProfile();
  std::erase(p.comments, p.strings.Intern("kind: mutex"));
  p.AddComment("kind: block");
  p.AddComment("lost lock-table-full: 407");
  const std::string file = Write("app.1.0001.block.pb.gz", "one", 1, std::move(p));
  LocksOptions options;
  options.files = {file};
  options.color = "never";
  const auto locks = [&] { return Catch([&](auto& out, auto& err) { return RunLocks(options, out, err); }).out; };
  const std::string text = locks();
  EXPECT_NE(text.find("\nlost     407 samples of locks that holdfast locks does not list: more than 4,096 locks"),
            std::string::npos)
      << text;
  options.format = "json";
  EXPECT_NE(locks().find("\"unlisted_samples\": 407"), std::string::npos) << locks();
}

TEST_F(LocksView, LossesOfAProcessWithoutListedLocksAreReported) {
  Profile p = LockProfile();
  std::erase_if(p.comments, [&p](auto comment) { return p.strings[comment].starts_with("lock "); });
  p.AddComment("lost lock-table-full: 407");
  LocksOptions options;
  options.files = {Write("app.1.0001.mutex.pb.gz", "one", 1, std::move(p))};
  options.color = "never";
  const auto locks = [&] { return Catch([&](auto& out, auto& err) { return RunLocks(options, out, err); }).out; };
  const std::string alone = locks();
  EXPECT_NE(alone.find("lost     407 samples of locks that holdfast locks does not list"), std::string::npos) << alone;
  EXPECT_EQ(alone.find("no thread waited for a lock"), std::string::npos) << alone;
  options.files.push_back(Write("other.2.0001.mutex.pb.gz", "two", 1, LockProfile()));
  const std::string both = locks();
  EXPECT_NE(both.find(": 407 samples of locks that holdfast locks does not list"), std::string::npos) << both;
  EXPECT_NE(both.find("rows_mutex_of_the_table"), std::string::npos) << both;
}

TEST_F(LocksView, AHolderIsFoundByTheFunctionThatItsUnlockIsInlinedInto) {
  Profile p = LockProfile();
  p.functions.push_back({.name = p.strings.Intern("app::Flush()")});
  for (Profile::Location& location : p.locations) {
    const auto lines = p.LinesOf(location);
    if (lines.empty() || !p.strings[p.functions[lines[0].function].name].starts_with("std::lock_guard")) continue;
    const Profile::Line both[] = {lines[0], {.function = static_cast<uint32_t>(p.functions.size() - 1)}};
    p.SetLines(&location, both);
  }
  LocksOptions options;
  options.files = {Write("app.1.0001.mutex.pb.gz", "one", 1, std::move(p))};
  options.color = "never";
  options.holder = "^app::Flush";
  const Result r = Catch([&](auto& out, auto& err) { return RunLocks(options, out, err); });
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.out.find("rows_mutex_of_the_table"), std::string::npos) << r.out;
}

TEST_F(LocksView, WideAndVerboseTellAll) {
  EXPECT_EQ(Locks({.wide = true, .width = 80}).out, Golden("locks_wide.txt")) << Locks({.wide = true, .width = 80}).out;
  const Result verbose = Locks({.details = true, .width = 80});
  EXPECT_NE(verbose.out.find(std::string("    holder  ") + kHolder), std::string::npos) << verbose.out;
  EXPECT_NE(verbose.out.find("    lock    mutex, rows_mutex_of_the_table (server)\n"
                             "    waits   p50 210us  p90 210us  p99 73ms  longest 80ms\n"
                             "    held    p50 210us  p90 210us  p99 63ms  longest 70ms\n"),
            std::string::npos)
      << verbose.out;
  EXPECT_NE(verbose.out.find("    waiter  worker\n      waits p50 210us  p90 210us  p99 73ms  longest 80ms\n"),
            std::string::npos)
      << verbose.out;
}

// Those who ask from a script, too: `COLUMNS=100 holdfast locks | less`.
TEST_F(LocksView, TheWidthIsThatOfColumnsWhereItIsGiven) {
  setenv("COLUMNS", "80", 1);
  EXPECT_EQ(Locks({}).out, Golden("locks_80.txt"));
  EXPECT_NE(Locks({.format = "csv"}).out.find("store::Table<std::__cxx11"), std::string::npos) << "programs get it all";
  setenv("COLUMNS", "many", 1);
  EXPECT_EQ(Locks({}).out, Golden("locks_wide.txt"));
  unsetenv("COLUMNS");
}

TEST_F(LocksView, MissingLengthsShowADashAndTheReason) {
  Profile p = LockProfile();
  p.AddComment("lock 3 wait_times: incomplete 196608:4500");
  const std::string file = folder_.Write("app.2.0001.mutex.pb.gz", EncodePprof(p));
  const LocksOptions options{.files = {file}, .color = "never", .details = true, .width = 80};
  const Result r = Catch([&](std::ostream& out, std::ostream& err) { return RunLocks(options, out, err); });
  EXPECT_NE(r.out.find("raise --max-memory"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("    waits   unknown: there was no space to count them all\n"), std::string::npos) << r.out;
}

TEST_F(LocksView, PlumbingIsFoldedUnlessAskedFor) {
  EXPECT_EQ(Locks({}).out.find("lock_guard"), std::string::npos);
  EXPECT_NE(Locks({.fold = false}).out.find("lock_guard"), std::string::npos);
  EXPECT_EQ(Locks({.plumbing = {"^park$"}}).out.find("park"), std::string::npos);
  EXPECT_EQ(Locks({.plumbing = {"("}}).exit_code, 2);
}

// The same program twice: a lock with a name is one, an address is another lock in each.
TEST_F(LocksView, MergeAddsLocksUpAndTheDifferenceTakesThemAway) {
  const std::string a = Write("a.1.0001.mutex.pb.gz", "h/1/1/1/a", 1000, LockProfile());
  const std::string b = Write("b.2.0001.mutex.pb.gz", "h/1/2/2/b", 1000, LockProfile());
  const std::string sum = Merged(MergeMode::kSum, {a, b});
  EXPECT_NE(sum.find("\nmutex,10000,6000000000,600000,212360,212360,73271475,80000000,5800000000,212360,"),
            std::string::npos)
      << sum;
  EXPECT_NE(sum.find("rows_mutex_of_the_table (server)"), std::string::npos) << sum;
  EXPECT_NE(sum.find(",accept_loop,"), std::string::npos) << "its waiter, by the stacks of the sum: " << sum;
  size_t futexes = 0;
  for (size_t at = 0; (at = sum.find("\nfutex,", at)) != std::string::npos; ++at) ++futexes;
  EXPECT_EQ(futexes, 4u) << sum;
  // Each row of the sum once more, as a later snapshot.
  Profile later = LockProfile();
  later.AddComment(
      "lock 6: mutex 0x7f0000009000 contentions 3 delay_ns 600000 longest_ns 300000 holds 3 hold_ns 500000");
  later.AddComment("lock 6 wait_times: 196608:2 262144:1");
  const std::string newer = Write("a.1.0002.mutex.pb.gz", "h/1/1/1/a", 2000, std::move(later));
  const std::string difference = Merged(MergeMode::kDifference, {a, newer});
  EXPECT_NE(difference.find("\nmutex,3,600000,200000,212360,300000,300000,300000,"), std::string::npos) << difference;
  EXPECT_EQ(difference.find("rows_mutex"), std::string::npos) << "nobody waited for it in between: " << difference;
}

// A deadlock that began before the interval, and a wait that was longest before it.
TEST_F(LocksView, ADifferenceKeepsWhoWaitsAndItsOwnLongestWait) {
  Profile older = LockProfile(), newer = LockProfile();
  const std::string lock =
      "lock {}: mutex 0x7f000000{}000 contentions {} delay_ns {}00000 longest_ns 300000 holds 3 hold_ns 5";
  for (Profile* of : {&older, &newer}) {
    const bool is_new = of == &newer;
    of->AddComment(fmt::format(fmt::runtime(lock), 6, 9, is_new ? 5 : 3, is_new ? 10 : 6));
    of->AddComment(is_new ? "lock 6 wait_times: 196608:4 262144:1" : "lock 6 wait_times: 196608:2 262144:1");
    of->AddComment(fmt::format(fmt::runtime(lock), 7, 8, 0, 0));
    of->AddComment(is_new ? "lock 7 waiting: 1 delay_ns 12000000000 longest_ns 12000000000"
                          : "lock 7 waiting: 1 delay_ns 2000000000 longest_ns 2000000000");
  }
  const std::string a = Write("a.1.0001.mutex.pb.gz", "h/1/1/1/a", 1000, std::move(older));
  const std::string b = Write("a.1.0002.mutex.pb.gz", "h/1/1/1/a", 2000, std::move(newer));
  const std::string difference = Merged(MergeMode::kDifference, {a, b});
  EXPECT_THAT(difference, ::testing::HasSubstr("\nmutex,2,400000,200000,212360,229376,229376,229376,")) << difference;
  EXPECT_THAT(difference, ::testing::HasSubstr("12000000000")) << difference;
}

// The frame is known only while its thread sleeps: the lock is the same one before and after.
TEST_F(LocksView, ALockInAFrameIsTheSameWhereItsFrameIsNotKnown) {
  Profile older = LockProfile(), newer = LockProfile();
  const std::string lock =
      "lock 6: mutex 0x7ffc00009000 contentions {} delay_ns {}00000 longest_ns 300000 holds 3 hold_ns 5";
  older.AddComment(fmt::format(fmt::runtime(lock), 3, 6));
  newer.AddComment(fmt::format(fmt::runtime(lock), 5, 8));
  newer.AddComment("lock 6 frame: 48 into it, stack 3");
  const std::string a = Write("a.1.0001.mutex.pb.gz", "h/1/1/1/a", 1000, std::move(older));
  const std::string b = Write("a.1.0002.mutex.pb.gz", "h/1/1/1/a", 2000, std::move(newer));
  const std::string difference = Merged(MergeMode::kDifference, {a, b});
  EXPECT_NE(difference.find("\nmutex,2,200000,"), std::string::npos) << difference;
  EXPECT_NE(difference.find("48 into the frame of accept_loop"), std::string::npos) << difference;
}

// Both sides are in one library. Only a name tells whether they are in one function.
TEST_F(LocksView, CodeWithoutANameMakesNoFutexALock) {
  const auto rank = [](const std::string& waits, const std::string& wakes) {
    Profile p = StackProfile({{"main;work;libxul.so!" + waits + ";libc.so.6!syscall", 10},
                              {"main;work;libxul.so!" + wakes + ";libc.so.6!syscall", 20}});
    AddLockStacks(&p);
    std::erase(p.comments, p.strings.Intern("kind: heap"));
    p.AddComment("kind: mutex");
    p.AddComment("lock 1: futex 0x7f0000001000 contentions 3 delay_ns 9000 longest_ns 5000 holds 3 hold_ns 1");
    p.AddComment("lock pair 1: lock 1 holder 2 waiter 1 contentions 3 delay_ns 9000");
    const Profile profile = WithRecords(p);
    Plumbing plumbing = Plumbing::Make(profile, {}).value();
    const LockList list = ReadLockList(profile, &plumbing);
    return list.locks.empty() ? WaitRank::kEvent : list.locks[0].rank;
  };
  EXPECT_EQ(rank("take", "take"), WaitRank::kLock);
  EXPECT_EQ(rank("libxul.so!0x10", "libxul.so!0x20"), WaitRank::kIdle);
}

TEST_F(LocksView, IdleWaitsComeLastInTop) {
  Profile p = LockProfile();
  const char* kinds[] = {"mutex", "mutex", "condition", "futex", "futex", "futex", "futex"};
  for (size_t i = 0; i < std::size(kinds); ++i) {  // the same once more, with what was waited for
    const Profile::Label label = {.key = p.strings.Intern("lock"), .text = p.strings.Intern(kinds[i])};
    const auto frames = p.FramesOf(p.samples[i]);
    const auto values = p.ValuesOf(i);
    p.AddSample(std::vector<uint32_t>(frames.begin(), frames.end()), std::vector<int64_t>(values.begin(), values.end()),
                {&label, 1});
    for (int64_t& value : p.ValuesOf(i)) value = 0;
  }
  TopOptions options{.files = {folder_.Write("app.1.0001.mutex.pb.gz", EncodePprof(p))}, .color = "never"};
  const Result r = Catch([&](std::ostream& out, std::ostream& err) { return RunTop(options, out, err); });
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_NE(r.out.find("biggest  update: "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("for locks, "), std::string::npos) << "which of them: " << r.out;
  EXPECT_NE(r.out.find("locks    "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("idle     120B of it"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("locks  self"), std::string::npos) << "what the rows are sorted by: " << r.out;
  // The condition is waited for longer than the lock; the futex that is an event, too.
  EXPECT_LT(r.out.find("~lock_guard"), r.out.find("condition_variable")) << r.out;
  EXPECT_LT(r.out.find("std::mutex::lock"), r.out.find("futex_wake")) << r.out;
}

}  // namespace
}  // namespace holdfast::testing
