// If nothing can be written, mapped, opened or started, the program behaves exactly as without the library.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kNobody = 65534;

class Surroundings : public Profiled {
 protected:
  // Bare and preloaded, with the same limits, user and folder: equal in everything that can be seen.
  RunResult ExpectAsBare(std::vector<std::string> argv, const Options& options, const Command& like = {}) {
    const auto shape = [&](Command command) {
      command.limits = like.limits;
      command.uid = like.uid;
      command.cwd = like.cwd;
      return command;
    };
    const RunResult bare = Execute(shape(CommandFor(Launch::kBare, argv)));
    const RunResult r = Execute(shape(CommandFor(Launch::kPreload, argv, options)));
    EXPECT_EQ(r.status, bare.status) << r.Describe() << bare.Describe();
    EXPECT_EQ(r.out, bare.out);
    EXPECT_EQ(r.err, bare.err);
    EXPECT_TRUE(r.AboutAsFastAs(bare)) << r.Describe();
    return r;
  }
  void RemoveTables() const {
    for (const std::string& table : Tables()) std::filesystem::remove(tables() + "/" + table);
  }
};

const Options kEvery = {{"heap-interval", "1"}, {"lock-interval", "1ns"}};
Options With(Options options, const std::string& name, const std::string& value) {
  options[name] = value;
  return options;
}

TEST_F(Surroundings, TheProgramSeesNoDescriptorThreadSignalOrChild) {
  ExpectAsBare({"surroundings"}, kEvery);
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"surroundings"}));
  EXPECT_EQ(RunAs(Launch::kExec, {"surroundings"}, kEvery).out, bare.out);
  EXPECT_EQ(RunAs(Launch::kRun, {"surroundings"}, kEvery).out, bare.out);
}

// Our arithmetic raises no signal (feenableexcept), leaves no flag (fetestexcept), and is not rounded as the program's.
TEST_F(Surroundings, FloatingPointExceptionsAreTheProgramsOwn) {
  const Options often = {{"heap-interval", "4KiB"}, {"lock-interval", "10us"}, {"lifetimes", "yes"}};
  for (const char* watched : {"traps", "flags"}) {
    const RunResult r = ExpectAsBare({"float_exceptions", watched}, often);
    EXPECT_EQ(r.out, "kept\n") << r.Describe();
    ASSERT_TRUE(Settled());
    EXPECT_THAT(NewestBlock(), Not(IsEmpty()));
    RemoveTables();
  }
}

TEST_F(Surroundings, FilesMayNotGrow) {
  Command like;
  like.limits = {{RLIMIT_FSIZE, 0}};
  ExpectAsBare({"threads_exact"}, kEvery, like);
  RemoveTables();
}

// Too little for a table of 64 MiB: a smaller one is made. The exporter has no more; with the shared libraries of sid it takes 60.
TEST_F(Surroundings, LittleAddressSpace) {
  Command like;
  like.limits = {{RLIMIT_AS, 70 << 20}};
  ExpectAsBare({"allocators"}, kEvery, like);
  EXPECT_TRUE(Settled());
  EXPECT_EQ(NewestHeap().size(), 1u);
}

TEST_F(Surroundings, AlmostNoDescriptors) {
  Command like;
  like.limits = {{RLIMIT_NOFILE, 4}};
  ExpectAsBare({"threads_exact"}, kEvery, like);
  RemoveTables();
}

TEST_F(Surroundings, NoMoreProcesses) {
  if (!IsRoot()) GTEST_SKIP() << "needs root to become another user and count that user's processes";
  chmod(tables().c_str(), 0777);
  std::filesystem::create_directories(out());
  chmod(out().c_str(), 0777);
  Command like;
  like.uid = 100000 + getpid() % 100000;  // nobody else's: its processes are counted
  like.limits = {{RLIMIT_NPROC, 1}};
  ExpectAsBare({"allocators"}, kEvery, like);
  RemoveTables();
}

TEST_F(Surroundings, TheOutputFolderCannotBeMade) {
  for (const char* folder : {"/proc/holdfast", "/dev/null/holdfast", "/proc/self/holdfast/x"}) {
    ExpectAsBare({"threads_exact"}, With(kEvery, "out", folder));
    RemoveTables();
  }
}

TEST_F(Surroundings, TheOutputFolderCannotBeWritten) {
  if (!IsRoot()) GTEST_SKIP() << "needs root to become another user";
  chmod(tables().c_str(), 0777);
  std::filesystem::create_directories(out());
  Command like;
  like.uid = kNobody;
  ExpectAsBare({"threads_exact"}, kEvery, like);
  EXPECT_TRUE(ListProfiles(out()).empty());
  RemoveTables();
}

