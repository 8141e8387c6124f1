// Debian's servers that root starts and that work as another user: the profiles of their workers reach root's folder.
#include <glob.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <set>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

std::string FindProgram(const char* pattern) {
  glob_t found;
  const std::string path = glob(pattern, 0, nullptr, &found) == 0 ? found.gl_pathv[0] : "";
  globfree(&found);
  return path;
}

class RootServers : public Profiled, public ::testing::WithParamInterface<Launch> {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
    chmod(tables().c_str(), 01777);
    place_ = folder() + "/run";
    mkdir(place_.c_str(), 0777);
    chmod(place_.c_str(), 0777);
  }
  // Of a test that failed: the servers' own processes outlive `run`.
  void TearDown() override {
    for (const char* name : {"/nginx.pid", "/php.pid"}) {
      const pid_t pid = atoi(ReadFile(place_ + name).c_str());
      if (pid > 0) kill(pid, SIGTERM);
    }
    Profiled::TearDown();
  }
  Command Server(std::vector<std::string> argv) const {
    return CommandFor(GetParam(), std::move(argv), {{"heap-interval", "4KiB"}});
  }
  bool Listens(const std::string& socket) const {
    return Eventually([&] {
      struct stat info;
      return stat(socket.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
    });
  }
  // Each process of it has its profiles, and they are root's.
  void ExpectProcesses(size_t processes, const RunResult& r) const {
    std::set<int64_t> pids;
    for (const ProfileName& profile : ListProfiles(out())) {
      pids.insert(profile.pid);
      struct stat info;
      ASSERT_EQ(stat(profile.path.c_str(), &info), 0);
      EXPECT_EQ(info.st_uid, 0u) << profile.path;
    }
    EXPECT_EQ(pids.size(), processes) << r.Describe() << AllSummaries();
    EXPECT_TRUE(Tables().empty());
    if (GetParam() == Launch::kRun) {
      EXPECT_THAT(r.err, HasSubstr("profiles of " + std::to_string(processes) + " process"));
    }
  }
  std::string place_;
};

TEST_P(RootServers, NginxAndPhp) {
  const std::string nginx = FindProgram("/usr/sbin/nginx"), php = FindProgram("/usr/sbin/php-fpm?*");
  if (nginx.empty() || php.empty()) GTEST_SKIP() << "needs nginx-light and php-fpm";
  const std::string front = place_ + "/nginx.sock", back = place_ + "/php.sock", php_out = folder() + "/php";
  WriteFile(place_ + "/php.conf", "[global]\nerror_log = " + place_ + "/php.log\npid = " + place_ +
                                      "/php.pid\ndaemonize = no\n[www]\nuser = nobody\ngroup = nogroup\nlisten = " +
                                      back + "\nlisten.mode = 0666\npm = static\npm.max_children = 2\n");
  WriteFile(
      place_ + "/page.php",
      "<?php $kept = []; for ($i = 0; $i < 200; $i++) $kept[] = str_repeat('x', 1000 + $i); echo count($kept), \"\\n\";\n");
  WriteFile(place_ + "/nginx.conf",
            "worker_processes 2;\nuser nobody nogroup;\npid " + place_ +
                "/nginx.pid;\ndaemon off;\nerror_log stderr;\nevents {}\nhttp {\n" +
                "access_log off;\nclient_body_temp_path " + place_ + "/1; proxy_temp_path " + place_ +
                "/2; fastcgi_temp_path " + place_ + "/3; uwsgi_temp_path " + place_ + "/4; scgi_temp_path " + place_ +
                "/5;\nserver { listen unix:" + front + "; location / { fastcgi_pass unix:" + back +
                "; fastcgi_param SCRIPT_FILENAME " + place_ + "/page.php; fastcgi_param REQUEST_METHOD GET; } } }\n");
  Command php_command = Server({php, "-F", "-y", place_ + "/php.conf", "-c", place_});
  if (GetParam() == Launch::kPreload) {
    php_command.env["HOLDFAST_OUT"] = php_out;
  } else {
    for (std::string& word : php_command.argv) {
      if (word == out()) word = php_out;
    }
  }
  php_command.env["USE_ZEND_ALLOC"] = "0";  // else its own allocator asks the kernel
  Running php_running(php_command), nginx_running(Server({nginx, "-e", "stderr", "-c", place_ + "/nginx.conf"}));
  ASSERT_TRUE(Listens(back));
  ASSERT_TRUE(Listens(front));
  // Both workers of each have begun, and had something to do.
  ASSERT_TRUE(Eventually([&] { return Tables().size() == 6; })) << ::testing::PrintToString(Tables());
  for (int i = 0; i < 20; ++i) {
    const RunResult answer = Execute({.argv = {"curl", "-s", "--unix-socket", front, "http://localhost/"}});
    EXPECT_EQ(answer.out, "200\n") << answer.Describe();
  }
  nginx_running.Signal(SIGTERM);
  const RunResult r = nginx_running.Wait();
  php_running.Signal(SIGTERM);
  const RunResult php_result = php_running.Wait();
  EXPECT_TRUE(Settled());
  ExpectProcesses(3, r);
  std::set<int64_t> pids;
  for (const ProfileName& profile : ListProfiles(php_out)) pids.insert(profile.pid);
  EXPECT_EQ(pids.size(), 3u) << php_result.Describe();
  int64_t seen = 0;
  for (const Decoded& heap : Newest(php_out, "heap")) seen += heap.Total().at("alloc_space");
  EXPECT_GT(seen, 20 * 200 * 1000);  // of 20 pages of 200 KB, by estimates that are a hundred times as sharp
}

