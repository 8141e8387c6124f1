// Code without names: how much of a profile it is, and what to do about it on which system.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "report/analysis/how_to_name.h"
#include "report/analysis/profiles/metric.h"
#include "report/profile/object_names.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

UnnamedCode CodeOf(const std::vector<Stack>& stacks) {
  const Profile profile = StackProfile(stacks);
  Plumbing plumbing = Plumbing::Make(profile, {}).value();
  return UnnamedCodeOf(profile, FindMetric(profile, "inuse_space").value(), &plumbing);
}

TEST(UnnamedCode, IsWhatTheOwnerOrHalfOfTheStackHasNoNameIn) {
  const UnnamedCode code = CodeOf({{"main;Load;libx.so!libx.so!0x12;libc.so.6!malloc", 40},
                                   {"app!app!0x1;app!app!0x2;app!app!0x3;Load", 20},
                                   {"app!app!0x1;main;Load;Save;Store", 40}});
  EXPECT_NEAR(code.share, 0.6, 1e-9);
  ASSERT_EQ(code.objects.size(), 2u);
  EXPECT_EQ(code.objects[0].path, "/usr/bin/libx.so");
  EXPECT_NEAR(code.objects[0].share, 0.4, 1e-9);
  EXPECT_EQ(code.objects[1].path, "/usr/bin/app");
}

TEST(UnnamedCode, IsIgnoredIfSmallOrOnlyPlumbing) {
  EXPECT_TRUE(CodeOf({{"main;Load;libx.so!libx.so!0x12", 19}, {"main;Save", 81}}).objects.empty());
  EXPECT_FALSE(CodeOf({{"main;Load;libx.so!libx.so!0x12", 21}, {"main;Save", 79}}).objects.empty());
  EXPECT_TRUE(CodeOf({{"libc.so.6!libc.so.6!0x1;main;Load;libc.so.6!libc.so.6!0x2", 100}}).objects.empty());
  EXPECT_TRUE(CodeOf({}).objects.empty());
}

// A system of its own below a folder.
class HowTo : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/how_to_" + std::to_string(getpid());
    std::filesystem::remove_all(root_);
    unsetenv("DEBUGINFOD_URLS");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Put(const std::string& path, const std::string& text = "") {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void BeDebian() {
    Put("/etc/os-release", "NAME=\"Debian GNU/Linux\"\nVERSION_ID=12\nID=debian\n");
    Put("/var/lib/dpkg/info/app-tools.list", "/.\n/usr/bin/app\n/usr/bin/apple\n");
    Put("/var/lib/dpkg/info/libx1:amd64.list", "/.\n/lib/libx.so.1\n");
    Put("/usr/bin/app");
    Put("/usr/lib/libx.so.1");
  }
  std::string Said(const std::string& path, const std::string& build_id) {
    UnnamedCode code;
    code.share = 0.624;
    code.objects = {{path, build_id, 0.624}};
    return HowToName(code, {"out of app"}, root_);
  }
  std::string root_;
};

TEST_F(HowTo, ThePackageIsNamedWhereDpkgKnowsTheFile) {
  BeDebian();
  EXPECT_EQ(PackageOfFile("/usr/bin/app", root_), "app-tools");
  EXPECT_EQ(PackageOfFile("/usr/bin/appl", root_), "");
  EXPECT_EQ(PackageOfFile("/usr/lib/libx.so.1", root_), "libx1");
  EXPECT_EQ(Said("/usr/bin/app", "b1d0"),
            "62% is in code of app without function names. To name it: apt install app-tools-dbgsym (or export "
            "DEBUGINFOD_URLS=https://debuginfod.debian.net); then holdfast symbolize 'out of app'");
}

TEST_F(HowTo, WithAServerOrADebugFileTheCommandIsEnough) {
  BeDebian();
  const std::string command = "To name it: holdfast symbolize 'out of app'";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string notes = testing::Command("readelf -n " + self).output, start = "Build ID: ";
  const size_t at = notes.find(start) + start.size();
  const std::string build_id = notes.substr(at, notes.find('\n', at) - at);
  const std::string debug = "/usr/lib/debug/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
  Put(debug);
  EXPECT_THAT(Said("/usr/bin/app", build_id), HasSubstr("apt install app-tools-dbgsym")) << "nothing is in that file";
  std::filesystem::remove(root_ + debug);
  std::filesystem::create_symlink(self, root_ + debug);
  EXPECT_THAT(Said("/usr/bin/app", build_id), HasSubstr(command));
  setenv("DEBUGINFOD_URLS", "https://example.org", 1);
  EXPECT_THAT(Said("/usr/bin/app", "b1d0"), HasSubstr(command));
  unsetenv("DEBUGINFOD_URLS");
}