TEST_F(Surroundings, TheTablesCannotBeMade) {
  for (const char* folder : {"/proc", "/nonexistent", "/dev/null"})
    ExpectAsBare({"threads_exact"}, With(kEvery, "tables", folder));
  if (!IsRoot()) return;
  chmod(tables().c_str(), 0555);
  Command like;
  like.uid = kNobody;
  ExpectAsBare({"threads_exact"}, kEvery, like);
}

// A tmpfs of 1 MiB for the tables, full at once or in the middle.
class SmallTmpfs : public Surroundings {
 protected:
  void SetUp() override {
    Surroundings::SetUp();
    if (!IsRoot()) GTEST_SKIP() << "mounting a tmpfs needs root";
    small_ = folder() + "/small";
    mkdir(small_.c_str(), 0755);
    ASSERT_EQ(mount("small", small_.c_str(), "tmpfs", 0, "size=1m"), 0);
  }
  void TearDown() override {
    if (!small_.empty()) umount2(small_.c_str(), MNT_DETACH);
    Surroundings::TearDown();
  }
  void Fill() const {
    std::ofstream file(small_ + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), 4096) && file.flush()) {
    }
  }
  std::string small_;
};

TEST_F(SmallTmpfs, FullTablesNeverHurtTheProgram) {
  Fill();
  ExpectAsBare({"threads_exact"}, With(kEvery, "tables", small_));
}

TEST_F(SmallTmpfs, TablesThatGrowIntoAFullDiskStopAndCountIt) {
  const RunResult r = ExpectAsBare({"threads_exact"}, With(With(kEvery, "tables", small_), "out", out()));
  ASSERT_TRUE(r.exited(0));
  // At most a quarter of the free space is ours.
  uintmax_t used = 0;
  for (const auto& entry : std::filesystem::directory_iterator(small_)) {
    struct stat info;
    if (stat(entry.path().c_str(), &info) == 0) used += static_cast<uintmax_t>(info.st_blocks) * 512;
  }
  EXPECT_LE(used, 256u << 10);
}

TEST_F(SmallTmpfs, ATableThatWouldGrowIntoAFullDiskStaysAsItIs) {
  ASSERT_EQ(mount("small", small_.c_str(), "tmpfs", MS_REMOUNT, "size=16m"), 0);
  Running running(CommandFor(Launch::kPreload, {"churn", "20000", "20000", "0", "wait"},
                             With(With(kEvery, "tables", small_), "out", out())));
  // Its table is there, and may become 4 MiB large by its cap; now the place is gone.
  ASSERT_TRUE(Eventually([&] {
    for (const auto& entry : std::filesystem::directory_iterator(small_)) {
      if (entry.path().extension() == ".table") return true;
    }
    return false;
  }));
  Fill();
  running.Write("go on\n");
  running.CloseInput();
  const RunResult r = running.Wait();
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, "20000 blocks, 0 threads\n");
  ASSERT_TRUE(Eventually([&] { return !NewestHeap().empty(); }));
  const Decoded heap = NewestHeap().at(0);
  EXPECT_GE(heap.Total().at("alloc_objects"), 20'000);  // in [overflow] what had no room
  EXPECT_FALSE(heap.Comment("losses").has_value()) << heap.Summary();
}

TEST_F(SmallTmpfs, AFullOutputFolderLosesFilesAndNothingElse) {
  Fill();
  ExpectAsBare({"threads_exact"}, With(kEvery, "out", small_));
  EXPECT_TRUE(ListProfiles(small_).empty());
  std::vector<std::string> others;
  ListProfiles(small_, &others);
  for (const std::string& other : others) EXPECT_TRUE(other == "filler" || other[0] == '.') << "torn: " << other;
  RemoveTables();
}

