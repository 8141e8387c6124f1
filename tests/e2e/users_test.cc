// Programs of root that become other users: their profiles reach root's folder, and no others do; what is left behind
// is named. Also the folder itself: its owner, and who may use it.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "sampler/contract/exporter_service.h"
#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNobody = 65534;
const Options kEvery = {{"heap-interval", "1"}};

class Users : public Profiled {
 protected:
  void SetUp() override {
    Profiled::SetUp();
    if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
    chmod(tables().c_str(), 01777);
  }
  // All that is root's, and for root alone.
  void ExpectRootsOwn() const {
    struct stat info;
    ASSERT_EQ(stat(out().c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 0u);
    EXPECT_EQ(info.st_mode & 07777, 0700u);
    for (const ProfileName& profile : ListProfiles(out())) {
      ASSERT_EQ(stat(profile.path.c_str(), &info), 0);
      EXPECT_EQ(info.st_uid, 0u) << profile.path;
      EXPECT_EQ(info.st_mode & 07777, 0600u) << profile.path;
    }
  }
  std::vector<std::string> NamesIn(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
    return names;
  }
  // Of an exporter that serves, or served.
  std::string Lock() const {
    for (const std::string& name : NamesIn(tables())) {
      if (name.ends_with(".lock")) return name;
    }
    return "";
  }
  // Whether a mark of root's is there.
  bool IsVouchedFor() const {
    for (const std::string& name : NamesIn(tables())) {
      struct stat info;
      if (name.starts_with("holdfast.65534.") && name.ends_with(".lock") &&
          stat((tables() + "/" + name).c_str(), &info) == 0 && info.st_uid == 0)
        return true;
    }
    return false;
  }
  bool ExporterEnded() const {
    return Eventually([&] { return Lock().empty(); });
  }
  int64_t Afterwards() const {
    int64_t processes = 0;
    for (const Decoded& heap : NewestHeap()) {
      const Values values = heap.SumLeaf("allocates_afterwards");
      const auto found = values.find("alloc_objects");
      processes += found != values.end() && found->second == 10;
    }
    return processes;
  }
};

struct Way {
  std::string way;
  Launch launch;
};
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.way; }
class BecomesAnother : public Users, public ::testing::WithParamInterface<Way> {};

TEST_P(BecomesAnother, ItsProfilesComeIntoRootsFolderAndAreRoots) {
  std::vector<std::string> argv = {"becomes_another", GetParam().way};
  if (GetParam().way == "in_new_root") {
    argv.push_back(folder() + "/jail");
    mkdir(argv.back().c_str(), 0755);
  }
  const RunResult bare = Execute(CommandFor(Launch::kBare, argv));
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  const RunResult r = RunAs(GetParam().launch, argv, kEvery);
  EXPECT_EQ(r.status, bare.status) << r.Describe();
  EXPECT_EQ(r.out, bare.out);
  ASSERT_TRUE(Settled());
  ExpectKnownHeap(r.out);
  EXPECT_EQ(Afterwards(), r.out.find("each ") != std::string::npos ? 2 : 1) << AllSummaries();
  ExpectAllWhole();
  ExpectRootsOwn();
  // The exporter has taken its marks with it.
  EXPECT_TRUE(Eventually([&] { return NamesIn(tables()).empty(); })) << ::testing::PrintToString(NamesIn(tables()));
}

std::vector<Way> Ways() {
  std::vector<Way> ways;
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    for (const char* way :
         {"early", "late", "worker", "executes", "in_vfork", "in_new_root", "for_a_while", "overwrites", "own_call"})
      ways.push_back({way, launch});
  }
  return ways;
}
INSTANTIATE_TEST_SUITE_P(Ways, BecomesAnother, ::testing::ValuesIn(Ways()), [](const auto& info) {
  return info.param.way + "_" + LaunchName(::testing::TestParamInfo<Launch>(info.param.launch, 0));
});