TEST_F(HowTo, AFileOutsideOfPackagesNeedsItsOwnDebugFile) {
  BeDebian();
  Put("/opt/mine");
  EXPECT_THAT(
      Said("/opt/mine", "b1d0"),
      HasSubstr("holdfast symbolize --debug-dir DIR 'out of app', with the unstripped mine or its debug file in DIR"));
  // Of a program of another machine nobody knows that.
  EXPECT_THAT(Said("/opt/elsewhere", "b1d0"), HasSubstr("export DEBUGINFOD_URLS=https://debuginfod.debian.net; then "));
  EXPECT_THAT(Said("/opt/elsewhere", ""), HasSubstr("--debug-dir"));
}

TEST_F(HowTo, OtherDistributionsHaveServers) {
  Put("/usr/bin/app");
  EXPECT_THAT(Said("/usr/bin/app", "b1d0"), HasSubstr("=https://debuginfod.elfutils.org; then "));
  Put("/etc/os-release", "ID=\"fedora\"\n");
  EXPECT_THAT(Said("/usr/bin/app", "b1d0"), HasSubstr("=https://debuginfod.fedoraproject.org; then "));
}

TEST(ObjectNames, TheProgramIsCalledAsItWasStarted) {
  const auto name = [](std::string_view program, std::string_view executable, std::string_view command) {
    Profile profile;
    record::Process& process = *profile.mutable_process();
    process.program = program;
    process.executable = executable;
    process.command = command;
    return std::string(ObjectNames(profile).Of("/usr/bin/redis-check-rdb"));
  };
  EXPECT_EQ(name("redis-server", "/usr/bin/redis-check-rdb", "/usr/bin/redis-server --port 1"), "redis-server");
  EXPECT_EQ(name("tool.py", "/usr/bin/redis-check-rdb", "/usr/bin/python3 ./tool.py"), "redis-check-rdb");
  EXPECT_EQ(name("redis-server", "/usr/bin/other", "redis-server"), "redis-check-rdb");
  // Two programs in one profile that are the same file: which one a frame is of, nobody knows.
  Profile both;
  both.mutable_process()->object = {{"redis-check-rdb", "redis-server"}, {"redis-check-rdb", "redis-sentinel"}};
  EXPECT_EQ(ObjectNames(both).Of("/usr/bin/redis-check-rdb"), "redis-check-rdb");
}

TEST_F(HowTo, LocksThatAreAddressesSayWhatWouldNameThem) {
  BeDebian();
  Put("/usr/bin/app");
  Profile profile = StackProfile({{"main;Lock", 1}});
  const auto how = [&](const std::vector<std::string>& locks, std::string_view said = "") {
    return HowToNameLocks(profile, locks, {"prof"}, said, root_);
  };
  EXPECT_EQ(how({"queue (app)", "16 into a block of 64B from make_queue"}), "");
  const std::string steps =
      "apt install app-tools-dbgsym (or export DEBUGINFOD_URLS=https://debuginfod.debian.net); then holdfast symbolize prof";
  EXPECT_EQ(how({"queue (app)", "app!0x4a080"}), "1 of 2 locks is data of app without symbols. To name it: " + steps);
  EXPECT_EQ(how({"app!0x4a080", "app!0x4a0c0"}, "40% is in code of app without function names. To name it: " + steps),
            "2 of 2 locks are data of app without symbols. To name them: the same");
  EXPECT_THAT(how({"app!0x4a080", "0x7f0010", "0x7f0020"}),
              HasSubstr(". 2 of 3 locks are neither in a file nor in a sampled heap block: "));
  EXPECT_EQ(how({"gone.so!0x10"}), "") << "nothing is known of that file";
}

// Addresses of JIT code say nothing: the runtime can write a map.
TEST(HowToName, CodeOfARuntimeIsNamedByAPerfMap) {
  const auto how = [](const std::string& frames) {
    const Profile profile = testing::StackProfile({{frames, 100}});
    Plumbing plumbing = Plumbing::Make(profile, {}).value();
    return HowToName(UnnamedCodeOf(profile, 3, &plumbing), {"out"}, "");
  };
  EXPECT_THAT(how("node!main;node!Run;node![unknown]!0x7f0000001234;node!grow"),
              ::testing::HasSubstr("node --perf-basic-prof"));
  EXPECT_THAT(how("java!main;libjvm.so!call;libjvm.so![unknown]!0x7f0000001234"),
              ::testing::HasSubstr("java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit"));
  EXPECT_THAT(how("python3.11!main;python3.11!_PyEval_EvalFrameDefault;python3.11!PyList_New"),
              ::testing::HasSubstr("python3 -X perf"));
  EXPECT_EQ(how("python3.12!main;python3.12!py::load:/srv/a.py;python3.12!PyList_New"), "");
  EXPECT_EQ(how("main;work"), "");
}

}  // namespace
}  // namespace holdfast::testing
