// The command line of `run`: what is ours and what the program's, what values are taken, what the program then finds in
// its environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/run/leave_own_profile.h"
#include "report/run/run_options.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

class RunOptionsTest : public ::testing::Test {
 protected:
  RunOptionsTest() { AddRunOptions(app_, &options_); }

  size_t Split(const Words& words) { return SplitProgram(app_, words, &program_); }
  void Parse(Words words) { app_.parse(Words(words.rbegin(), words.rend())); }
  std::string Complaint(const Words& words) {
    try {
      Parse(words);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    return "";
  }

  CLI::App app_{"", "run"};
  RunOptions options_;
  Words program_;
};

TEST_F(RunOptionsTest, TheProgramBeginsAtTheFirstWordThatIsNoOption) {
  EXPECT_EQ(Split({"-o", "dir", "--heap-interval", "1", "sort", "-o", "out.txt", "--", "x"}), 4u);
  EXPECT_THAT(program_, ElementsAre("sort", "-o", "out.txt", "--", "x"));
}

TEST_F(RunOptionsTest, TheProgramBeginsBehindTwoDashes) {
  EXPECT_EQ(Split({"-q", "--", "--weird", "-o"}), 1u);
  EXPECT_THAT(program_, ElementsAre("--weird", "-o"));
}

TEST_F(RunOptionsTest, ValuesFollowTheirOptionOrAnEqualsSign) {
  EXPECT_EQ(Split({"--out=dir", "prog"}), 1u);
  EXPECT_EQ(Split({"-odir", "prog"}), 1u);
  EXPECT_EQ(Split({"-qo", "dir", "prog"}), 2u);
  EXPECT_EQ(Split({"-qv", "prog"}), 1u);
  EXPECT_EQ(Split({"--heap-interval", "-1", "prog"}), 2u);
  EXPECT_THAT(program_, ElementsAre("prog"));
}

TEST_F(RunOptionsTest, WithoutAProgramNothingIsLeft) {
  for (const Words& words : {Words{}, Words{"--"}, Words{"-q"}, Words{"--out"}, Words{"-q", "--"}}) {
    Split(words);
    EXPECT_THAT(program_, IsEmpty());
  }
}

TEST_F(RunOptionsTest, OptionsBecomeVariablesAsPlainNumbers) {
  Parse({"--heap-interval", "1.5MiB",  "--lock-interval", "100us", "--snapshot-every", "0",
         "--keep",          "7",       "--max-disk",      "2GB",   "--profiles",       "heap,block",
         "--signal",        "SIGUSR2", "--children",      "no",    "--max-memory",     "32GiB",
         "--seed",          "5"});
  const std::map<std::string, std::string> expected = {{"HOLDFAST_HEAP_INTERVAL", "1572864"},
                                                       {"HOLDFAST_LOCK_INTERVAL", "100000ns"},
                                                       {"HOLDFAST_SNAPSHOT_EVERY", "0"},
                                                       {"HOLDFAST_KEEP", "7"},
                                                       {"HOLDFAST_MAX_DISK", "2000000000"},
                                                       {"HOLDFAST_PROFILES", "heap,block"},
                                                       {"HOLDFAST_SIGNAL", "USR2"},
                                                       {"HOLDFAST_CHILDREN", "no"},
                                                       {"HOLDFAST_MAX_MEMORY", "34359738368"},
                                                       {"HOLDFAST_SEED", "5"}};
  EXPECT_EQ(options_.variables, expected);
}

TEST_F(RunOptionsTest, UnsetOptionsAreLeftToTheLibrary) {
  Parse({});
  EXPECT_THAT(options_.variables, IsEmpty());
  EXPECT_EQ(options_.out + options_.tables, "");
  EXPECT_FALSE(options_.exec || options_.quiet || options_.verbose > 0);
}

TEST_F(RunOptionsTest, TheLastOfARepeatedOptionCounts) {
  Parse({"--seed", "1", "-o", "a", "--seed", "2", "--out", "b", "-vv"});
  EXPECT_EQ(options_.variables["HOLDFAST_SEED"], "2");
  EXPECT_EQ(options_.out, "b");
  EXPECT_EQ(options_.verbose, 2);
}

TEST_F(RunOptionsTest, ABadValueIsAnErrorThatNamesTheOptionAndWhatItTakes) {
  struct {
    const char *option, *value, *takes;
  } bad[] = {
      {"--heap-interval", "lots", "a size"},
      {"--heap-interval", "-1", "a size"},
      {"--heap-interval", "", "a size"},
      {"--heap-interval", "99999999999GiB", "a size"},
      {"--lock-interval", "10", "a time"},
      {"--lock-interval", "1KiB", "a time"},
      {"--lock-interval", "9000000000000000000ns", "a time"},
      {"--snapshot-every", "often", "a time"},
      {"--keep", "4294967295", "a number of snapshots"},
      {"--keep", "3x", "a number of snapshots"},
      {"--max-disk", "1s", "a size"},
      {"--max-memory", "1048575", "from 1MiB to 32GiB"},
      {"--max-memory", "33GiB", "from 1MiB to 32GiB"},
      {"--profiles", "heap,cpu", "heap, mutex, block, map, threads and exceptions"},
      {"--profiles", "", "heap, mutex, block, map, threads and exceptions"},
      {"--profiles", "heap,", "heap, mutex, block, map, threads and exceptions"},
      {"--signal", "KILL", "USR1, USR2"},
      {"--signal", "12", "USR1, USR2"},
      {"--children", "maybe", "yes or no"},
      {"--seed", "x", "a number"},
      {"--seed", "1e3", "a number"},
      {"--out", "", "a folder"},
      {"--tables", "", "a folder"},
  };
  for (const auto& one : bad) {
    const std::string complaint = Complaint({std::string(one.option) + "=" + one.value});
    const std::string separate = Complaint({one.option, one.value});
    EXPECT_THAT(separate, HasSubstr(one.option)) << one.value;
    EXPECT_THAT(separate, HasSubstr(one.takes)) << one.option;
    if (*one.value != '\0') {
      EXPECT_EQ(complaint, separate);
    }
  }
}

TEST_F(RunOptionsTest, EachSignalThatTheLibraryTakesIsTakenWithAndWithoutSig) {
  for (const std::string name :
       {"USR1", "USR2", "HUP", "QUIT", "PROF", "WINCH", "URG", "IO", "VTALRM", "PWR", "CONT", "none"}) {
    EXPECT_EQ(NormalizeRunOption("signal", name).value_or(""), name);
    EXPECT_EQ(NormalizeRunOption("signal", "SIG" + name).value_or(""), name);
  }
}

TEST(ProgramEnvironment, PutsTheLibraryFirstAndOnlyOnce) {
  const auto preload = [](const char* before) {
    const char* environment[] = {"A=1", before, nullptr};
    for (const std::string& entry : ProgramEnvironment(environment, "/x/libholdfast.so", {})) {
      if (entry.starts_with("LD_PRELOAD=")) return entry.substr(11);
    }
    return std::string();
  };
  EXPECT_EQ(preload(nullptr), "/x/libholdfast.so");
  EXPECT_EQ(preload("LD_PRELOAD="), "/x/libholdfast.so");
  EXPECT_EQ(preload("LD_PRELOAD=/y/libfaketime.so"), "/x/libholdfast.so:/y/libfaketime.so");
  EXPECT_EQ(preload("LD_PRELOAD=a.so /old/libholdfast.so:b.so"), "/x/libholdfast.so:a.so b.so");
}

TEST(ProgramEnvironment, ReplacesVariablesAndKeepsTheRest) {
  const char* environment[] = {
      "HOLDFAST_OUT=old", "HOLDFAST_KEEP=3", "PATH=/bin", "odd", "HOLDFAST_OUT=older", nullptr};
  EXPECT_THAT(ProgramEnvironment(environment, "L", {{"HOLDFAST_OUT", "/new"}}),
              ElementsAre("HOLDFAST_KEEP=3", "PATH=/bin", "odd", "LD_PRELOAD=L", "HOLDFAST_OUT=/new"));
}

TEST(WithoutOwnLibrary, LeavesOthersAsTheyAre) {
  EXPECT_EQ(WithoutOwnLibrary(""), "");
  EXPECT_EQ(WithoutOwnLibrary("libholdfast.so"), "");
  EXPECT_EQ(WithoutOwnLibrary("/a/libholdfast.so:/b/libholdfast.so"), "");
  EXPECT_EQ(WithoutOwnLibrary("a.so:libholdfast.so"), "a.so");
  EXPECT_EQ(WithoutOwnLibrary("libholdfast.so a.so:b.so"), "a.so:b.so");
  EXPECT_EQ(WithoutOwnLibrary("a.so:/x/libholdfast.so:b.so"), "a.so:b.so");
  for (const char* other : {"a.so", "a.so:", "libholdfast.so.1", "notlibholdfast.so", "/libholdfast.so/a.so", " :"}) {
    EXPECT_EQ(WithoutOwnLibrary(other), other);
  }
}

}  // namespace
}  // namespace holdfast