// Changes the user like gosu, which is static. The kernel shows that root started the process.
TEST_F(Users, AnUnseenChangeOfUserIsVouchedForWhileItLives) {
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    std::filesystem::remove_all(out());
    Running running(CommandFor(launch, {"becomes_another", "own_call_executes"}, kEvery));
    EXPECT_TRUE(Eventually([&] { return IsVouchedFor(); })) << ::testing::PrintToString(NamesIn(tables()));
    running.CloseInput();
    const RunResult r = running.Wait();
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_TRUE(Settled());
    ExpectKnownHeap(r.out);
    ExpectRootsOwn();
    EXPECT_TRUE(ExporterEnded());
  }
}

// The table is made after the change of user, and nothing shows that root started the process.
TEST_F(Users, ATableThatNobodyVouchesForIsNamedByRunAndCollectAndTakenOnRequest) {
  Options options = kEvery;
  options["profiles"] = "heap";
  Command command = CommandFor(Launch::kRun, {"nothing"}, options);
  std::filesystem::create_directories(out());
  // Another user's program that names root's folder as its own.
  Command other = CommandFor(Launch::kPreload, {"becomes_another", "executed"}, kEvery);
  other.uid = kNobody;
  other.env["HOLDFAST_EXPORTER"] = "no";
  ASSERT_TRUE(Execute(other).exited(0));
  ASSERT_EQ(Tables().size(), 1u);
  const RunResult r = Execute(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("1 table of nobody (65534) not written as profiles"));
  EXPECT_THAT(r.err, HasSubstr(Tables()[0]));
  EXPECT_THAT(r.err, HasSubstr("holdfast collect --user 65534"));
  ASSERT_TRUE(ExporterEnded());

  const RunResult left = RunTool({"collect", out(), "--tables", tables()});
  EXPECT_TRUE(left.exited(0)) << left.Describe();
  EXPECT_THAT(left.err, HasSubstr("skipped 1 table of nobody (65534)"));
  EXPECT_THAT(ListProfiles(out()), IsEmpty());
  EXPECT_EQ(Tables().size(), 1u);

  const RunResult taken = RunTool({"collect", "--user", "nobody", out(), "--tables", tables()});
  EXPECT_TRUE(taken.exited(0)) << taken.Describe();
  EXPECT_EQ(Afterwards(), 1) << AllSummaries();
  EXPECT_THAT(Tables(), IsEmpty());
  const RunResult unknown = RunTool({"collect", "--user", "no-such-user", out(), "--tables", tables()});
  EXPECT_TRUE(unknown.exited(3));
  EXPECT_THAT(unknown.err, HasSubstr("no-such-user"));
}

// Without an exporter the marks tell `collect`.
TEST_F(Users, CollectTakesWhatRootsProgramsBecame) {
  Command command = CommandFor(Launch::kPreload, {"becomes_another", "worker"}, kEvery);
  command.env["HOLDFAST_EXPORTER"] = "no";
  ASSERT_TRUE(Execute(command).exited(0));
  EXPECT_EQ(Tables().size(), 3u);
  const RunResult r = RunTool({"collect", out(), "--tables", tables()});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(Afterwards(), 2) << AllSummaries();
  ExpectRootsOwn();
  EXPECT_THAT(NamesIn(tables()), IsEmpty());
}