// attach and detach say which folder is full. What was recorded can be written elsewhere.
TEST_F(SmallTmpfs, AttachToAFullOutputFolderSaysSo) {
  Running running(CommandFor(Launch::kBare, {"waits_for_input"}));
  ASSERT_TRUE(running.WaitForOutput("ready"));
  const std::string pid = std::to_string(running.pid());
  Fill();
  const RunResult attached =
      RunTool({"attach", pid, "-o", small_, "--tables", tables(), "--heap-interval", "1", "--quiet"});
  if (attached.err.find("not attached") != std::string::npos) GTEST_SKIP() << attached.err;
  EXPECT_TRUE(attached.exited(0)) << attached.Describe();
  EXPECT_THAT(attached.err,
              ::testing::HasSubstr("no profiles can be written to " + small_ + " now: No space left on device."));
  EXPECT_THAT(attached.err, ::testing::HasSubstr("holdfast dump " + pid + " -o DIR"));
  running.Write("line\n");
  ASSERT_TRUE(running.WaitForOutput("done 1\n"));
  const RunResult detached = RunTool({"detach", pid, "--tables", tables()});
  EXPECT_TRUE(detached.exited(3)) << detached.Describe();
  EXPECT_THAT(detached.err, ::testing::HasSubstr("detached, "));
  EXPECT_THAT(detached.err, ::testing::HasSubstr("the last profiles are not written: " + small_ +
                                                 ": No space left on device. holdfast dump " + pid + " -o DIR"));
  const RunResult dumped = RunTool({"dump", pid, "-o", out(), "--tables", tables()});
  EXPECT_TRUE(dumped.exited(0)) << dumped.Describe();
  ASSERT_EQ(NewestHeap().size(), 1u);
  EXPECT_EQ(NewestHeap()[0].SumLeaf("for_each_line").at("alloc_objects"), 100);
  running.CloseInput();
  EXPECT_TRUE(running.Wait().exited(0));
  RemoveTables();
}

TEST_F(Surroundings, SetuidProgramsAreLeftAlone) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  // The loader ignores LD_PRELOAD with a slash for them; `run` says so.
  const std::string program = folder() + "/setuid_program";
  std::filesystem::copy_file(ProgramPath("endings"), program);
  chmod(program.c_str(), 04755);
  chmod(tables().c_str(), 0777);
  Command like;
  like.uid = kNobody;
  ExpectAsBare({program, "return"}, kEvery, like);
}

// A program without a race has none under a race detector, and nothing of ours asks the kernel for what memcheck knows better.
TEST_F(Surroundings, ValgrindsToolsFindNothingOfOurs) {
  if (!Execute({.argv = {"valgrind", "--version"}}).exited(0)) GTEST_SKIP() << "needs valgrind";
  constexpr const char* kTools[] = {"memcheck", "drd", "helgrind", "massif", "dhat"};
  std::vector<std::unique_ptr<Running>> all;
  for (const char* tool : kTools) {
    Command command = CommandFor(Launch::kPreload, {"race_free"}, kEvery);
    std::vector<std::string> valgrind = {"valgrind", "-q", std::string("--tool=") + tool};
    if (std::string(tool) == "massif") valgrind.push_back("--massif-out-file=/dev/null");
    if (std::string(tool) == "dhat") valgrind.push_back("--dhat-out-file=/dev/null");
    command.argv.insert(command.argv.begin(), valgrind.begin(), valgrind.end());
    all.push_back(std::make_unique<Running>(command));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const RunResult r = all[i]->Wait();
    EXPECT_TRUE(r.exited(0)) << kTools[i] << ": " << r.Describe();
    EXPECT_EQ(r.out, "10 10\n") << kTools[i];
    EXPECT_EQ(r.err, "") << kTools[i];
  }
}

// The exporter is no child of a tracee that its tracer could wait for.
TEST_F(Surroundings, ATracerDoesNotFollowTheExporter) {
  // Only the large blocks are sampled, that of the tracee first.
  Command command = CommandFor(Launch::kPreload, {"traces_children"}, {{"heap-interval", "1MiB"}, {"seed", "1"}});
  command.timeout_seconds = 20;
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.out, "1\n");
}

// Another library's functions may need its constructor, which may allocate first.
TEST_F(Surroundings, StringFunctionsMayNotBeReadyAtTheFirstAllocation) {
  Command command = CommandFor(Launch::kPreload, {"allocators"}, kEvery);
  command.env["LD_PRELOAD"] += " " + ProgramPath("late_strings.so");
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  ExpectKnownHeap(r.out);
}

// AddressSanitizer has a malloc of its own, and refuses to start when another library comes first.
TEST_F(Surroundings, SanitizedProgramsAreLeftAlone) {
  const std::string objects = Execute({.argv = {"ldd", ProgramPath("sanitized_program")}}).out;
  const size_t start = objects.find('/', objects.find("libasan"));
  ASSERT_NE(start, std::string::npos) << objects;
  const std::string sanitizer = objects.substr(start, objects.find(' ', start) - start);
  // It leaks, which is not the question here.
  const auto with = [](Command command, const std::string& preload, const std::string& options = "") {
    if (!preload.empty()) command.env["LD_PRELOAD"] = preload;
    command.env["ASAN_OPTIONS"] = "detect_leaks=0" + options;
    return command;
  };
  const RunResult bare = Execute(with(CommandFor(Launch::kBare, {"sanitized_program"}), ""));
  ASSERT_TRUE(bare.exited(0)) << bare.Describe();
  const Command preloaded = CommandFor(Launch::kPreload, {"sanitized_program"}, kEvery);
  for (const Command& command :
       {with(CommandFor(Launch::kExec, {"sanitized_program"}, kEvery), ""),
        with(preloaded, sanitizer + ":" + Library()), with(preloaded, Library(), ":verify_asan_link_order=0")}) {
    const RunResult r = Execute(command);
    EXPECT_EQ(r.status, bare.status) << r.Describe();
    EXPECT_EQ(r.out, bare.out);
    if (command.argv[0] != Tool()) {  // which says that it records nothing
      EXPECT_EQ(r.err, bare.err);
    }
  }
  EXPECT_TRUE(ListProfiles(out()).empty());
}

