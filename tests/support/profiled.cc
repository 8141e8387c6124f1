#include "tests/support/profiled.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>

#include "tests/support/linked_programs.h"

namespace holdfast::testing {
namespace {

std::string MakeFolder(const std::string& parent) {
  std::string name = parent + "/holdfast-test.XXXXXX";
  if (!mkdtemp(name.data())) abort();
  return name;
}

std::string VariableName(const std::string& option) {
  std::string name = "HOLDFAST_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(toupper(c));
  return name;
}

std::vector<std::string> FilesIn(const std::string& folder, const char* extension) {
  std::vector<std::string> result;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == extension) result.push_back(entry.path().filename());
  }
  return result;
}

// By an exporter that serves tables here. One that was killed leaves its file behind.
bool AnyLockIsHeld(const std::string& folder) {
  const std::string held = ReadFile("/proc/locks");
  for (const std::string& name : FilesIn(folder, ".lock")) {
    struct stat info;
    if (stat((folder + "/" + name).c_str(), &info) == 0 &&
        held.find(":" + std::to_string(info.st_ino) + " ") != std::string::npos)
      return true;
  }
  return false;
}

// The mappings of an allocator in the executable are the program's, and would add a file to each process.
constexpr char kAllButMappings[] = "heap,mutex,block,threads,exceptions";
bool ConcernsMappings() {
  static constexpr const char* kTests[] = {"Maps.",
                                           "MappedPages.",
                                           "Memory.",
                                           "Resident.",
                                           "Consumers.",
                                           "GrowingPrograms.",
                                           "Ways/PoolUsers.",
                                           "Snapshots.FilesAreNamedForProgramProcessAndKind",
                                           "BothWays/OptionsIn.SnapshotEveryZeroWritesOnlyAtTheEnd"};
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + "." + test->name();
  return std::any_of(std::begin(kTests), std::end(kTests),
                     [&name](const char* beginning) { return name.starts_with(beginning); });
}

std::unique_ptr<Running> exporter;  // of this test

}  // namespace

std::string LaunchName(const ::testing::TestParamInfo<Launch>& info) {
  static const char* const names[] = {"Bare", "Preloaded", "Run", "RunExec"};
  return names[static_cast<int>(info.param)];
}

std::string ProgramPath(const std::string& name) {
  const char* other = LinkedPrograms();
  return name.find('/') == std::string::npos ? std::string(other != nullptr ? other : HOLDFAST_PROGRAMS) + "/" + name
                                             : name;
}
std::string Tool() { return HOLDFAST_TOOL; }
std::string Library() {
  const char* other = getenv("HOLDFAST_TEST_LIBRARY");  // scripts/mutate: one with a mistake in it
  return other != nullptr ? other : HOLDFAST_LIBRARY;
}

bool Full() { return getenv("HOLDFAST_TEST_FULL") != nullptr; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::vector<Known> KnownHeap(const std::string& output) {
  std::vector<Known> result;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    Known known;
    if (words >> word && word == "expect" &&
        words >> known.function >> known.alloc_objects >> known.alloc_space >> known.inuse_objects >>
            known.inuse_space) {
      result.push_back(known);
    }
  }
  return result;
}

std::vector<KnownWait> KnownWaits(const std::string& output) {
  std::vector<KnownWait> result;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    KnownWait known;
    if (words >> word && word == "waits" && words >> known.function >> known.contentions >> known.delay_ns) {
      words >> known.least_ns;  // 0 where there is none
      result.push_back(known);
    }
  }
  return result;
}

void Profiled::SetUp() {
  folder_ = MakeFolder("/tmp");
  tables_ = MakeFolder("/dev/shm");
  // Programs that become another user must reach their output folder.
  chmod(folder_.c_str(), 0755);
  // Where programs cannot start exporters (scripts/systems arm64-tests), one serves the test.
  if (getenv("HOLDFAST_TEST_COLLECT") == nullptr) return;
  setenv("HOLDFAST_TEST_TABLES", tables_.c_str(), 1);  // those of other tests are theirs to collect
  std::filesystem::create_directory(out());
  exporter = std::make_unique<Running>(
      Command{.argv = {Tool(), "exporter", "--out", out(), "--tables", tables_, "--parent", std::to_string(getpid())}});
  EXPECT_TRUE(Eventually([&] { return AnyLockIsHeld(tables_); }));
}