TEST_F(Users, DumpOfAProgramThatLeftRootAsksRootsExporter) {
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.argv.insert(command.argv.begin(), {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"});
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const RunResult r = RunTool({"dump", std::to_string(running.pid()), "--tables", tables()});
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_THAT(r.out, HasSubstr(out() + "/waits_for_input."));
  EXPECT_THAT(r.err, ::testing::Not(HasSubstr("cannot read")));
  EXPECT_THAT(ListProfiles(out()), ::testing::Not(IsEmpty()));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
  ExpectRootsOwn();
}

// A program that never was root's may name root's folder, too.
TEST_F(Users, DumpWritesIntoRootsFolderOnlyForAProgramThatRootVouchesFor) {
  std::filesystem::create_directories(out());
  chmod(out().c_str(), 0700);
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.uid = kNobody;
  command.env["HOLDFAST_EXPORTER"] = "no";
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string pid = std::to_string(running.pid()), elsewhere = folder() + "/elsewhere";
  const RunResult refused = RunTool({"dump", pid, "--tables", tables()});
  EXPECT_TRUE(refused.exited(3)) << refused.Describe();
  EXPECT_THAT(refused.err, HasSubstr("Name another folder with -o."));
  EXPECT_THAT(NamesIn(out()), IsEmpty());
  const RunResult named = RunTool({"dump", pid, "--tables", tables(), "-o", elsewhere});
  EXPECT_TRUE(named.exited(0)) << named.Describe();
  EXPECT_THAT(named.out, HasSubstr(elsewhere + "/waits_for_input." + pid + "."));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
}

// The kernel shows what is in such a program to root alone, and the commands that root calls read it all the same.
TEST_F(Users, RootSeesWhatAProgramDoesThatGaveUpRoot) {
  Options options = kEvery;
  options["lock-interval"] = "1ns";
  Running running(CommandFor(Launch::kPreload, {"gives_up_root"}, options));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string pid = std::to_string(running.pid());
  const auto as_root = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--tables", tables()});
    const RunResult r = RunTool(arguments);
    EXPECT_TRUE(r.exited(0)) << arguments[0] << ": " << r.Describe();
    EXPECT_EQ(r.err.find("ermi"), std::string::npos) << r.err;  // permission, permitted
    return r.out;
  };
  const std::string memory = as_root({"memory", pid});
  EXPECT_THAT(memory, HasSubstr("gives_up_root (pid " + pid));
  EXPECT_THAT(memory, HasSubstr("live blocks"));
  EXPECT_THAT(as_root({"dump", pid}), HasSubstr(out() + "/gives_up_root." + pid + "."));
  ExpectRootsOwn();
  const std::string elsewhere = folder() + "/elsewhere";
  EXPECT_THAT(as_root({"dump", pid, "-o", elsewhere}), HasSubstr(elsewhere + "/gives_up_root." + pid + "."));
  for (const ProfileName& profile : ListProfiles(elsewhere)) {
    struct stat info;
    ASSERT_EQ(stat(profile.path.c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, 0u);
  }
  EXPECT_EQ(Newest(elsewhere, "heap").at(0).SumLeaf("allocates").at("inuse_space"), 501'000);
  EXPECT_THAT(as_root({"stuck", pid}), HasSubstr("sleeps in read"));
  EXPECT_THAT(as_root({"doctor", pid}), HasSubstr("/gives_up_root (pid " + pid));
  EXPECT_THAT(as_root({"ls"}), HasSubstr("gives_up_root"));
  EXPECT_THAT(as_root({"dump", "--all"}), HasSubstr(out() + "/gives_up_root." + pid + "."));
  as_root({"set", pid, "lock-interval=1ms"});
  EXPECT_THAT(as_root({"stuck"}), HasSubstr("sleeps in read"));
  as_root({"set", "--all", "lock-interval=2ms"});
  EXPECT_THAT(as_root({"ls"}), HasSubstr(" 2ms "));
  const RunResult serve = RunTool({"serve", pid, "--tables", tables()});
  EXPECT_TRUE(serve.exited(3)) << serve.Describe();
  EXPECT_THAT(serve.err, HasSubstr("process " + pid +
                                   ": runs as user 65534, but root serves and pushes only root's own programs"));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
}

// Two containers of root's that share /dev/shm, with a folder of the same path each, and what root's programs became there.
class EachContainer : public Users, public ::testing::WithParamInterface<bool> {};

TEST_P(EachContainer, HasItsOwnTablesOfProgramsThatLeftRoot) {
  const std::string place = folder() + "/above/place", a = folder() + "/a", b = folder() + "/b";
  for (const std::string& each : {place, a, b}) std::filesystem::create_directories(each);
  chmod(folder().c_str(), 0755);
  chmod((folder() + "/above").c_str(), GetParam() ? 0755 : 0700);
  Options options = kEvery;
  options["out"] = place;
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, options);
  command.argv.insert(command.argv.begin(), {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"});
  Running first(InContainer(command, a, place)), second(InContainer(command, b, place));
  if (!first.WaitForOutput("ready", 10)) GTEST_SKIP() << "no mount namespace can be made here";
  ASSERT_TRUE(second.WaitForOutput("ready"));
  first.Write("line\n");
  second.Write("line\nline\n");
  ASSERT_TRUE(first.WaitForOutput("done 1"));
  ASSERT_TRUE(second.WaitForOutput("done 2"));
  const auto exporters = [&] {
    const std::vector<std::string> names = NamesIn(tables());
    return std::count_if(names.begin(), names.end(), [](const std::string& name) {
      return name.starts_with("holdfast.0.") && name.ends_with(".lock");
    });
  };
  ASSERT_TRUE(Eventually([&] { return exporters() == 2; }));
  first.CloseInput();
  EXPECT_TRUE(first.Wait().exited(0));
  ASSERT_TRUE(Eventually([&] { return exporters() == 1; }));
  // The first one's exporter has taken its marks with it, and the second's still serves that user.
  RunResult ls;
  EXPECT_TRUE(Eventually([&] {
    ls = Execute({.argv = {Tool(), "ls", "--tables", tables()}, .uid = kNobody});
    return ls.exited(0) && ls.out.find(" yes ") != std::string::npos && IsVouchedFor();
  })) << ls.Describe();
  second.CloseInput();
  EXPECT_TRUE(second.Wait().exited(0));
  ASSERT_TRUE(Settled());
  const auto objects_in = [&](const std::string& folder) {
    std::vector<int64_t> objects;
    for (const Decoded& heap : Newest(folder, "heap")) {
      if (heap.Names("for_each_line")) objects.push_back(heap.SumLeaf("for_each_line").at("alloc_objects"));
    }
    return objects;
  };
  EXPECT_THAT(objects_in(a), ::testing::ElementsAre(100));
  EXPECT_THAT(objects_in(b), ::testing::ElementsAre(200));
  EXPECT_TRUE(Eventually([&] { return NamesIn(tables()).empty(); })) << ::testing::PrintToString(NamesIn(tables()));
}
INSTANTIATE_TEST_SUITE_P(TheFolder, EachContainer, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "IsSeenByThatUser" : "IsNotSeenByThatUser"; });

// A worker that was taken over may write what it likes into its table, and say that it is its master.
TEST_F(Users, AHostileTableMeetsNoRightsOfRoots) {
  Running running(CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  ASSERT_TRUE(Eventually([&] { return Tables().size() == 1; }));
  const std::string roots = Tables()[0];
  // A mark as a program of root's leaves it, and the master's table as that user's own.
  ASSERT_TRUE(Eventually([&] { return !Lock().empty(); }));
  const std::string claimed = tables() + "/holdfast.65534" + roots.substr(std::string("holdfast.0").size());
  std::filesystem::copy_file(tables() + "/" + roots, claimed + ".new");
  ASSERT_EQ(chown((claimed + ".new").c_str(), kNobody, kNobody), 0);
  char mark[1024];
  struct stat info;
  ASSERT_EQ(stat(out().c_str(), &info), 0);
  MarkPath(tables().c_str(), out().c_str(), {info.st_dev, info.st_ino}, kNobody, mark, sizeof mark);
  WriteFile(mark, "");
  std::filesystem::rename(claimed + ".new", claimed);
  // Nobody maps it, so it is a dead process's: exported and removed, and the master's stays.
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(claimed); }));
  EXPECT_THAT(Tables(), ::testing::ElementsAre(roots));
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  EXPECT_TRUE(Settled());
  ExpectAllWhole();
  ExpectRootsOwn();
}

// ---- The folder ----

TEST_F(Users, TheFolderIsForItsUserAloneWhateverTheUmask) {
  for (const Launch launch : {Launch::kPreload, Launch::kRun}) {
    std::filesystem::remove_all(out());
    const mode_t before = umask(0);
    RunAs(launch, {"endings", "return"}, kEvery);
    umask(before);
    ExpectRootsOwn();
    EXPECT_EQ(ListProfiles(out()).size(), 1u);
  }
}

// Root's program makes the folder in a place of somebody else's, who puts a link there in the very moment.
TEST_F(Users, NoFolderButTheOneThatWasMadeIsGivenItsMode) {
  const std::string place = folder() + "/place", roots = folder() + "/roots", made = place + "/prof";
  std::filesystem::create_directories(place);
  std::filesystem::create_directories(roots);
  ASSERT_EQ(chown(place.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(chmod(roots.c_str(), 0755), 0);
  setenv("AFTER", ("mv " + made + " " + place + "/moved && ln -s " + roots + " " + made).c_str(), 1);
  Options options = kEvery;
  options["out"] = made;
  const Command program = CommandFor(Launch::kPreload, {"endings", "return"}, options);
  // Fails the mkdir of the last folder on the path.
  const auto parts = static_cast<long>(std::count(made.begin(), made.end(), '/'));
  std::vector<std::string> argv = {ProgramPath("fail_syscalls"), folder() + "/calls",   "after",
                                   std::to_string(SYS_mkdirat),  std::to_string(parts), "env"};
  for (const auto& [name, value] : program.env) argv.push_back(name + "=" + value);
  argv.insert(argv.end(), program.argv.begin(), program.argv.end());
  const RunResult r = RunAndSettle({.argv = argv});
  unsetenv("AFTER");
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_TRUE(std::filesystem::is_symlink(made)) << "nobody came in between";
  struct stat info;
  ASSERT_EQ(stat(roots.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755u);
}

TEST_F(Users, AFolderOfAnotherUserIsRefused) {
  // As it is in /tmp: everybody may make folders, who owns one sees and removes what is in it.
  const std::string place = folder() + "/place", trap = place + "/prof";
  std::filesystem::create_directories(trap);
  ASSERT_EQ(chown(trap.c_str(), kNobody, kNobody), 0);
  chmod(place.c_str(), 01777);
  Options options = kEvery;
  options["out"] = trap;
  const RunResult r = Execute(CommandFor(Launch::kRun, {"endings", "return"}, options));
  EXPECT_TRUE(r.exited(125)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("belongs to nobody (65534)"));
  EXPECT_THAT(r.err, HasSubstr("--out"));
  // Preloaded alone it runs, and its table waits for `collect`, which says why.
  const RunResult preloaded = Execute(CommandFor(Launch::kPreload, {"endings", "return"}, options));
  EXPECT_TRUE(preloaded.exited(5)) << preloaded.Describe();
  EXPECT_THAT(NamesIn(trap), IsEmpty());
  ASSERT_TRUE(ExporterEnded());
  const RunResult collected = RunTool({"collect", trap, "--tables", tables()});
  EXPECT_TRUE(collected.exited(3)) << collected.Describe();
  EXPECT_THAT(collected.err, HasSubstr("belongs to nobody (65534)"));
  EXPECT_THAT(NamesIn(trap), IsEmpty());
  // A link of theirs is no better.
  std::filesystem::create_directories(out());
  const std::string link = place + "/link";
  std::filesystem::create_symlink(out(), link);
  ASSERT_EQ(lchown(link.c_str(), kNobody, kNobody), 0);
  options["out"] = link;
  EXPECT_TRUE(Execute(CommandFor(Launch::kPreload, {"endings", "return"}, options)).exited(5));
  EXPECT_THAT(ListProfiles(out()), IsEmpty());
  for (const std::string& table : Tables()) std::filesystem::remove(tables() + "/" + table);
}

// A folder of Docker's host: whoever made it there meant it for us.
TEST_F(Users, FilesOfRootBelongToTheOwnerOfTheFolder) {
  std::filesystem::create_directories(out());
  ASSERT_EQ(chown(out().c_str(), kNobody, kNobody), 0);
  const RunResult r = RunAs(Launch::kRun, {"endings", "return"}, kEvery);
  EXPECT_TRUE(r.exited(5)) << r.Describe();
  EXPECT_THAT(r.err, HasSubstr("nobody (65534) owns it and can delete its files"));
  ASSERT_EQ(ListProfiles(out()).size(), 1u);
  struct stat info;
  ASSERT_EQ(stat(ListProfiles(out())[0].path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, static_cast<uid_t>(kNobody));
}

// To thin them by --keep, whoever writes the next one reads the earlier ones: files that somebody may have put there.
TEST_F(Users, FilesOfAnEarlierExporterAreReadAsNobody) {
  Command command =
      CommandFor(Launch::kPreload, {"waits_for_input"},
                 {{"heap-interval", "1"}, {"keep", "2"}, {"snapshot-every", "0"}, {"peak", "no"}, {"lifetimes", "no"}});
  command.env["HOLDFAST_EXPORTER"] = "no";  // each `dump` writes, and knows nothing of those before it
  Running running(command);
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string trace = folder() + "/trace";
  for (int i = 1; i <= 3; ++i) {
    running.Write("line\n");
    ASSERT_TRUE(running.WaitForOutput("done " + std::to_string(i)));
    const RunResult dumped = Execute({.argv = {"strace", "-f", "-y", "-o", trace, "-e", "trace=setresuid,pread64,read",
                                               Tool(), "dump", std::to_string(running.pid()), "--tables", tables()}});
    if (dumped.err.find("Operation not permitted") != std::string::npos) GTEST_SKIP() << "strace may not trace here";
    ASSERT_TRUE(dumped.exited(0)) << dumped.Describe();
  }
  std::set<std::string> nobodies;
  int read = 0;
  std::istringstream lines(ReadFile(trace));
  for (std::string line; std::getline(lines, line);) {
    const std::string process = line.substr(0, line.find(' '));
    if (line.find("setresuid(65534, 65534, 65534)") != std::string::npos) nobodies.insert(process);
    if (line.find(".pb.gz>") == std::string::npos) continue;
    ++read;
    EXPECT_TRUE(nobodies.contains(process)) << line;
  }
  EXPECT_EQ(read, 2);
  EXPECT_EQ(ListProfiles(out()).size(), 2u);
}

TEST_F(Users, AFolderWhereEverybodyMayDeleteIsReported) {
  std::filesystem::create_directories(out());
  chmod(out().c_str(), 0777);
  const RunResult r = RunAs(Launch::kRun, {"endings", "return"}, kEvery);
  EXPECT_THAT(r.err, HasSubstr("everybody can delete its files (mode 0777)"));
  EXPECT_EQ(ListProfiles(out()).size(), 1u);
}

// ---- The environment ----

// With the library in /etc/ld.so.preload, a user starts a setuid program, which starts another as root.
TEST_F(Users, AUserNamesNoProgramThatRootExecutes) {
  chmod(folder().c_str(), 0777);
  for (const char* helper : {"setuid_helper", "static_setuid_helper"}) {
    const std::string proof = folder() + "/proof-" + helper, named = folder() + "/named-" + helper,
                      copy = folder() + "/" + helper;
    WriteFile(named, "#!/bin/sh\nid -u >" + proof + "\n");
    chmod(named.c_str(), 0755);
    ASSERT_EQ(chown(named.c_str(), kNobody, kNobody), 0);
    std::filesystem::copy_file(ProgramPath(helper), copy);
    chmod(copy.c_str(), 04755);
    const std::string script =
        "mkdir -p $0/etc && cp -a /etc/. $0/etc/ && echo " + Library() +
        " >$0/etc/ld.so.preload && mount --bind $0/etc /etc || exit 77\n"
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups env HOLDFAST_ENABLE=1 HOLDFAST_EXPORTER=" +
        named + " HOLDFAST_HEAP_INTERVAL=1 HOLDFAST_OUT=" + out() + "/" + helper + " HOLDFAST_TABLES=" + tables() +
        " " + copy + " " + ProgramPath("threads_exact");
    const RunResult r = Execute({.argv = {"unshare", "-m", "sh", "-c", script, folder() + "/root-" + helper},
                                 .env = {{"HOLDFAST_ENABLE", "0"}},
                                 .cwd = folder()});
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_THAT(r.out, HasSubstr("expect ")) << r.Describe();
    EXPECT_EQ(ReadFile(proof), "") << helper;
    // The exporter has the library, too, there, and is no program that is profiled.
    for (const ProfileName& profile : ListProfiles("/")) EXPECT_NE(profile.program, "holdfast") << profile.path;
    // A dynamic helper has the library, which removes the user's options; a static one passes them on.
    EXPECT_EQ(Tables().size(), std::string(helper) == "setuid_helper" ? 0u : 1u) << ::testing::PrintToString(Tables());
    for (const std::string& table : Tables()) std::filesystem::remove(tables() + "/" + table);
  }
}

// One of root's, or of the user's own, is as good as the one beside the library.
TEST_F(Users, AToolThatIsNamedIsExecutedWhereItsOwnerMayBeTrusted) {
  const std::string copy = folder() + "/holdfast";
  std::filesystem::copy_file(Tool(), copy);
  const auto profiles_by = [&](uid_t owner, mode_t mode) {
    EXPECT_EQ(chown(copy.c_str(), owner, owner), 0);
    chmod(copy.c_str(), mode);
    std::filesystem::remove_all(out());
    Command command = CommandFor(Launch::kPreload, {"endings", "return"}, kEvery);
    command.env["HOLDFAST_EXPORTER"] = copy;
    EXPECT_TRUE(Execute(command).exited(5));
    for (const std::string& table : Tables()) std::filesystem::remove(tables() + "/" + table);
    EXPECT_TRUE(ExporterEnded());
    return ListProfiles(out()).size();
  };
  EXPECT_EQ(profiles_by(0, 0755), 1u);
  EXPECT_EQ(profiles_by(kNobody, 0755), 0u);
  EXPECT_EQ(profiles_by(0, 0777), 0u);
}

// ---- The lock ----

TEST_F(Users, AnotherUsersLockFileCostsNothingAtTheEnd) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"endings", "return"}));
  // The name can be guessed: here it is taken from a run before.
  chmod(folder().c_str(), 0777);
  Command command = CommandFor(Launch::kPreload, {"waits_for_input"}, kEvery);
  command.uid = kNobody;
  std::string lock;
  {
    Running running(command);
    ASSERT_TRUE(running.WaitForOutput("ready"));
    ASSERT_TRUE(Eventually([&] { return !(lock = Lock()).empty(); }));
    running.CloseInput();
    running.Wait();
  }
  ASSERT_TRUE(Settled());
  ASSERT_TRUE(Eventually([&] { return NamesIn(tables()).empty(); }));
  const std::string path = tables() + "/" + lock;
  WriteFile(path, "");
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  chmod(path.c_str(), 0666);
  Running holder({.argv = {"flock", path, "sh", "-c", "echo held; read line"}});
  ASSERT_TRUE(holder.WaitForOutput("held"));
  Command ends = CommandFor(Launch::kPreload, {"endings", "return"}, kEvery);
  ends.uid = kNobody;
  const RunResult r = Execute(ends);
  EXPECT_EQ(r.status, bare.status) << r.Describe();
  EXPECT_TRUE(r.AboutAsFastAs(bare)) << r.Describe();
  // Nothing is lost: collect says what is in the way, and does its work.
  ASSERT_EQ(Tables().size(), 1u);
  const RunResult collected = Execute({.argv = {Tool(), "collect", out(), "--tables", tables()}, .uid = kNobody});
  EXPECT_TRUE(collected.exited(0)) << collected.Describe();
  EXPECT_THAT(collected.err, HasSubstr(path + ": belongs to another user"));
  EXPECT_EQ(ListProfiles(out()).size(), 2u);  // of both processes
  holder.CloseInput();
  holder.Wait();
}

}  // namespace
}  // namespace holdfast::testing
