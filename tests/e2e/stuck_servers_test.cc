// Debian's database servers with a long transaction that blocks others: `holdfast stuck` names where their statements
// wait. InnoDB's row locks are condition variables, and PostgreSQL's are latches between processes: no lock says who
// holds them.
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

std::string FindProgram(const char* pattern) {
  glob_t found;
  const std::string path =
      glob(pattern, 0, nullptr, &found) == 0 ? found.gl_pathv[found.gl_pathc - 1] : "";  // the newest version
  globfree(&found);
  return path;
}

class StuckServers : public Profiled {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    place_ = folder() + "/run";
    mkdir(place_.c_str(), 0777);
    for (const std::string& path : {tables(), place_, out()}) {
      mkdir(path.c_str(), 0777);
      chmod(path.c_str(), 0777);
    }
    chmod(folder().c_str(), 0755);
  }
  // Servers refuse root.
  static int UserFor(const char* name) {
    const passwd* user = IsRoot() ? getpwnam(name) : nullptr;
    return user == nullptr ? -1 : static_cast<int>(user->pw_uid);
  }
  // A client that takes statements from its input, and keeps its transaction.
  static std::unique_ptr<Running> Client(std::vector<std::string> argv, const std::string& statements) {
    auto client = std::make_unique<Running>(Command{.argv = std::move(argv), .timeout_seconds = 200});
    client->HoldInput();
    client->Write(statements);
    return client;
  }
  RunResult Stuck(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"stuck", "--tables", tables()});
    return RunTool(arguments);
  }
  std::string place_;
};

