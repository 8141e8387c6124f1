// Which program a script, `sudo` or `env -i` starts, by their words alone.
#include "report/processes/starter_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StarterCommand : public ::testing::Test {
 protected:
  StartedCommand OfScript(const std::string& text, std::vector<std::string> arguments = {}) {
    const std::string path = folder_.Write("run.sh", text);
    arguments.insert(arguments.begin(), path);
    return FollowStarters(arguments, path);
  }
  Folder folder_;
};

TEST_F(StarterCommand, AProgramStartsItself) {
  EXPECT_THAT(FollowStarters({"redis-server", "--port", "1"}, "/bin/true").words, IsEmpty());
}

TEST_F(StarterCommand, AScriptIsFollowedToItsExec) {
  EXPECT_THAT(OfScript("#!/bin/sh\nset -e\nmkdir -p /tmp/x\nexec /opt/server --port 7000 \"$@\"\n").words,
              ElementsAre("/opt/server", "--port", "7000"));
  EXPECT_THAT(OfScript("#!/bin/bash\nDIR=$(cd \"$(dirname \"$0\")\" && pwd)\nexec \"$DIR/server\"\n").words,
              ElementsAre(folder_.path() + "/server"));
  EXPECT_THAT(OfScript("cd \"$(dirname \"$0\")\"; ./server 'a b' # last\n").words,
              ElementsAre(folder_.path() + "/server", "a b"));
  EXPECT_THAT(OfScript("#!/bin/sh\nexec >log 2>&1\nPORT=${PORT:-80}\nexec nice -n 5 ./server \\\n  -p $PORT\n").words,
              ElementsAre("./server", "-p", "80"));
}

TEST_F(StarterCommand, WhatOnlyTheShellKnowsIsNamed) {
  const StartedCommand started = OfScript("#!/bin/sh\nexec \"$UNKNOWN_HOME/bin/java\" -jar x.jar\n");
  EXPECT_THAT(started.words, IsEmpty());
  EXPECT_THAT(started.unknown, HasSubstr("$UNKNOWN_HOME/bin/java"));
}

TEST_F(StarterCommand, WhoTakesThePreloadAwayIsNamed) {
  const StartedCommand env = FollowStarters({"env", "-i", "PATH=/bin", "./server", "x"}, "/usr/bin/env");
  EXPECT_EQ(env.drops_preload, "env -i");
  EXPECT_THAT(env.words, ElementsAre("./server", "x"));
  EXPECT_EQ(FollowStarters({"env", "A=b", "./server"}, "/usr/bin/env").drops_preload, "");
  EXPECT_EQ(FollowStarters({"sudo", "-u", "www", "./server"}, "/usr/bin/sudo").drops_preload, "sudo");
  EXPECT_EQ(FollowStarters({"sudo", "--preserve-env=LD_PRELOAD", "./server"}, "/usr/bin/sudo").drops_preload, "");
  EXPECT_EQ(FollowStarters({"sh", "-c", "exec env -i ./server"}, "/bin/sh").drops_preload, "env -i");
}

}  // namespace
}  // namespace holdfast
