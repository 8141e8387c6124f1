// `holdfast top` and `holdfast info` as a command line: options, exit codes, output that does not arrive.
#include <gmock/gmock.h>

#include <filesystem>
#include <iostream>

#include "report/cmd/commands.h"
#include "report/cmd/did_you_mean.h"
#include "report/cmd/usage_error.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::SmallProfile;

// Takes the place of a standard stream's buffer.
class Redirect {
 public:
  Redirect(std::ostream& stream, std::streambuf* buffer) : stream_(stream), before_(stream.rdbuf(buffer)) {}
  ~Redirect() {
    stream_.rdbuf(before_);
    stream_.clear();
  }

 private:
  std::ostream& stream_;
  std::streambuf* before_;
};

struct Result {
  int exit_code;
  std::string out, err;
};

Result Holdfast(const std::string& command_line, std::streambuf* out_buffer = nullptr) {
  CLI::App app{"", "holdfast"};
  Invocation invocation{.exit_code = -1};
  AddTopCommand(app, &invocation);
  AddInfoCommand(app, &invocation);
  std::stringbuf out, err;
  Redirect redirect_out(std::cout, out_buffer != nullptr ? out_buffer : &out), redirect_err(std::cerr, &err);
  try {
    app.parse(command_line);
  } catch (const CLI::ParseError& error) {
    invocation.exit_code = app.exit(error, std::cout, std::cerr);
  }
  return {invocation.exit_code, out.str(), err.str()};
}

class Commands : public ::testing::Test {
 protected:
  Folder folder_;
  const std::string file_ = folder_.Write("small.pb.gz", EncodePprof(SmallProfile()));
};

TEST_F(Commands, TopShowsTheDefaultMetric) {
  const Result result = Holdfast("top " + file_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("metric   inuse_space (heap)\n"));
  EXPECT_THAT(result.out, HasSubstr("400B 80.65%  400B 80.65%  x_alloc  (libx.so.1)\n"));
}

TEST_F(Commands, TopTakesItsOptionsUnderBothNames) {
  for (const char* options : {"--metric alloc_objects -n 1 --cum --unit raw", "--sample_index=0 --nodecount=1 --cum"}) {
    const Result result = Holdfast("top " + std::string(options) + " " + file_);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("metric   alloc_objects (heap)\n"));
    EXPECT_THAT(result.out, HasSubstr("showing  1 of 4 functions\n"));
    EXPECT_THAT(result.out, HasSubstr("    1  7.14%    14   100%  main  (app)\n"));
  }
}

// Of options that may be given several times each takes one text, and leaves FILE to the command.
TEST_F(Commands, OptionsMayComeBeforeAndAfterTheFile) {
  const Result result = Holdfast("top --plumbing x_alloc --plumbing nothing " + file_ + " -n 1");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("showing  1 of 4 functions\n"));
}

TEST_F(Commands, HelpTeachesWithAnExample) {
  EXPECT_THAT(Holdfast("top --help").out, HasSubstr("holdfast top --cum --metric alloc_space"));
  EXPECT_THAT(Holdfast("info --help").out, HasSubstr("holdfast info app.4242.0003.heap.pb.gz"));
}

TEST_F(Commands, InfoPrintsTheFile) {
  const Result result = Holdfast("info " + file_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("metric      inuse_space in bytes: 496 ± 12"));
}

TEST_F(Commands, InfoOfAFolderIsThatOfItsNewestFiles) {
  const Result result = Holdfast("info " + std::filesystem::path(file_).parent_path().string());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, Holdfast("info " + file_).out);
}

TEST_F(Commands, CountsAreWholeNumbers) {
  for (const char* count : {"-3", "x", "1.5"}) {
    const Result result = Holdfast("top -n " + std::string(count) + " " + file_);
    EXPECT_NE(result.exit_code, 0) << count;
    EXPECT_THAT(result.err, HasSubstr("\"" + std::string(count) + "\" is not a whole number, 0 or more"));
  }
}

