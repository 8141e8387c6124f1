// `holdfast threads` without wall profiles: each wait counts once, and nothing is invented where no file says it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/run/doctor_surroundings.h"
#include "report/show/thread_table.h"
#include "report/show/threads_without_looks.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kPid = 42;

class ThreadsView : public ::testing::Test {
 protected:
  // A wait of work() for a lock of the given kind, with and without its holder, as a block profile has them.
  static Profile WaitsFor(const char* kind) {
    Profile p = StackProfile({{"work;load;std::mutex::lock()", 1}, {"work;evict;std::mutex::unlock()", 1}});
    for (size_t i = 0; i < p.samples.size(); ++i) {
      std::string text;
      for (const uint32_t frame : p.FramesOf(p.samples[i])) text += fmt::format(" 0x{:x}", p.locations[frame].address);
      p.AddComment(fmt::format("lock stack {}:{}", i + 1, text));
    }
    p.AddComment(fmt::format(
        "lock 1: {} 0x7f0000001000 contentions 10 delay_ns 3000000000 longest_ns 1 holds 1 hold_ns 1", kind));
    p.AddComment("lock pair 1: lock 1 holder - waiter 1 contentions 10 delay_ns 3000000000");
    p.AddComment("lock pair 2: lock 1 holder 2 waiter 1 contentions 10 delay_ns 3000000000");
    return p;
  }
  std::string Write(Profile p, const std::string& process, const std::string& kind,
                    const std::vector<record::ThreadTime>& threads = {}) {
    std::erase(p.comments, p.strings.Intern("kind: heap"));
    p.AddComment("kind: " + kind);
    p.AddComment("process: " + process);
    p = WithRecords(p);
    p.mutable_process()->pid = pid_;
    p.mutable_process()->profiled = {"block", "threads"};
    if (!threads.empty()) p.mutable_records()->thread_times = record::ThreadTimes{.thread = threads};
    return folder_.Write(fmt::format("app.{}.0001.{}.pb.gz", process, kind), EncodePprof(p));
  }
  std::string Threads(ThreadsOptions options) {
    options.files = {folder_.path()};
    options.color = "never";
    options.wide = true;
    const Result r = Catch([&](auto& out, auto& err) { return RunThreads(options, out, err); });
    EXPECT_EQ(r.exit_code, 0) << r.err;
    return r.out;
  }
  static size_t Count(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  Folder folder_;
  uint32_t pid_ = kPid;
};

TEST_F(ThreadsView, AWaitWithItsHolderCountsOnce) {
  Write(WaitsFor("mutex"), "1", "block",
        {{.name = "app", .tid = kPid, .threads = 1, .lived_ns = 5, .cpu_ns = 1},
         {.name = "worker-1", .tid = 43, .threads = 1, .lived_ns = 5, .cpu_ns = 1}});
  const std::string json = Threads({.format = "json"});
  EXPECT_THAT(json, HasSubstr("\"waited_ns\": 3000000000"));
  EXPECT_THAT(json, HasSubstr("\"waits\": 10"));
  EXPECT_THAT(Threads({}), HasSubstr("Threads that begin with work() waited 3s for locks"));
}

TEST_F(ThreadsView, EachThreadHasOneRow) {
  Write(WaitsFor("mutex"), "1", "block", {{.name = "app", .tid = kPid, .threads = 1, .lived_ns = 5, .cpu_ns = 1}});
  const std::string json = Threads({.format = "json", .each = true});
  EXPECT_EQ(Count(json, "\"thread\":"), 1u) << json;  // all threads have the program's name
  EXPECT_THAT(json, HasSubstr("\"tid\": 42"));
  EXPECT_THAT(json, HasSubstr("\"waited_ns\": 3000000000"));
}

TEST_F(ThreadsView, WithoutAListNoThreadIsInvented) {
  Write(WaitsFor("mutex"), "1", "block");
  const std::string json = Threads({.format = "json"});
  EXPECT_THAT(json, HasSubstr("\"threads\": null"));
  EXPECT_THAT(json, HasSubstr("\"lived_ns\": null"));
  EXPECT_THAT(json, HasSubstr("\"cpu_ns\": null"));
  EXPECT_EQ(Count(json, "\"thread\":"), 1u) << json;
  // The waits are not those of the program's name: nobody knows which names its threads had.
  EXPECT_THAT(Threads({}), HasSubstr("begin with work()"));
}

// The files of a live process list threads that have ended since.
TEST_F(ThreadsView, OfALiveProcessEndedThreadsRemain) {
  const auto self = static_cast<uint32_t>(getpid());
  pid_ = self;
  Write(StackProfile({{"work;load", 1}}), "1", "threads",
        {{.name = "app", .tid = self, .threads = 1, .lived_ns = 5},
         {.name = "ended", .tid = 2'000'000'000, .threads = 1, .lived_ns = 7'000'000'000, .cpu_ns = 3'000'000'000}});
  const auto set = ReadProfileSet({folder_.path()}, {});
  ASSERT_TRUE(set.ok());
  ThreadsOptions options;
  options.files = {fmt::format("{}", self)};
  const Result r = Catch([&](auto& out, auto& err) {
    return ShowThreadsWithoutLooks(*set, *StyleFor("json", "never"), options, out, err);
  });
  EXPECT_EQ(Count(r.out, "\"thread\":"), 2u) << r.out;  // this process's only thread is not there twice
  EXPECT_THAT(r.out, HasSubstr("\"thread\": \"ended\""));
  EXPECT_THAT(r.out, HasSubstr("\"cpu_ns\": 3000000000"));
}

// Samples have names but no thread ids.
TEST_F(ThreadsView, AWaitForALockThatIsNotKnownSaysSo) {
  Profile p = WithRecords(StackProfile({{"work;load", 1}}));
  std::erase(p.comments, p.strings.Intern("kind: heap"));
  p.mutable_process()->pid = kPid;
  p.mutable_process()->kind = "wall";
  p.mutable_records()->thread_times =
      record::ThreadTimes{.thread = {{.name = "[other threads]", .threads = 9, .lived_ns = 7, .lock_ns = 7},
                                     {.name = "reads", .tid = 43, .threads = 1, .lived_ns = 5, .io_ns = 5}},
                          .most_unlisted = 2};
  folder_.Write("app.1.0001.wall.pb.gz", EncodePprof(p));
  const std::string text = Threads({.each = true});
  EXPECT_THAT(text, HasSubstr("not known"));
  EXPECT_EQ(Count(text, "not known"), 1u) << text;
  EXPECT_THAT(text, HasSubstr("up to 2 threads could not be looked at"));
  EXPECT_THAT(Threads({.format = "json", .each = true}), HasSubstr("\"threads_unlisted\": 2"));
}

TEST_F(ThreadsView, ThatNobodyWaitedNeedsProof) {
  const std::string claim = "No thread waited for a lock";
  const std::vector<record::ThreadTime> threads = {{.name = "app", .tid = kPid, .threads = 1, .lived_ns = 5}};
  Write(StackProfile({{"work;load", 1}}), "1", "threads", threads);
  EXPECT_THAT(Threads({}), Not(HasSubstr(claim)));
  Write(WaitsFor("condition"), "1", "block", threads);
  EXPECT_THAT(Threads({}), HasSubstr(claim));
  Write(StackProfile({{"work;load", 1}}), "2", "threads", threads);
  EXPECT_THAT(Threads({}), Not(HasSubstr(claim))) << "of another process nothing is known";
  std::filesystem::remove(folder_.File("app.2.0001.threads.pb.gz"));
  Profile lossy = WaitsFor("condition");
  lossy.AddComment("lost lock-table-full: 407");
  Write(std::move(lossy), "1", "block", threads);
  EXPECT_THAT(Threads({}), Not(HasSubstr(claim)));
}

TEST_F(ThreadsView, AThreadWithANameInBracketsMayBeTheMostImportantOne) {
  Profile p = StackProfile({{"work;load", 1}});
  const std::vector<Profile::Label> labels = {
      {.key = p.strings.Intern("thread"), .text = p.strings.Intern("[worker]")},
      {.key = p.strings.Intern("state"), .text = p.strings.Intern("lock")},
      {.key = p.strings.Intern("lock"), .text = p.strings.Intern("cache_mutex")}};
  p.SetLabels(0, labels);
  Write(std::move(p), "1", "wall", {{.name = "[worker]", .tid = kPid, .threads = 1, .lived_ns = 1, .lock_ns = 1}});
  EXPECT_THAT(Threads({}), HasSubstr("Thread [worker] spends 100 % of its time waiting for cache_mutex"));
}

// Waits of threads "worker": of each, the lock and its share of the time.
Profile WaitsForLocks(const std::vector<std::pair<const char*, int64_t>>& locks) {
  std::vector<testing::Stack> stacks;
  for (const auto& [lock, ns] : locks) stacks.push_back({std::string("work;") + lock, ns, ns});
  Profile p = StackProfile(stacks);
  for (size_t i = 0; i < p.samples.size(); ++i) {
    const std::vector<Profile::Label> labels = {
        {.key = p.strings.Intern("thread"), .text = p.strings.Intern("worker")},
        {.key = p.strings.Intern("state"), .text = p.strings.Intern("lock")},
        {.key = p.strings.Intern("lock"), .text = p.strings.Intern(locks[i].first)},
        {.key = p.strings.Intern("holder"), .text = p.strings.Intern("evict")}};
    p.SetLabels(i, labels);
  }
  return p;
}

TEST_F(ThreadsView, OneOfSeveralLocksHasItsShareOnly) {
  const std::vector<record::ThreadTime> two = {{.name = "worker", .tid = kPid, .threads = 1, .lock_ns = 50},
                                               {.name = "worker", .tid = kPid + 1, .threads = 1, .lock_ns = 50}};
  Write(WaitsForLocks({{"a", 30}, {"b", 20}, {"c", 25}, {"d", 25}}), "1", "wall", two);
  EXPECT_THAT(Threads({}),
              HasSubstr("2 threads worker spend 100 % of their time waiting for locks, 30 % for a, held by evict()"));
  EXPECT_THAT(Threads({}), HasSubstr("30% a, held by evict()"));
  ThreadsOptions each;
  each.each = true;
  EXPECT_THAT(Threads(each), Not(HasSubstr("held by"))) << "nobody knows which of the two waited for which lock";
  Write(WaitsForLocks({{"a", 96}, {"b", 4}}), "1", "wall", two);
  EXPECT_THAT(Threads({}), HasSubstr("2 threads worker spend 100 % of their time waiting for a, held by evict()"));
}

// Threads "worker" in one system call each: of each stack, the time.
Profile CallsOf(const std::vector<std::pair<const char*, int64_t>>& stacks, const char* state = "syscall:futex") {
  std::vector<testing::Stack> all;
  for (const auto& [frames, ns] : stacks) all.push_back({frames, ns, ns});
  Profile p = StackProfile(all);
  const std::vector<Profile::Label> labels = {{.key = p.strings.Intern("thread"), .text = p.strings.Intern("worker")},
                                              {.key = p.strings.Intern("state"), .text = p.strings.Intern(state)}};
  for (size_t i = 0; i < p.samples.size(); ++i) p.SetLabels(i, labels);
  return p;
}

TEST_F(ThreadsView, WithoutRecordedWaitsNothingIsSaidAboutLocks) {
  const std::string claim = "No threads spend much of their time on a CPU, waiting for a lock or a CPU";
  const auto calls = [] { return CallsOf({{"work;epoll_wait", 100}}, "syscall:epoll_wait"); };
  Write(calls(), "1", "wall", {{.name = "worker", .tid = kPid, .threads = 1, .lived_ns = 100, .call_ns = 100}});
  EXPECT_THAT(Threads({}), HasSubstr(claim));
  EXPECT_THAT(Threads({}), Not(HasSubstr("note")));
  EXPECT_THAT(Threads({.format = "json"}), HasSubstr("\"locks_known\": true"));
  Profile p = WithRecords(calls());
  p.mutable_process()->kind = "wall";
  p.mutable_records()->thread_times = record::ThreadTimes{
      .thread = {{.name = "worker", .tid = kPid, .threads = 1, .lived_ns = 100, .call_ns = 100}}, .lacks_locks = true};
  std::erase(p.comments, p.strings.Intern("kind: heap"));
  folder_.Write("app.1.0001.wall.pb.gz", EncodePprof(p));
  EXPECT_THAT(Threads({}), Not(HasSubstr("waiting for a lock")));
  EXPECT_THAT(Threads({}), HasSubstr("No threads spend much of their time on a CPU, waiting for a CPU, or in input"));
  EXPECT_THAT(Threads({}), HasSubstr("\nnote     waits for locks were not always recorded"));
  EXPECT_THAT(Threads({.format = "json"}), HasSubstr("\"locks_known\": false"));
}

TEST_F(ThreadsView, SaysHowMuchWasSeenIfNoThreadStandsOut) {
  const auto write = [this](int64_t seen_ns) {
    Profile p = CallsOf({{"work;epoll_wait", seen_ns}, {"[not seen]", 1000 - seen_ns}}, "syscall:epoll_wait");
    const std::vector<Profile::Label> unknown = {
        {.key = p.strings.Intern("thread"), .text = p.strings.Intern("worker")},
        {.key = p.strings.Intern("state"), .text = p.strings.Intern("unknown")}};
    p.SetLabels(1, unknown);
    Write(std::move(p), "1", "wall",
          {{.name = "worker",
            .tid = kPid,
            .threads = 1,
            .lived_ns = 1000,
            .call_ns = seen_ns,
            .unknown_ns = 1000 - seen_ns}});
  };
  write(150);
  EXPECT_THAT(Threads({}), HasSubstr("or in input and output, in the 15 % of it that was seen"));
  write(550);
  EXPECT_THAT(Threads({}), Not(HasSubstr("that was seen")));
}

TEST_F(ThreadsView, FutexesOfNobodyKnowsWhatMayBeLocks) {
  const std::vector<record::ThreadTime> one = {{.name = "worker", .tid = kPid, .threads = 1, .call_ns = 100}};
  Write(CallsOf({{"work;syscall", 100}}), "1", "wall", one);
  const std::string says =
      "Thread worker spends 100 % of its time in futex waits that were not recorded: these may be for locks";
  EXPECT_THAT(Threads({}), HasSubstr(says));
  EXPECT_THAT(Threads({.each = true}), HasSubstr(says));
  Profile p = CallsOf({{"work;syscall", 100}});
  const auto labels = p.LabelsOf(p.samples[0]);
  std::vector<Profile::Label> with_wait(labels.begin(), labels.end());
  with_wait.push_back({.key = p.strings.Intern("wait"), .text = p.strings.Intern("condition")});
  p.SetLabels(0, with_wait);
  Write(std::move(p), "1", "wall", one);
  EXPECT_THAT(Threads({}), HasSubstr("No threads spend much of their time"));
}

TEST_F(ThreadsView, ManyThreadsThatStarveComeBeforeOneThatWaitsALittle) {
  Profile p = StackProfile({{"a", 10, 10}, {"b", 90, 90}, {"c", 400, 400}});
  const std::pair<const char*, const char*> states[] = {{"one", "lock"}, {"one", "io"}, {"many", "runnable"}};
  for (size_t i = 0; i < p.samples.size(); ++i) {
    const std::vector<Profile::Label> labels = {
        {.key = p.strings.Intern("thread"), .text = p.strings.Intern(states[i].first)},
        {.key = p.strings.Intern("state"), .text = p.strings.Intern(states[i].second)}};
    p.SetLabels(i, labels);
  }
  Write(std::move(p), "1", "wall");
  EXPECT_THAT(Threads({}), HasSubstr("Thread many spends 100 % of its time waiting for a CPU"));
}

// Waits of "short-1" for a CPU, and time in which nobody saw it.
Profile RarelySeen(int64_t waits_ns, int64_t between_looks_ns) {
  Profile p = StackProfile(
      {{"a", waits_ns, waits_ns}, {"b", 100, 100}, {"c", 1000, 1000}, {"d", between_looks_ns, between_looks_ns}});
  const std::pair<const char*, const char*> labels[] = {
      {"short-1", "runnable"}, {"short-1", "cpu"}, {"short-1", "unknown"}, {"[between looks]", "cpu"}};
  for (size_t i = 0; i < p.samples.size(); ++i) {
    const std::vector<Profile::Label> of = {
        {.key = p.strings.Intern("thread"), .text = p.strings.Intern(labels[i].first)},
        {.key = p.strings.Intern("state"), .text = p.strings.Intern(labels[i].second)}};
    p.SetLabels(i, of);
  }
  return p;
}

TEST_F(ThreadsView, OfThreadsThatWereRarelySeenTheSentenceSaysSo) {
  Write(RarelySeen(300, 1), "1", "wall");
  EXPECT_THAT(Threads({}), HasSubstr("Thread short-1 spends 75 % of the time in which it was seen waiting for a CPU"));
  Write(RarelySeen(300, 1000), "1", "wall");
  EXPECT_THAT(Threads({}), Not(HasSubstr("Thread short-1 spends")));
}

// Until 16 looks found a thread blocked, its time blocked is in no part.
TEST_F(ThreadsView, TimeBlockedThatIsNotDividedYetCountsInTheSentence) {
  Write(WaitsForLocks({{"a", 30}}), "1", "wall",
        {{.name = "worker", .tid = kPid, .threads = 1, .lived_ns = 100, .lock_ns = 30}});
  EXPECT_THAT(Threads({}), HasSubstr("Thread worker spends 30 % of its time waiting for a, held by evict()"));
}

TEST_F(ThreadsView, OneThreadHasItsWholeName) {
  Profile p = StackProfile({{"work;load", 1}});
  const std::vector<Profile::Label> labels = {{.key = p.strings.Intern("thread"), .text = p.strings.Intern("worker-3")},
                                              {.key = p.strings.Intern("state"), .text = p.strings.Intern("cpu")}};
  p.SetLabels(0, labels);
  Write(std::move(p), "1", "wall", {{.name = "worker-3", .tid = kPid, .threads = 1, .lived_ns = 1, .cpu_ns = 1}});
  EXPECT_THAT(Threads({}), HasSubstr("Thread worker-3 spends 100 % of its time on a CPU\n"));
  EXPECT_THAT(Threads({}), HasSubstr("\nworker-3 "));
}

TEST_F(ThreadsView, LocksThatLibcDoesNotKnowAreLocks) {
  Write(CallsOf({{"serve;cache::evict;std::sys::sync::mutex::futex::Mutex::lock_contended;libc.so.6!syscall", 75},
                 {"serve;poll_queue;libc.so.6!syscall", 25}}),
        "1", "wall",
        {{.name = "worker", .tid = kPid, .threads = 1, .lived_ns = 60, .call_ns = 60},
         {.name = "worker", .tid = kPid + 1, .threads = 1, .lived_ns = 40, .call_ns = 40}});
  EXPECT_THAT(Threads({}),
              HasSubstr("2 threads worker spend 75 % of their time waiting for a lock in cache::evict()\n"));
  EXPECT_THAT(Threads({}), HasSubstr("futex 25%"));
  const std::string each = Threads({.format = "json", .each = true});
  EXPECT_THAT(each, HasSubstr("\"lock_ns\": 45"));
  EXPECT_THAT(each, HasSubstr("\"syscall_ns\": 15"));
  EXPECT_THAT(each, HasSubstr("\"lock_ns\": 30"));
  EXPECT_THAT(each, HasSubstr("\"syscall_ns\": 10"));
}

TEST_F(ThreadsView, ProcessesWithoutAWallProfileAreMentioned) {
  Write(StackProfile({{"work;load", 1}}), "1", "wall");
  Write(StackProfile({{"work;load", 1}}), "2", "heap");
  EXPECT_THAT(Threads({}), HasSubstr("1 process without a wall profile is not shown"));
}

TEST(Surroundings, WhoMayNotLookIsSaid) {
  EXPECT_EQ(WhyNoCallsAreSeen({}), "");
  EXPECT_EQ(WhyNoCallsAreSeen({.is_root = true, .may_trace_all = true, .yama_scope = 2}), "");
  EXPECT_THAT(WhyNoCallsAreSeen({.is_same_user = true, .yama_scope = 1}), HasSubstr("run as root"));
  EXPECT_THAT(WhyNoCallsAreSeen({.is_root = true, .may_trace_all = true, .yama_scope = 3}), HasSubstr("next boot"));
}

}  // namespace
}  // namespace holdfast::testing
