// Which program a script, `sudo` or `env -i` starts, by their words alone.
#include "report/run/started_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

class StartedPrograms : public ::testing::Test {
 protected:
  StartedCommand Follow(const Words& command) {
    return FollowStarters(command, [this](const std::string& word) {
      return missing_.contains(word) ? "" : word.find('/') == std::string::npos ? "/bin/" + word : word;
    });
  }
  StartedCommand OfScript(const std::string& text, Words arguments = {}) {
    arguments.insert(arguments.begin(), folder_.Write("run.sh", text));
    return Follow(arguments);
  }

  Folder folder_;
  std::set<std::string> missing_;
};

TEST_F(StartedPrograms, AProgramStartsItself) { EXPECT_THAT(Follow({"redis-server", "--port", "1"}).words, IsEmpty()); }

TEST_F(StartedPrograms, AScriptIsFollowedToItsExec) {
  EXPECT_THAT(OfScript("#!/bin/sh\nset -e\nmkdir -p /tmp/x\nexec /opt/server --port 7000 \"$@\"\n", {"-v"}).words,
              ElementsAre("/opt/server", "--port", "7000", "-v"));
  EXPECT_THAT(OfScript("#!/bin/bash\nDIR=$(cd \"$(dirname \"$0\")\" && pwd)\nexec \"$DIR/server\"\n").words,
              ElementsAre(folder_.path() + "/server"));
  EXPECT_THAT(OfScript("cd \"$(dirname \"$0\")\"; ./server 'a b' # last\n").words,
              ElementsAre(folder_.path() + "/server", "a b"));
  EXPECT_THAT(OfScript("#!/bin/sh\nexec >log 2>&1\nPORT=${PORT:-80}\nexec nice -n 5 ./server \\\n  -p $PORT\n").words,
              ElementsAre("./server", "-p", "80"));
}

TEST_F(StartedPrograms, FunctionsArraysAndSourcedFilesAreFollowed) {
  folder_.Write("settings", "HOME_OF_IT=/opt/it\nOPTIONS='-a -b'\n");
  EXPECT_THAT(OfScript("#!/bin/bash\n. \"$(dirname \"$0\")/settings\"\n"
                       "start() {\n  local program=$1; shift\n  exec \"$program\" $OPTIONS \"$@\"\n}\n"
                       "case \"$1\" in\n  start) start \"$HOME_OF_IT/bin/server\" --fast ;;\n  stop) kill 1 ;;\nesac\n",
                       {"start"})
                  .words,
              ElementsAre("/opt/it/bin/server", "-a", "-b", "--fast"));
  EXPECT_THAT(OfScript("#!/bin/bash\ncommand=(java -jar 'my app.jar')\nexec \"${command[@]}\" \"${1:-none}\"\n").words,
              ElementsAre("java", "-jar", "my app.jar", "none"));
}

// As the images of redis, postgres and mariadb start their servers.
TEST_F(StartedPrograms, AnEntrypointStartsWhatItIsGiven) {
  const std::string entrypoint =
      "#!/bin/bash\nset -Eeo pipefail\nif [ \"${1#-}\" != \"$1\" ]; then\n  set -- redis-server \"$@\"\nfi\n"
      "if [ \"$1\" = 'redis-server' ] && [ \"$(id -u)\" = '0' ]; then\n  find . \\! -user redis -exec chown redis '{}' +\n"
      "  exec gosu redis \"$0\" \"$@\"\nfi\nexec \"$@\"\n";
  EXPECT_THAT(OfScript(entrypoint, {"redis-server", "/etc/redis.conf"}).words,
              ElementsAre("redis-server", "/etc/redis.conf"));
  EXPECT_THAT(OfScript(entrypoint, {"--port", "7"}).words, ElementsAre("redis-server", "--port", "7"));
  EXPECT_THAT(OfScript("_main() {\n  exec \"$@\"\n}\nif ! _is_sourced; then\n  _main \"$@\"\nfi\n", {"postgres"}).words,
              ElementsAre("postgres"));
}