// What main prints between "holdfast: top: " and ". holdfast top --help says what it takes."
std::string Wrong(const std::string& command_line) {
  CLI::App app{"", "holdfast"};
  Invocation invocation;
  for (AddCommand* const add :
       {AddTopCommand, AddTreeCommand, AddGraphCommand, AddListCommand, AddExportCommand, AddDiffCommand,
        AddLeaksCommand, AddCheckCommand, AddMergeCommand, AddSymbolizeCommand, AddLsCommand}) {
    add(app, &invocation);
  }
  try {
    app.parse(command_line);
  } catch (const CLI::ParseError& error) {
    return UsageError(error);
  }
  return "fine";
}

TEST(DidYouMeanTest, ATypoIsCorrectedAndNothingIsGuessed) {
  const std::vector<std::string> commands = {"run", "top", "tree", "callers", "locks", "leaks", "diff", "completion"};
  EXPECT_EQ(NearestName("tpo", commands), "top");
  EXPECT_EQ(NearestName("leak", commands), "leaks");
  EXPECT_EQ(NearestName("lokcs", commands), "locks");
  EXPECT_EQ(NearestName("comp", commands), "completion") << "a beginning";
  EXPECT_EQ(NearestName("frobnicate", commands), "");
  EXPECT_EQ(NearestName("", commands), "");
  EXPECT_EQ(NearestName(std::string(100'000, 'x'), commands), "");
  EXPECT_EQ(DidYouMean("--nodecuont", {"--cum", "--nodecount"}), " Did you mean --nodecount?");
  EXPECT_EQ(DidYouMean("--zzz", {"--cum", "--nodecount"}), "");
}

TEST_F(Commands, ErrorsAreInOurOwnWords) {
  EXPECT_EQ(Wrong("top"), "FILE is missing");
  EXPECT_EQ(Wrong("top x --frobnicate"), "--frobnicate: no such option");
  EXPECT_EQ(Wrong("top x --frobnicate=3"), "--frobnicate: no such option");
  EXPECT_EQ(Wrong("top x --frobnicate --first-is-named"), "--frobnicate: no such option");
  EXPECT_EQ(Wrong("ls --frobnicate 3"), "--frobnicate: no such option");
  EXPECT_EQ(Wrong("top x -n"), "--nodecount requires a value");
  EXPECT_EQ(Wrong("top x --nodecount"), "--nodecount requires a value");
  EXPECT_EQ(Wrong("top x --unit ns --unit ms"), "--unit may be given only once");
  EXPECT_EQ(Wrong("top x --cum=perhaps"), "--cum does not take \"perhaps\"");
  EXPECT_EQ(Wrong("graph x --nodefraction 2"), "--nodefraction: \"2\" is not a fraction from 0 to 1, such as 0.01");
  EXPECT_EQ(Wrong("graph x --edgefraction some"),
            "--edgefraction: \"some\" is not a fraction from 0 to 1, such as 0.01");
  EXPECT_EQ(Wrong("top x --fold all"), "--fold: \"all\" is not none, system, plumbing or recursion");
  EXPECT_EQ(Wrong("merge x --difference --average"), "--difference and --average exclude each other");
  EXPECT_EQ(Wrong("symbolize x --symbols some"), "--symbols: \"some\" is not full, symtab or none");
  EXPECT_EQ(Wrong("symbolize x --debug-dir /no/such"),
            "--debug-dir: \"/no/such\" is not a folder (No such file or directory)");
}

TEST_F(Commands, TheUnitIsNotThatOfTheInterval) {
  EXPECT_THAT(Holdfast("top --unit MiB " + file_).out, ::testing::Not(HasSubstr("1 in 0")));
}

TEST_F(Commands, AFileThatCannotBeReadIsExitCodeThree) {
  EXPECT_EQ(Holdfast("top /no/such").exit_code, 3);
  EXPECT_EQ(Holdfast("info /no/such").exit_code, 3);
  EXPECT_EQ(Holdfast("top --metric nothing " + file_).exit_code, 2);
}

TEST_F(Commands, OutputThatDoesNotArriveIsExitCodeThree) {
  struct Full : std::streambuf {
    int overflow(int) override {
      errno = ENOSPC;
      return EOF;
    }
  } full;
  const Result result = Holdfast("top " + file_, &full);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("holdfast: standard output: could not write ("));
}

}  // namespace
}  // namespace holdfast