// So has one into which clang has linked ThreadSanitizer: pthread_join of that calls ours, and ours called it again.
TEST_F(Surroundings, AProgramsOwnFunctionsAreNotCalledFromInsideAJoin) {
  const RunResult bare = Execute(CommandFor(Launch::kBare, {"own_join"}));
  ASSERT_EQ(bare.out, "0 1\n0 2\n0 7\n") << bare.Describe();
  ExpectAsBare({"own_join"}, kEvery);
}

// Whoever may write into a folder where root happens to be chooses nothing that root executes.
TEST_F(Surroundings, TheToolAndItsExporterLoadNothingFromTheWorkingDirectory) {
  const std::string place = folder() + "/place";
  std::filesystem::create_directory(place);
  for (const char* library :
       {"libc.so.6", "libm.so.6", "libmimalloc.so.2", "libmicrohttpd.so.12", "libdebuginfod.so.1"})
    WriteFile(place + "/" + library, "not a library");
  const RunResult version = RunTool({"--version"}, place);
  EXPECT_TRUE(version.exited(0)) << version.Describe();
  // The exporter's first look around, by a shell in its place.
  const std::string stand_in = folder() + "/stand_in", seen = folder() + "/seen";
  WriteFile(stand_in, "#!/bin/sh\nreadlink /proc/$$/cwd >" + seen + ".new && mv " + seen + ".new " + seen + "\n");
  chmod(stand_in.c_str(), 0755);
  Command command = CommandFor(Launch::kPreload, {"endings", "return"}, kEvery);
  command.env["HOLDFAST_EXPORTER"] = stand_in;
  command.cwd = place;
  EXPECT_TRUE(Execute(command).exited(5));
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(seen); }));
  EXPECT_EQ(ReadFile(seen), "/\n");
  RemoveTables();
}

TEST_F(Surroundings, PathsMayHaveBlanks) {
  const std::string program = folder() + "/my program", profiles = folder() + "/my profiles",
                    in = tables() + "/my tables";
  std::filesystem::create_directory(in);
  std::filesystem::copy_file(ProgramPath("allocators"), program);
  const RunResult run = RunTool({"run", "--heap-interval", "1", "-o", profiles, "--tables", in, "--", program});
  EXPECT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_THAT(RunTool({"top", "--metric", "alloc_space", profiles}).out, HasSubstr(" by_malloc  (my program)"));
}

void RemoveLinksTo(const std::string& tree) {
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    std::error_code none;
    if (std::filesystem::read_symlink(entry.path(), none) == tree) std::filesystem::remove(entry.path());
  }
}

// LD_PRELOAD cannot hold the second path: the program is started through a link.
class MovedTree : public Surroundings, public ::testing::WithParamInterface<const char*> {};

TEST_P(MovedTree, ProfilesAProgramAndItsChild) {
  const std::string tree = folder() + "/" + GetParam();
  std::filesystem::create_directories(tree + "/bin");
  std::filesystem::create_directories(tree + "/lib/holdfast");
  std::filesystem::copy_file(Tool(), tree + "/bin/holdfast");
  std::filesystem::copy_file(Library(), tree + "/lib/holdfast/libholdfast.so");
  Command command;
  command.argv = {tree + "/bin/holdfast",      "run", "--heap-interval", "1", "-o", out(), "--tables", tables(), "--",
                  ProgramPath("threads_exact")};
  command.argv.insert(command.argv.end() - 1, {"/bin/sh", "-c", "\"$0\"; exit $?"});
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(r.err.find("ld.so"), std::string::npos) << r.err;
  ExpectKnownHeap(r.out);
  RemoveLinksTo(tree);
}
INSTANTIATE_TEST_SUITE_P(Paths, MovedTree, ::testing::Values("moved-tree", "moved tree: $HOME"),
                         [](const auto& named) { return named.index == 0 ? "plain" : "divided"; });

}  // namespace
}  // namespace holdfast::testing