TEST_F(StuckServers, MariadbsBlockedStatementsComeBeforeItsIdlePools) {
  const std::string server = FindProgram("/usr/sbin/mariadbd"), install = FindProgram("/usr/bin/mariadb-install-db"),
                    client = FindProgram("/usr/bin/mariadb");
  if (server.empty() || install.empty() || client.empty()) GTEST_SKIP() << "needs mariadb-server and mariadb-client";
  const int uid = UserFor("mysql");
  if (IsRoot() && uid < 0) GTEST_SKIP() << "needs the user mysql, whom Debian's mariadb-server makes";
  const std::string data = place_ + "/data", socket = place_ + "/socket";
  const RunResult made =
      Execute({.argv = {install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal"},
               .uid = uid,
               .timeout_seconds = 100});
  ASSERT_TRUE(made.exited(0)) << made.Describe();
  Command command = CommandFor(Launch::kPreload,
                               {server, "--no-defaults", "--datadir=" + data, "--socket=" + socket,
                                "--pid-file=" + place_ + "/pid", "--skip-networking"},
                               {{"heap-interval", "0"}, {"snapshot-every", "0"}});
  command.uid = uid;
  command.timeout_seconds = 200;
  Running running(command);
  const std::vector<std::string> sql = {client, "--no-defaults", "-uroot", "-S", socket, "-N", "-n", "test"};
  const auto run = [&](const std::string& statement) {
    std::vector<std::string> argv = sql;
    argv.insert(argv.end(), {"-e", statement});
    return Execute({.argv = argv});
  };
  ASSERT_TRUE(Eventually([&] { return run("select 1").exited(0); }, 60));
  ASSERT_TRUE(
      run("create table t (id int primary key, v int) engine=innodb; insert into t values (1, 0), (2, 0)").exited(0));

  const auto keeper = Client(sql, "begin; update t set v = 1 where id = 2; select 'kept';\n");
  ASSERT_TRUE(keeper->WaitForOutput("kept"));
  std::vector<std::unique_ptr<Running>> blocked;
  for (int i = 0; i < 3; ++i) {
    blocked.push_back(Client(sql, "set innodb_lock_wait_timeout = 500; update t set v = 2 where id = 2;\n"));
  }
  RunResult answer;
  EXPECT_TRUE(Eventually([&] {
    answer = Stuck({std::to_string(running.pid())});
    return answer.out.find("; 3 wait for events; ") != std::string::npos;
  })) << answer.Describe();
  EXPECT_TRUE(answer.exited(0)) << answer.Describe();
  // They come first, by the functions that their statements came through; pools and caches of threads are said to be idle.
  EXPECT_THAT(answer.out,
              ContainsRegex("no lock waits seen; 3 wait for events; [0-9]+ idle\n\n"
                            "waits for events\n  3 conditions: 3 threads wait, one per lock, the longest for "));
  for (const char* function : {"ha_index_read_map", "mysql_update", "mysql_execute_command", "do_command"}) {
    EXPECT_LT(answer.out.find(function), answer.out.find("\nidle, or a wake-up was lost: ")) << answer.out;
  }
  EXPECT_GT(answer.out.find("tpool::"), answer.out.find("\nidle, or a wake-up was lost: ")) << answer.out;

  // Once the transaction is over nobody is held up.
  keeper->Write("commit;\n");
  for (const auto& one : blocked) one->Write("select 'done';\n");
  for (const auto& one : blocked) EXPECT_TRUE(one->WaitForOutput("done"));
  EXPECT_THAT(Stuck({std::to_string(running.pid())}).out, Not(HasSubstr("mysql_update")));
  running.Signal(SIGTERM);
  running.HoldInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
}

TEST_F(StuckServers, PostgresNamesTheStatementThatWaitsInAnotherProcess) {
  const std::string server = FindProgram("/usr/lib/postgresql/*/bin/postgres"),
                    initdb = FindProgram("/usr/lib/postgresql/*/bin/initdb"), client = FindProgram("/usr/bin/psql");
  if (server.empty() || client.empty()) GTEST_SKIP() << "needs postgresql";
  const int uid = UserFor("postgres");
  const std::string data = place_ + "/data";
  const RunResult made = Execute(
      {.argv = {initdb, "-A", "trust", "-U", "postgres", "-N", "-D", data}, .uid = uid, .timeout_seconds = 100});
  ASSERT_TRUE(made.exited(0)) << made.Describe();
  Command command = CommandFor(Launch::kPreload, {server, "-D", data, "-k", place_, "-c", "listen_addresses="},
                               {{"heap-interval", "0"}, {"snapshot-every", "0"}});
  command.uid = uid;
  command.timeout_seconds = 200;
  Running running(command);
  const std::vector<std::string> sql = {client, "-h", place_, "-U", "postgres", "-qAt"};
  const auto run = [&](const std::string& statement) {
    std::vector<std::string> argv = sql;
    argv.insert(argv.end(), {"-c", statement});
    return Execute({.argv = argv});
  };
  ASSERT_TRUE(Eventually([&] { return run("select 1").exited(0); }, 60));
  ASSERT_TRUE(run("create table t (id int primary key, v int)").exited(0));
  ASSERT_TRUE(run("insert into t values (1, 0), (2, 0)").exited(0));

  const auto keeper = Client(sql, "begin; update t set v = 1; select 'kept';\n");
  ASSERT_TRUE(keeper->WaitForOutput("kept"));
  const auto blocked = Client(sql, "select pg_backend_pid() || '.'; update t set v = 2 where id = 2;\n");
  const auto other = Client(sql, "update t set v = 3 where id = 1;\n");
  ASSERT_TRUE(blocked->WaitForOutput("."));
  std::string pid;
  EXPECT_TRUE(Eventually([&] {
    const std::string waits = "select pid from pg_stat_activity where wait_event_type = 'Lock' order by pid";
    pid = run(waits).out;
    return std::count(pid.begin(), pid.end(), '\n') == 2;
  }));
  pid = pid.substr(0, pid.find('\n'));

  const RunResult one = Stuck({pid});
  EXPECT_TRUE(one.exited(0)) << one.Describe();
  EXPECT_THAT(one.out, ContainsRegex("postgres \\(tid " + pid + "\\) +sleeps in epoll_wait"));
  for (const char* function : {"WaitLatch ", "ProcSleep", "LockAcquire", "heap_update", "PostgresMain"}) {
    EXPECT_THAT(one.out, HasSubstr(function));
  }
  // Of the whole server, by its first process: the blocked ones together, before those that are idle.
  const RunResult all = Stuck({"--children", std::to_string(running.pid())});
  EXPECT_TRUE(all.exited(0)) << all.Describe();
  EXPECT_THAT(all.out,
              ContainsRegex("\n  2 threads, each sleeps in epoll_wait[^:]*: postgres \\(pid [0-9]+\\), postgres"));
  const size_t idle = all.out.find("secure_read");  // the owner of the transaction: it waits for its client
  ASSERT_NE(idle, std::string::npos) << all.out;
  EXPECT_LT(all.out.find("ProcSleep"), idle) << all.out;
  EXPECT_LT(all.out.find("heap_update"), idle) << all.out;
  const std::string json = Stuck({"--children", "--json", std::to_string(running.pid())}).out;
  EXPECT_GE(std::count(json.begin(), json.end(), '\n'), 4) << json;  // the first process, and three backends
  EXPECT_THAT(json, HasSubstr("\"ProcSleep\""));

  keeper->Write("commit;\n");
  for (const auto& client_of_it : {blocked.get(), other.get()}) {
    client_of_it->Write("select 'done';\n");
    EXPECT_TRUE(client_of_it->WaitForOutput("done"));
  }
  running.Signal(SIGINT);
  running.HoldInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
}

}  // namespace
}  // namespace holdfast::testing
