// Where debug information may lie: in files of their own, packed, shared, split, on a server. Each place gives the same
// frames as the file that has it all; a file of another build gives none.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "fmt/format.h"
#include "report/names/elf/xz.h"
#include "tests/symbols/oracle.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

class DebugFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("DEBUGINFOD_URLS", "", 1); }

  static std::string BuildId(const std::string& file) {
    const std::string notes = Command("readelf -n " + file).output;
    std::smatch match;
    return std::regex_search(notes, match, std::regex("Build ID: ([0-9a-f]+)")) ? std::string(match[1]) : "";
  }
  void Do(const std::string& command) {
    const CommandResult result = Command("cd " + folder_.path() + " && " + command);
    ASSERT_EQ(result.status, 0) << command << "\n" << result.output;
  }
  std::string IdFile(const std::string& id, const std::string& suffix = ".debug") {
    const std::string path = folder_.File("root/.build-id/" + id.substr(0, 2) + "/" + id.substr(2) + suffix);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    return path;
  }
  // Ours for `path`, against those of the whole file.
  void ExpectSameFrames(const std::string& path, const DebugFileFinder::Options& options) {
    ModuleSymbolizer whole(DebugFileFinder::Options{.roots = {}}), other(options);
    const auto addresses = CodeAddresses(whole_, 10000);
    const std::string id = BuildId(whole_);
    const Comparison result = Compare(whole_, addresses, AskHoldfast(&whole, whole_, id, addresses),
                                      AskHoldfast(&other, path, id, addresses));
    EXPECT_GT(result.with_inlines, 5000u);
    EXPECT_EQ(result.different, 0u) << result.first_differences;
  }
  // A program that is whole, and its path.
  std::string CopyOf(const std::string& sample, const std::string& name) {
    whole_ = std::string(HOLDFAST_SAMPLES "/") + sample + "/sample";
    std::filesystem::copy_file(whole_, folder_.File(name));
    return folder_.File(name);
  }
  DebugFileFinder::Options InRoot() { return {.roots = {folder_.File("root")}}; }

  Folder folder_;
  std::string whole_;
};

TEST_F(DebugFilesTest, AStrippedFileIsCompletedByBuildId) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("objcopy --only-keep-debug app " + IdFile(BuildId(app)) + " && strip app");
  ExpectSameFrames(app, InRoot());
}

TEST_F(DebugFilesTest, AStrippedFileIsCompletedByItsDebuglink) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("mkdir .debug && objcopy --only-keep-debug app .debug/app.dbg && strip app && objcopy "
     "--add-gnu-debuglink=.debug/app.dbg app");
  ExpectSameFrames(app, {.roots = {}});
}

TEST_F(DebugFilesTest, WithoutABuildIdTheDebuglinksChecksumMustBeRight) {
  const std::string app = CopyOf("gcc-4-no-pie", "app");
  Do("objcopy --remove-section .note.gnu.build-id app && objcopy --only-keep-debug app app.dbg && strip app && objcopy "
     "--add-gnu-debuglink=app.dbg app");
  const auto addresses = CodeAddresses(whole_, 1000);
  const auto lines = [&] {
    ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
    size_t count = 0;
    for (const OracleFrames& frames : AskHoldfast(&symbolizer, app, "", addresses)) count += frames[0].line != 0;
    return count;
  };
  EXPECT_GT(lines(), 900u);
  Do("printf x >> app.dbg");
  EXPECT_EQ(lines(), 0u);
}

TEST_F(DebugFilesTest, AProgramThatIsGoneIsFoundByBuildId) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("objcopy --only-keep-debug app " + IdFile(BuildId(app)) + " && rm app");
  ExpectSameFrames(app, InRoot());
}

TEST_F(DebugFilesTest, AProgramThatWasReplacedIsFoundInAFolderOfCopies) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("mkdir root && mv app root/app && cp /bin/true app");
  ExpectSameFrames(app, InRoot());
}

TEST_F(DebugFilesTest, AFileOfAnotherBuildGivesNothing) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  const std::string id = BuildId(app);
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-4-no-pie/sample", IdFile(id));
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-4-no-pie/sample", folder_.File("root/app"));
  Do("strip app");
  ModuleSymbolizer symbolizer(InRoot());
  for (const OracleFrames& frames : AskHoldfast(&symbolizer, app, id, CodeAddresses(whole_, 1000))) {
    EXPECT_EQ(frames[0].line, 0u);
    EXPECT_EQ(frames.size(), 1u);
  }
  std::filesystem::remove(app);
  EXPECT_EQ(symbolizer.Find(app, id).status().message(), "No such file or directory");
}

TEST_F(DebugFilesTest, SectionsThatAreCompressedByZstd) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("objcopy --compress-debug-sections=zstd app");
  ASSERT_THAT(Command("readelf -tW " + app).output, HasSubstr("ZSTD"));
  ExpectSameFrames(app, {.roots = {}});
}