// By its starter: root's `su` becomes user postgres, and starts pg_ctl, which starts the server and ends.
TEST_P(RootServers, PostgresByItsStarter) {
  const std::string control = FindProgram("/usr/lib/postgresql/*/bin/pg_ctl");
  if (control.empty()) GTEST_SKIP() << "needs postgresql";
  const std::string data = place_ + "/data", bin = control.substr(0, control.rfind('/'));
  chmod(folder().c_str(), 0711);
  const auto as_postgres = [](const std::string& command) { return "su postgres -s /bin/sh -c '" + command + "'"; };
  const RunResult made =
      Execute({.argv = {"/bin/sh", "-c", as_postgres(bin + "/initdb -A trust -U postgres -N -D " + data)},
               .timeout_seconds = 100});
  ASSERT_TRUE(made.exited(0)) << made.Describe();
  const std::string run = control + " -s -w -D " + data + " -l " + data + "/log ";
  Command command = Server({"/bin/sh", "-c",
                            as_postgres(run + "-o \"-k " + place_ + " -c listen_addresses=\" start") + "; psql -h " +
                                place_ + " -U postgres -Atc 'select sum(a) from generate_series(1, 1000) a'; " +
                                as_postgres(run + "-m fast stop")});
  command.timeout_seconds = 150;
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, "500500\n");
  std::set<int64_t> servers;
  for (const ProfileName& profile : ListProfiles(out())) {
    struct stat info;
    ASSERT_EQ(stat(profile.path.c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 0u) << profile.path;
    if (profile.program == "postgres") servers.insert(profile.pid);
  }
  EXPECT_GE(servers.size(), 5u) << r.Describe() << AllSummaries();  // the first, four of its workers, and who answered
}

TEST_P(RootServers, Memcached) {
  const std::string memcached = FindProgram("/usr/bin/memcached"), socket_path = place_ + "/memcached.sock";
  if (memcached.empty()) GTEST_SKIP() << "needs memcached";
  Running running(Server({memcached, "-u", "nobody", "-s", socket_path}));
  ASSERT_TRUE(Listens(socket_path));
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket_path.size(), sizeof address.sun_path);
  socket_path.copy(address.sun_path, socket_path.size());
  ASSERT_TRUE(Eventually([&] { return connect(client, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0; }));
  const std::string set = "set key 0 0 5\r\nvalue\r\n";
  ASSERT_EQ(write(client, set.data(), set.size()), static_cast<ssize_t>(set.size()));
  char answer[64];
  EXPECT_GT(read(client, answer, sizeof answer), 0);
  close(client);
  running.Signal(SIGTERM);
  const RunResult r = running.Wait();
  EXPECT_TRUE(Settled());
  ExpectProcesses(1, r);
}

INSTANTIATE_TEST_SUITE_P(Launched, RootServers, ::testing::Values(Launch::kPreload, Launch::kRun), LaunchName);

}  // namespace
}  // namespace holdfast::testing
