// Programs that hang: `holdfast stuck` and snapshots name who waits, for what, since when, and who holds it.
#include <signal.h>

#include <regex>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const Options kLocksOnly = {{"heap-interval", "0"}, {"snapshot-every", "0"}};

class Stuck : public Profiled {
 protected:
  // Starts tests/programs/stuck in this way, and asks until the answer holds `text`: threads come to where they stay at
  // different moments.
  RunResult Ask(const Running& program, const std::string& text, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments = {"stuck", "--tables", tables(), std::to_string(program.pid())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    RunResult answer;
    Eventually([&] {
      answer = RunTool(arguments);
      return answer.out.find(text) != std::string::npos;
    });
    return answer;
  }
  std::unique_ptr<Running> Start(std::vector<std::string> arguments, const Options& options = kLocksOnly,
                                 Launch launch = Launch::kPreload) {
    auto running = std::make_unique<Running>(CommandFor(launch, std::move(arguments), options));
    EXPECT_TRUE(running->WaitForOutput("ready"));
    return running;
  }
  void KillAndSettle(Running* running) {
    running->Signal(SIGKILL);
    running->HoldInput();
    running->Wait();
    EXPECT_TRUE(Settled());
  }
  // Of samples in progress, or of the others.
  static Values Sum(const Decoded& block, const std::string& function, bool waiting) {
    Values sum = {{"contentions", 0}, {"delay", 0}};
    for (const DecodedSample& sample : block.samples) {
      if (!sample.Has(function) || (sample.labels.count("state") != 0) != waiting) continue;
      for (const auto& [type, value] : sample.values) sum[type] += value;
    }
    return sum;
  }
};

TEST_F(Stuck, TwoThreadsInTwoOrdersAreADeadlockAndShownFirst) {
  const auto program = Start({"stuck", "abba"});
  const RunResult answer = Ask(*program, "deadlock: 2");
  EXPECT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out,
              ContainsRegex("deadlock: 2 threads wait for each other, since [0-9.]+m?s\n"
                            "  T2 transfers \\(tid [0-9]+\\)  holds  accounts_mutex \\(stuck\\)  waits for  "
                            "audit_mutex \\(stuck\\)     transfer ← run_transfers\n"
                            "  T3 audits \\(tid [0-9]+\\)     holds  audit_mutex \\(stuck\\)     waits for  "
                            "accounts_mutex \\(stuck\\)  audit ← run_audits\n"));
  const std::string json = Ask(*program, "\"deadlocks\":[{", {"--json"}).out;
  EXPECT_THAT(json, HasSubstr("\"name\":\"transfers\""));
  EXPECT_THAT(json, HasSubstr("\"lock\":\"audit_mutex (stuck)\""));

  // Its own functions as plumbing, and everything.
  EXPECT_THAT(Ask(*program, "deadlock: 2", {"--plumbing", "^transfer$"}).out, ContainsRegex("   run_transfers\n"));
  EXPECT_THAT(Ask(*program, "deadlock: 2", {"--fold", "none"}).out,
              ContainsRegex("transfer ← run_transfers ← .*start_thread"));
  const RunResult bad = Ask(*program, "", {"--plumbing", "("});
  EXPECT_TRUE(bad.exited(2)) << bad.Describe();
  EXPECT_THAT(bad.err, HasSubstr("--plumbing ("));

  // A snapshot contains the deadlock, too, and every view of the snapshot says so first.
  const RunResult dump = RunTool({"dump", "--tables", tables(), std::to_string(program->pid())});
  EXPECT_TRUE(dump.exited(0)) << dump.Describe();
  EXPECT_THAT(dump.err, HasSubstr("deadlock: 2 threads wait for each other, since "));
  EXPECT_THAT(RunTool({"locks", out()}).out, StartsWith("deadlock: 2 threads wait for each other, since "));
  EXPECT_THAT(RunTool({"info", out()}).out, StartsWith("deadlock: 2 threads wait for each other, since "));
  ASSERT_EQ(NewestBlock().size(), 1u);
  for (const char* function : {"transfer", "audit"}) {
    EXPECT_EQ(Sum(NewestBlock()[0], function, true)["contentions"], 1) << AllSummaries();
    EXPECT_EQ(Sum(NewestBlock()[0], function, false)["contentions"], 0) << AllSummaries();
  }
  KillAndSettle(program.get());
  // What was known when it was killed is in the last profile.
  EXPECT_THAT(RunTool({"locks", out()}).out, StartsWith("deadlock: 2 threads wait for each other, since "));
}