TEST_F(DebugFilesTest, ASeparateFileThatIsCompressedByZstd) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("objcopy --only-keep-debug --compress-debug-sections=zstd app " + IdFile(BuildId(app)) + " && strip app");
  ExpectSameFrames(app, InRoot());
}

// Whatever is the matter with the lines, the functions of .symtab have their names, and the file is named.
TEST_F(DebugFilesTest, ASeparateFileWithDamagedLinesNamesFunctions) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  const std::string id = BuildId(app), debug = IdFile(id);
  Do("objcopy --only-keep-debug --compress-debug-sections=zlib app " + debug + " && strip app");
  std::smatch match;
  const std::string sections = Command("readelf -SW " + debug).output;
  ASSERT_TRUE(std::regex_search(sections, match, std::regex(R"( \.debug_info +\w+ +\w+ (\w+) )"))) << sections;
  // ELFCOMPRESS_… of a kind that nobody knows.
  Do(fmt::format("printf '\\007' | dd of={} bs=1 seek=$((0x{})) conv=notrunc", debug, std::string(match[1])));
  ModuleSymbolizer symbolizer(InRoot());
  const auto module = symbolizer.Find(app, id);
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_TRUE((*module)->elf().has_symtab());
  const auto addresses = CodeAddresses(whole_, 100);
  EXPECT_TRUE((*module)->LoadLines(addresses, Deadline::Never()));
  EXPECT_TRUE((*module)->is_unreadable());
  EXPECT_EQ((*module)->why(), debug + ": debug information in compression 7, which is neither zlib nor zstd");
}

TEST_F(DebugFilesTest, SectionsThatAreCompressedInTheOlderWay) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("objcopy --compress-debug-sections=zlib-gnu app");
  ASSERT_THAT(Command("readelf -SW " + app).output, HasSubstr(".zdebug_info"));
  ExpectSameFrames(app, {.roots = {}});
}

TEST_F(DebugFilesTest, CompressedSectionsThatAreTooLargeAreRefusedAndNamed) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  Do("objcopy --compress-debug-sections=zlib app");
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}, .max_unpacked = 1000});
  const auto module = symbolizer.Find(app, BuildId(app));
  ASSERT_TRUE(module.ok());
  EXPECT_TRUE((*module)->LoadLines(CodeAddresses(app, 10), Deadline::Never()));
  EXPECT_THAT((*module)->why(), HasSubstr("compressed debug information"));
}

TEST_F(DebugFilesTest, DwzInOneFile) {
  const std::string app = CopyOf("gcc-4-no-pie", "app");
  Do("dwz app");
  ASSERT_THAT(Command("readelf --debug-dump=info " + app + " 2>/dev/null | grep -m1 DW_TAG_imported_unit").output +
                  Command("readelf --debug-dump=info " + app + " 2>/dev/null | grep -m1 -o DW_FORM_ref_addr").output,
              ::testing::Not(HasSubstr("nothing")));
  ExpectSameFrames(app, {.roots = {}});
}

TEST_F(DebugFilesTest, DwzWithASharedFile) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  std::filesystem::copy_file(HOLDFAST_SAMPLES "/gcc-lto/sample", folder_.File("other"));
  Do("dwz -m common.debug app other");
  ASSERT_THAT(Command("readelf -SW " + app).output, HasSubstr(".gnu_debugaltlink"));
  ExpectSameFrames(app, {.roots = {}});

  Do("rm common.debug");
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
  const auto module = symbolizer.Find(app, BuildId(app));
  ASSERT_TRUE(module.ok());
  (*module)->LoadLines(CodeAddresses(app, 10), Deadline::Never());
  ASSERT_EQ((*module)->problems().size(), 1u);
  EXPECT_THAT((*module)->problems()[0], HasSubstr("common.debug"));
}

TEST_F(DebugFilesTest, SplitUnitsInAPackage) {
  for (const char* sample : {"gcc-split-4", "clang-split-4", "clang-split-5"}) {
    const std::string program = std::string(HOLDFAST_SAMPLES "/") + sample + "/sample";
    if (!std::filesystem::exists(program)) continue;
    const std::string app = CopyOf(sample, sample);
    // The package lies beside the program; the .dwo files are where they were compiled, under a name that is not asked
    // for once the package is there.
    std::string dwo;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(program).parent_path())) {
      if (entry.path().extension() == ".dwo") dwo = entry.path();
    }
    ASSERT_NE(dwo, "") << sample;
    const std::string tool = Command("command -v llvm-dwp-14").status == 0 ? "llvm-dwp-14" : "llvm-dwp";
    Do(tool + " " + dwo + " -o " + app + ".dwp");
    ExpectSameFrames(app, {.roots = {}});
  }
}