void Profiled::TearDown() {
  Settled(30, 1);
  exporter.reset();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  std::filesystem::remove_all(tables_, error);
}

Command Profiled::CommandFor(Launch launch, std::vector<std::string> argv, const Options& options) const {
  Command command;
  argv[0] = ProgramPath(argv[0]);
  Options all = options;
  all.emplace("out", out());
  all.emplace("tables", tables());
  all.emplace("lifetimes",
              "no");  // of a process that lasts a second there would be a file more: lifetimes_test asks for it
  if (LinkedPrograms() != nullptr && !ConcernsMappings()) all.emplace("profiles", kAllButMappings);
  switch (launch) {
    case Launch::kBare:
      command.argv = argv;
      break;
    case Launch::kPreload:
      command.argv = argv;
      command.env["LD_PRELOAD"] = Library();
      for (const auto& [name, value] : all) command.env[VariableName(name)] = value;
      break;
    case Launch::kRun:
    case Launch::kExec:
      command.argv = {Tool(), "run"};
      if (launch == Launch::kExec) command.argv.push_back("--exec");
      for (const auto& [name, value] : all) {
        command.argv.push_back("--" + name);
        command.argv.push_back(value);
      }
      command.argv.push_back("--");
      command.argv.insert(command.argv.end(), argv.begin(), argv.end());
      break;
  }
  return command;
}

Command Profiled::InContainer(Command command, const std::string& real, const std::string& place) {
  std::vector<std::string> argv = {
      "unshare", "--mount", "/bin/sh", "-c", "mount --bind \"$0\" " + place + " && exec \"$@\"", real, "env"};
  for (const auto& [name, value] : command.env) argv.push_back(name + "=" + value);
  command.env.clear();
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  command.argv = std::move(argv);
  return command;
}

RunResult Profiled::RunAs(Launch launch, std::vector<std::string> argv, const Options& options) {
  return RunAndSettle(CommandFor(launch, std::move(argv), options));
}

RunResult Profiled::RunAndSettle(const Command& command) {
  RunResult result = Execute(command);
  EXPECT_FALSE(result.timed_out) << result.Describe();
  EXPECT_TRUE(Settled()) << "tables are still there: " << ::testing::PrintToString(Tables());
  return result;
}

void Profiled::StepThroughSnapshots(Running* running, int steps) {
  // Not their number: older ones may be removed.
  const auto newest = [this] {
    int seq = 0;
    for (const ProfileName& name : ListProfiles(out())) seq = std::max(seq, static_cast<int>(name.seq));
    return seq;
  };
  ASSERT_TRUE(running->WaitForOutput("ready"));
  for (int i = 1; i <= steps; ++i) {
    const int before = newest();
    running->Write("line\n");
    ASSERT_TRUE(running->WaitForOutput("done " + std::to_string(i)));
    ASSERT_TRUE(Eventually([&] { return newest() > before; })) << "no snapshot after line " << i;
  }
  EXPECT_TRUE(running->Wait().exited(0));
  ASSERT_TRUE(Settled());
}

RunResult Profiled::RunTool(std::vector<std::string> arguments, const std::string& cwd) {
  arguments.insert(arguments.begin(), Tool());
  Command command;
  command.argv = std::move(arguments);
  command.cwd = cwd;
  return Execute(command);
}

std::vector<pid_t> Profiled::Exporters() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string command = ReadFile(entry.path() / "cmdline");
    if (command.find(std::string("exporter") + '\0' + "--out" + '\0' + out() + '\0') != std::string::npos)
      found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}

RunResult Profiled::RunGoPprof(const std::vector<std::string>& arguments) {
  Command command;
  command.argv = {"go", "tool", "pprof", "-symbolize=none"};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.env = {{"GOFLAGS", ""}, {"GOTOOLCHAIN", "local"}, {"HOME", "/tmp"}};
  return Execute(command);
}