TEST_F(Stuck, RootLooksIntoAServerThatChangedItsUser) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  chmod(tables().c_str(), 01777);
  const auto program = Start({"stuck", "abba", "as", "4242"});
  const RunResult answer = Ask(*program, "deadlock: ");
  EXPECT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("holds  accounts_mutex (stuck)  waits for  audit_mutex (stuck)"));
  EXPECT_THAT(answer.out, Not(HasSubstr("is unknown"))) << answer.out;
}

TEST_F(Stuck, EveryKindOfMutexThatNamesItsOwnerIsUnderstood) {
  for (const char* kind : {"recursive", "errorcheck", "inherit"}) {
    const auto program = Start({"stuck", kind});
    const RunResult answer = Ask(*program, "deadlock: 2");
    EXPECT_TRUE(answer.exited(1)) << kind << answer.Describe();
    EXPECT_THAT(answer.out, HasSubstr("transfer ← run_transfers")) << kind;
    EXPECT_THAT(answer.out, HasSubstr("audit ← run_audits")) << kind;
    KillAndSettle(program.get());
  }
}

TEST_F(Stuck, ACircleOfThreeIsOneDeadlock) {
  const auto program = Start({"stuck", "three"});
  const RunResult answer = Ask(*program, "deadlock: 3");
  EXPECT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("deadlock: 3 threads wait for each other, since "));
  EXPECT_THAT(answer.out, HasSubstr("transfer ← run_transfers"));
  EXPECT_THAT(answer.out, HasSubstr("post_to_ledger ← run_three_audits"));
  EXPECT_THAT(answer.out, HasSubstr("audit ← run_ledger"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, AThreadThatWaitsForItsOwnMutexWaitsForItself) {
  const auto program = Start({"deadlock"});
  const RunResult answer = Ask(*program, "deadlock: 1");
  EXPECT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("deadlock: 1 thread waits for itself, since "));
  EXPECT_THAT(answer.out, HasSubstr("main"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, MainThatJoinsAThreadThatWaitsForMainIsADeadlock) {
  const auto program = Start({"stuck", "joins"});
  const RunResult answer = Ask(*program, "deadlock: 2");
  EXPECT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out,
              ContainsRegex("T1 joins .* holds .*accounts_mutex \\(stuck\\) .*waits for +the end of T2 worker"));
  EXPECT_THAT(answer.out, ContainsRegex("T2 worker .* must exit .*want_accounts"));
  KillAndSettle(program.get());
}

// musl's normal mutexes do not name their holders, and a join waits for a number that is no thread's id.
TEST_F(Stuck, MuslsMutexIsHeldAndTheJoinedThreadIsFound) {
  const auto program = Start({"musl_stuck", "joins_last"});
  const RunResult answer = Ask(*program, "want_accounts");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("its holder is not known"));
  EXPECT_THAT(answer.out, Not(HasSubstr("not held")));
  EXPECT_THAT(Ask(*program, "the end of", {"--json"}).out, HasSubstr("the end of T3 sleeper"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, TheLastOfThreeThreadsIsTheJoinedOne) {
  const auto program = Start({"stuck", "joins_last"});
  const RunResult answer = Ask(*program, "the end of");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, ContainsRegex("the end of T3 sleeper \\(tid [0-9]+\\): 1 thread waits"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, AReaderWaitsForAWriterThatWaitsForACondition) {
  const auto program = Start({"stuck", "chain"});
  const RunResult answer = Ask(*program, "look_up");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, Not(HasSubstr("deadlock")));
  EXPECT_THAT(answer.out, HasSubstr("rwlock-read table_lock (stuck): 1 thread waits, for "));
  EXPECT_THAT(answer.out, ContainsRegex("held by T2 writer \\(tid [0-9]+\\), which waits for condition ready_condition "
                                        "\\(stuck\\): wait_until_ready ← update_table"));
  EXPECT_THAT(answer.out, ContainsRegex("T3 reader .*look_up ← serve_reads"));
  // Who holds up others is not idle.
  EXPECT_THAT(answer.out, HasSubstr("waits for events\n  condition ready_condition (stuck): 1 thread waits"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, AHolderThatSleepsIsNamedWithWhereItSleeps) {
  const auto program = Start({"stuck", "holder"});
  const RunResult answer = Ask(*program, "8 threads wait");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("mutex accounts_mutex (stuck): 8 threads wait, the longest for "));
  EXPECT_THAT(answer.out, ContainsRegex("held by T2 flusher \\(tid [0-9]+\\), which sleeps in clock_nanosleep"));
  EXPECT_THAT(answer.out, HasSubstr("flush_log ← hold_for_long"));
  EXPECT_THAT(answer.out, ContainsRegex("worker \\(tid [0-9]+\\) and 7 more .*want_accounts ← wait_for_accounts"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, ALockOnAStackIsNamedByItsFunction) {
  const auto program = Start({"stuck", "locals"});
  RunResult answer;  // of each thread once it sleeps
  for (const std::string function : {"keep_jobs", "run_server", "want_requests"}) {
    answer = Ask(*program, "frame of " + function);
  }
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, ContainsRegex("mutex [0-9]+ into the frame of keep_jobs: 1 thread waits"));
  EXPECT_THAT(answer.out, ContainsRegex("mutex [0-9]+ into the frame of run_server: 2 threads wait"));
  EXPECT_THAT(answer.out, ContainsRegex("mutex [0-9]+ into the frame of want_requests: 1 thread waits"));
  ASSERT_TRUE(RunTool({"dump", "--tables", tables(), std::to_string(program->pid())}).exited(0));
  const RunResult locks = RunTool({"locks", "--wide", out()});
  EXPECT_THAT(locks.out, ContainsRegex("[0-9]+ into the frame of keep_jobs"));
  EXPECT_THAT(locks.out, ContainsRegex("[0-9]+ into the frame of run_server"));
  EXPECT_THAT(locks.out, ContainsRegex("[0-9]+ into the frame of want_requests"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, ALostWakeUpIsAWaitForAnEvent) {
  const auto program = Start({"stuck", "lost"});
  const RunResult answer = Ask(*program, "wait_until_ready");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("waits for events\n  condition ready_condition (stuck): 1 thread waits, for "));
  EXPECT_THAT(answer.out, ContainsRegex("T2 consumer .*wait_until_ready ← consume"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, ARobustMutexNamesItsNextHolder) {
  const auto program = Start({"stuck", "robust"});
  const RunResult answer = Ask(*program, "post_to_ledger");
  EXPECT_THAT(answer.out, ContainsRegex("held by T[0-9]+ recoverer \\(tid [0-9]+\\), which sleeps in clock_nanosleep .*"
                                        "flush_log ← recover_state ← take_after_death .*its previous owner died"));
  EXPECT_THAT(answer.out, HasSubstr("post_to_ledger ← wait_for_ledger"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, AMutexOfAnExitedOwnerIsHeldForever) {
  const auto program = Start({"stuck", "orphan"});
  const RunResult answer = Ask(*program, "post_to_ledger");
  EXPECT_THAT(answer.out, ContainsRegex("held by tid [0-9]+, which has exited: nobody will release it"));
  EXPECT_THAT(answer.out, HasSubstr("deadlock: 1 thread waits for a lock that nobody can release, since "));
  EXPECT_TRUE(Ask(*program, "deadlock: ").exited(1));
  KillAndSettle(program.get());
}

TEST_F(Stuck, ACircleThatATimeoutEndsIsNoDeadlock) {
  const auto program = Start({"stuck", "timed"});
  const RunResult answer = Ask(*program, "no deadlock: 2");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out,
              ContainsRegex("no deadlock: 2 threads wait for each other, since [0-9.]+m?s, but a wait has a "
                            "timeout or has just ended\n"));
  EXPECT_THAT(answer.out, ContainsRegex("T2 transfers .* holds  accounts_mutex .* waits for  audit_mutex "));
  const RunResult dump = RunTool({"dump", "--tables", tables(), std::to_string(program->pid())});
  EXPECT_TRUE(dump.exited(0)) << dump.Describe();
  EXPECT_THAT(dump.err, Not(HasSubstr("deadlock")));
  EXPECT_THAT(RunTool({"locks", out()}).out, Not(HasSubstr("deadlock")));
  KillAndSettle(program.get());
}

TEST_F(Stuck, ALockThatWasHeldDuringForkIsHeldForever) {
  const auto program = Start({"stuck", "forked"});
  const RunResult answer = Ask(*program, "nobody can release", {"--children"});
  EXPECT_TRUE(answer.exited(1)) << answer.Describe();
  EXPECT_THAT(answer.out, HasSubstr("deadlock: 1 thread waits for a lock that nobody can release, since "));
  EXPECT_THAT(answer.out, ContainsRegex("held by tid [0-9]+, which is a thread of another process\n"
                                        "  the lock was copied by fork while that thread held it: nobody"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, FutexesOfRustNameTheLastHolder) {
  const auto program = Start({"stuck_rust"});
  const RunResult answer = Ask(*program, "reconcile");
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  EXPECT_THAT(answer.out,
              HasSubstr("the lock does not record its holder; the last thread that acquired it after a wait is T"));
  EXPECT_THAT(answer.out, HasSubstr("transfer"));
  EXPECT_THAT(answer.out, ContainsRegex("T2 transfers \\(tid"));
  EXPECT_THAT(answer.out, ContainsRegex("T3 audits \\(tid"));
  KillAndSettle(program.get());
}

TEST_F(Stuck, AStoppedProgramAnswersLikeAnyOther) {
  const auto program = Start({"stuck", "abba"});
  Ask(*program, "deadlock: 2");
  program->Signal(SIGSTOP);
  EXPECT_THAT(Ask(*program, "deadlock: 2").out, HasSubstr("transfer ← run_transfers"));
  program->Signal(SIGCONT);
  KillAndSettle(program.get());
}

TEST_F(Stuck, AWaitInProgressCountsUntilItIsOverAndThenOnlyOnce) {
  const auto program =
      Start({"stuck", "ends"}, {{"heap-interval", "0"}, {"lock-interval", "1ns"}, {"snapshot-every", "0"}});
  const auto dump = [&] {
    const RunResult done = RunTool({"dump", "--tables", tables(), std::to_string(program->pid())});
    EXPECT_TRUE(done.exited(0)) << done.Describe();
    const std::vector<Decoded> block = NewestBlock();
    EXPECT_EQ(block.size(), 1u);
    return block.empty() ? Decoded{} : block[0];
  };
  const Decoded first = dump(), second = dump();
  const int64_t so_far = Sum(first, "want_accounts", true)["delay"],
                later = Sum(second, "want_accounts", true)["delay"];
  EXPECT_EQ(Sum(first, "want_accounts", true)["contentions"], 1) << first.Summary();
  EXPECT_GT(so_far, 0);
  EXPECT_GT(later, so_far);
  EXPECT_EQ(Sum(second, "want_accounts", false)["contentions"], 0);
  program->Write("go on\n");
  ASSERT_TRUE(program->WaitForOutput("over"));
  const Decoded after = dump();
  EXPECT_EQ(Sum(after, "want_accounts", true)["contentions"], 0) << after.Summary();
  EXPECT_EQ(Sum(after, "want_accounts", false)["contentions"], 1);
  EXPECT_GE(Sum(after, "want_accounts", false)["delay"], later);
  EXPECT_EQ(after.Total().at("delay"), after.CommentNumber("delay_ns"));
  EXPECT_EQ(after.Total().at("contentions"), after.CommentNumber("contentions"));
  program->Write("end\n");
  EXPECT_TRUE(program->Wait().exited(0));
  EXPECT_TRUE(Settled());
}

TEST_F(Stuck, WaitsInProgressAreKeptApartByLockLikeTheOthers) {
  const auto program =
      Start({"stuck", "ends"},
            {{"heap-interval", "0"}, {"lock-interval", "1ns"}, {"lock-label", "yes"}, {"snapshot-every", "0"}});
  EXPECT_TRUE(RunTool({"dump", "--tables", tables(), std::to_string(program->pid())}).exited(0));
  ASSERT_EQ(NewestBlock().size(), 1u);
  size_t waiting = 0;
  for (const DecodedSample& sample : NewestBlock()[0].samples) {
    if (sample.labels.count("state") == 0) continue;
    ++waiting;
    EXPECT_EQ(sample.labels.count("lock_address"), 1u) << AllSummaries();
  }
  EXPECT_GE(waiting, 1u);
  KillAndSettle(program.get());
}

TEST_F(Stuck, RunSaysThatTheProgramIsDeadlockedWhenItIsInterrupted) {
  const auto program = Start({"stuck", "abba"}, kLocksOnly, Launch::kRun);
  program->Signal(SIGINT);
  program->HoldInput();
  const RunResult r = program->Wait();
  EXPECT_TRUE(r.killed_by(SIGINT)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr("deadlock: 2 threads wait for each other, since "));
  EXPECT_THAT(r.out, HasSubstr("transfer ← run_transfers"));
}

TEST_F(Stuck, AThousandThreadsThatWaitAreAllSeen) {
  const auto program = Start({"stuck", "many", "1000"});
  const RunResult answer = Ask(*program, "sleeps in pause");
  EXPECT_THAT(answer.out, ContainsRegex("mutex accounts_mutex \\(stuck\\): 1000 threads wait, the longest for "));
  EXPECT_THAT(answer.out, ContainsRegex("held by T1 stuck \\(tid [0-9]+\\), which sleeps in pause"));
  EXPECT_THAT(answer.out, ContainsRegex("and 999 more +[0-9.]+m?s  want_accounts"));
  KillAndSettle(program.get());
}

// With hardly any environment less than a page may lie between main's frame and the end of its stack; how much differs by chance.
TEST_F(Stuck, AStackThatEndsSoonIsReadToItsEnd) {
  for (int i = 0; i < 8; ++i) {
    const Command with_environment = CommandFor(Launch::kPreload, {"stuck", "many", "1"}, kLocksOnly);
    Command command;
    command.argv = {"env", "-i"};
    for (const auto& [name, value] : with_environment.env) command.argv.push_back(name + "=" + value);
    command.argv.insert(command.argv.end(), with_environment.argv.begin(), with_environment.argv.end());
    Running program(command);
    ASSERT_TRUE(program.WaitForOutput("ready"));
    EXPECT_THAT(Ask(program, "sleeps in pause").out, ContainsRegex("in pause[^\n]*: Stay ← main\n"));
    KillAndSettle(&program);
  }
}

TEST_F(Stuck, SaysWhatIsWrong) {
  const RunResult none = RunTool({"stuck", "--tables", tables()});
  EXPECT_TRUE(none.exited(3)) << none.Describe();
  EXPECT_THAT(none.err, HasSubstr("this user has no profiled process. "));
  const RunResult no_number = RunTool({"stuck", "server"});
  EXPECT_TRUE(no_number.exited(2)) << no_number.Describe();
  const RunResult nobody = RunTool({"stuck", "--tables", tables(), "1"});
  EXPECT_TRUE(nobody.exited(3)) << nobody.Describe();
}

}  // namespace
}  // namespace holdfast::testing