TEST_F(DebugFilesTest, ASplitUnitThatIsMissingLeavesLinesAndIsNamed) {
  // Compiled here, so that its .dwo can be taken away.
  folder_.Write("s.cc",
                "static inline int twice(int x) { return x * 2; }\nint main(int c, char**) {\n  return twice(c);\n}\n");
  Do("g++ -O1 -g -gsplit-dwarf -Wl,--build-id -c s.cc && g++ -Wl,--build-id -o app s.o && rm *.dwo");
  const std::string app = folder_.File("app");
  std::smatch match;
  const std::string symbols = Command("nm " + app).output;
  ASSERT_TRUE(std::regex_search(symbols, match, std::regex("([0-9a-f]{16}) T main")));
  const uint64_t address = std::stoull(match[1], nullptr, 16);
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
  const OracleFrames frames = AskHoldfast(&symbolizer, app, BuildId(app), {address})[0];
  EXPECT_EQ(frames[0].function, "main");
  EXPECT_NE(frames[0].line, 0u);
  const auto problems = (*symbolizer.Find(app, BuildId(app)))->problems();
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], HasSubstr("s.dwo: No such file or directory"));
}

TEST_F(DebugFilesTest, MiniDebugInformationNamesWhatTheDynamicSymbolsDoNot) {
  const std::string app = CopyOf("gcc-5-pie", "app");
  // As Fedora packs it: the functions that .dynsym has not.
  Do("objcopy --only-keep-debug app full.debug && objcopy -S --remove-section .gdb_index --remove-section .comment "
     "--keep-symbol=main --keep-symbol=heavy_inlining full.debug mini.debug && xz -k mini.debug && strip app && "
     "objcopy "
     "--add-section .gnu_debugdata=mini.debug.xz app");
  std::smatch match;
  const std::string symbols = Command("nm " + whole_).output;
  ASSERT_TRUE(std::regex_search(symbols, match, std::regex("([0-9a-f]{16}) T heavy_inlining")));
  ModuleSymbolizer symbolizer(DebugFileFinder::Options{.roots = {}});
  const auto module = symbolizer.Find(app, BuildId(app));
  ASSERT_TRUE(module.ok());
  EXPECT_EQ((*module)->NameAt(std::stoull(match[1], nullptr, 16)).name, "heavy_inlining");
}

TEST(Xz, DamagedDataIsAnError) {
  EXPECT_FALSE(UnpackXz("", 1000).ok());
  EXPECT_FALSE(UnpackXz("no xz at all", 1000).ok());
  Folder folder;
  Command("head -c 100000 /dev/zero | xz > " + folder.File("zeros.xz"));
  const std::string packed = ReadWhole(folder.File("zeros.xz"));
  EXPECT_EQ(UnpackXz(packed, 100000)->size(), 100000u);
  EXPECT_FALSE(UnpackXz(packed, 99999).ok());
  EXPECT_FALSE(UnpackXz(packed.substr(0, packed.size() / 2), 100000).ok());
}

// A server on this machine, with one file.
class Server {
 public:
  explicit Server(const Folder& folder) {
    port_ = 20000 + getpid() % 20000;
    pid_ = fork();
    if (pid_ == 0) {
      const std::string log = folder.File("server.log"), database = folder.File("server.sqlite");
      if (freopen(log.c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) _exit(1);
      execlp("debuginfod", "debuginfod", "-F", "-d", database.c_str(), "-p", std::to_string(port_).c_str(),
             folder.File("served").c_str(), nullptr);
      _exit(127);
    }
  }
  ~Server() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  // Until it has the file.
  bool Serves(const std::string& build_id) const {
    return Command(fmt::format(
                       "curl -sf --noproxy '*' --retry 60 --retry-all-errors --retry-delay 1 --retry-max-time 60 -o "
                       "/dev/null {}/buildid/{}/debuginfo",
                       url(), build_id))
               .status == 0;
  }

 private:
  int port_ = 0;
  pid_t pid_ = 0;
};

TEST_F(DebugFilesTest, DebuginfodIsAskedWhenItIsSetAndItsAnswersAreKept) {
  if (Command("command -v debuginfod").status != 0) GTEST_SKIP() << "debuginfod is not installed";
  const std::string app = CopyOf("gcc-5-pie", "app");
  const std::string id = BuildId(app);
  Do("mkdir served && objcopy --only-keep-debug app served/app.debug && strip app");
  setenv("DEBUGINFOD_CACHE_PATH", folder_.File("cache").c_str(), 1);
  setenv("no_proxy", "127.0.0.1", 1);
  {
    Server server(folder_);
    ASSERT_TRUE(server.Serves(id)) << ReadWhole(folder_.File("server.log"));
    setenv("DEBUGINFOD_URLS", "", 1);
    ModuleSymbolizer off(DebugFileFinder::Options{.roots = {}, .debuginfod = true});
    EXPECT_EQ(AskHoldfast(&off, app, id, CodeAddresses(whole_, 1))[0][0].line, 0u);  // nobody is asked
    setenv("DEBUGINFOD_URLS", server.url().c_str(), 1);
    ExpectSameFrames(app, {.roots = {}, .debuginfod = true});
  }
  ExpectSameFrames(app, {.roots = {}, .debuginfod = true});  // the server is gone
  std::filesystem::remove(app);
  ExpectSameFrames(app, {.roots = {}, .debuginfod = true});  // the program, too
}

}  // namespace
}  // namespace holdfast::testing