TEST_F(StartedPrograms, TextsInAScriptAreNoCommands) {
  EXPECT_THAT(OfScript("#!/bin/sh\ncat > conf <<EOF\nexec /bin/no --x\nEOF\ncat <<-'E' | tee y\n\texec no\n\tE\n"
                       "if [[ $a < b && c > d ]]; then (( i < 3 )); fi\n./server & wait\n")
                  .words,
              ElementsAre("./server"));
  // What follows an exit is no script.
  EXPECT_THAT(OfScript("#!/bin/sh\n./server\nexit 0\nexec no\n").words, ElementsAre("./server"));
}

TEST_F(StartedPrograms, TheLastExistingExecCounts) {
  missing_ = {"/opt/new/server"};
  EXPECT_THAT(OfScript("#!/bin/sh\n[ -x /opt/old/server ] && exec /opt/old/server\nexec /opt/new/server\n").words,
              ElementsAre("/opt/old/server"));
  EXPECT_THAT(OfScript("#!/bin/sh\nmkdir -p /run/x\n./server 2>&1 | tee log\nrm -r /run/x\n").words,
              ElementsAre("./server"));
}

TEST_F(StartedPrograms, ACommandKnownOnlyToTheShellIsNamed) {
  const StartedCommand started = OfScript("#!/bin/sh\nexec \"$UNKNOWN_HOME/bin/java\" -jar x.jar\n");
  EXPECT_THAT(started.words, IsEmpty());
  EXPECT_THAT(started.unknown, HasSubstr("$UNKNOWN_HOME/bin/java"));
  EXPECT_THAT(OfScript("#!/bin/sh\nread -r PROGRAM < conf\nPATH=$(compute)\nexec `compute $PROGRAM`\n").words,
              IsEmpty());
  EXPECT_THAT(OfScript("#!/bin/sh\nwhile [ $# -gt 0 ]; do shift; done\nexec \"$@\"\n", {"a"}).words, IsEmpty());
}

TEST_F(StartedPrograms, AStarterThatDropsThePreloadIsNamed) {
  const StartedCommand env = Follow({"env", "-i", "PATH=/bin", "./server", "x"});
  EXPECT_EQ(env.drops_preload, "env -i");
  EXPECT_THAT(env.words, ElementsAre("./server", "x"));
  EXPECT_EQ(Follow({"env", "A=b", "./server"}).drops_preload, "");
  EXPECT_EQ(Follow({"sudo", "-u", "www", "./server"}).drops_preload, "sudo");
  EXPECT_EQ(Follow({"sudo", "--preserve-env=LD_PRELOAD", "./server"}).drops_preload, "");
  EXPECT_EQ(Follow({"sh", "-c", "exec env -i ./server"}).drops_preload, "env -i");
  EXPECT_EQ(Follow({"su", "-", "www", "-c", "exec ./server"}).drops_preload, "su");
  for (const std::string line : {"unset LD_PRELOAD", "export LD_PRELOAD=", "LD_PRELOAD="}) {
    const StartedCommand script = OfScript("#!/bin/sh\n" + line + "\nexec ./server\n");
    EXPECT_THAT(script.drops_preload, HasSubstr("run.sh"));
    EXPECT_EQ(script.drops_by, line);
    EXPECT_THAT(script.words, ElementsAre("./server"));
  }
  EXPECT_EQ(OfScript("#!/bin/sh\nexport LD_PRELOAD=libmine.so:$LD_PRELOAD\nexec ./server\n").drops_preload, "");
}

TEST_F(StartedPrograms, StartersAreFollowedByTheirOwnOptions) {
  const std::vector<Words> commands = {{"timeout", "-k", "3", "5", "./server", "x"},
                                       {"env", "-S", "A=1 nice ./server x"},
                                       {"flock", "-w", "3", "/run/lock", "./server", "x"},
                                       {"runuser", "-u", "www", "--", "./server", "x"},
                                       {"setpriv", "--reuid", "5", "--clear-groups", "./server", "x"},
                                       {"tini", "-g", "--", "dumb-init", "./server", "x"},
                                       {"start-stop-daemon", "--start", "--exec", "./server", "--", "x"},
                                       {"bash", "-eo", "pipefail", "-c", "exec ./server \"$@\"", "bash", "x"}};
  for (const Words& command : commands) EXPECT_THAT(Follow(command).words, ElementsAre("./server", "x")) << command[0];
}

}  // namespace
}  // namespace holdfast