std::vector<std::string> Profiled::Tables() const { return FilesIn(tables_, ".table"); }

bool Profiled::Settled(double seconds, double unserved) const {
  double last_served = Now();
  Eventually(
      [&] {
        if (AnyLockIsHeld(tables_)) last_served = Now();
        return Tables().empty() || Now() - last_served > unserved;
      },
      seconds);
  return Tables().empty();
}

void Profiled::ExpectKnownHeap(const std::string& output) {
  const std::vector<Known> all = KnownHeap(output);
  ASSERT_FALSE(all.empty()) << "the program said nothing:\n" << output;
  const std::vector<Decoded> profiles = NewestHeap();
  ASSERT_FALSE(profiles.empty()) << "no heap profile in " << out();
  for (const Known& known : all) {
    Known found = {known.function, 0, 0, 0, 0};
    int files = 0;
    for (const Decoded& profile : profiles) {
      const Values sum = profile.SumLeaf(known.function);
      found.alloc_objects += sum.at("alloc_objects");
      found.alloc_space += sum.at("alloc_space");
      found.inuse_objects += sum.at("inuse_objects");
      found.inuse_space += sum.at("inuse_space");
      files += sum.at("alloc_objects") > 0;
    }
    EXPECT_EQ(found.alloc_objects, known.alloc_objects) << known.function << ", alloc_objects\n" << AllSummaries();
    EXPECT_EQ(found.alloc_space, known.alloc_space) << known.function << ", alloc_space";
    EXPECT_EQ(found.inuse_objects, known.inuse_objects) << known.function << ", inuse_objects";
    EXPECT_EQ(found.inuse_space, known.inuse_space) << known.function << ", inuse_space";
    EXPECT_EQ(files, known.alloc_objects > 0 ? 1 : 0) << known.function << " is in this number of processes' files";
  }
}

void Profiled::ExpectAllWhole() {
  std::vector<std::string> others;
  for (const ProfileName& name : ListProfiles(out(), &others)) {
    const Decoded profile = Decode(name.path);
    EXPECT_EQ(profile.error, "") << name.path;
    const std::vector<std::string> types =
        name.kind == "heap"         ? std::vector<std::string>{"alloc_objects/count", "alloc_space/bytes",
                                                               "inuse_objects/count", "inuse_space/bytes"}
        : name.kind == "map"        ? std::vector<std::string>{"alloc_objects/count", "alloc_space/bytes",
                                                               "inuse_objects/count", "inuse_space/bytes"}
        : name.kind == "peak"       ? std::vector<std::string>{"peak_objects/count", "peak_space/bytes"}
        : name.kind == "lifetimes"  ? std::vector<std::string>{"freed_objects/count", "freed_space/bytes",
                                                               "lifetime/nanoseconds", "alive_space/bytes"}
        : name.kind == "threads"    ? std::vector<std::string>{"created/count", "alive/count"}
        : name.kind == "exceptions" ? std::vector<std::string>{"exceptions/count"}
                                    : std::vector<std::string>{"contentions/count", "delay/nanoseconds"};
    EXPECT_EQ(profile.types, types) << name.path;
    EXPECT_EQ(profile.default_type, name.kind == "heap"         ? "inuse_space"
                                    : name.kind == "map"        ? "inuse_space"
                                    : name.kind == "peak"       ? "peak_space"
                                    : name.kind == "lifetimes"  ? "freed_space"
                                    : name.kind == "threads"    ? "alive"
                                    : name.kind == "exceptions" ? "exceptions"
                                                                : "delay")
        << name.path;
    EXPECT_EQ(profile.duration_nanos, 0) << name.path;
    EXPECT_GT(profile.time_nanos, 1'700'000'000'000'000'000) << name.path;
  }
  // Temporary names are gone once all is settled; whatever lies beside the profiles begins with a dot.
  for (const std::string& other : others) EXPECT_EQ(other[0], '.') << "a stray file: " << other;
}

std::string Profiled::AllSummaries() const {
  std::string text;
  for (const ProfileName& name : ListProfiles(out())) text += Decode(name.path).Summary();
  return text;
}

}  // namespace holdfast::testing
