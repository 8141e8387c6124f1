// What the tool does when it cannot do what it was asked: it prints one line that names the object, returns the right
// exit code, and leaves the user's files unharmed.
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class BadInput : public Profiled {
 protected:
  static void ExpectOneLine(const RunResult& r, int code, const std::string& names) {
    EXPECT_TRUE(r.exited(code)) << "expected exit code " << code << ": " << r.Describe();
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.Describe();
    EXPECT_EQ(r.err.rfind("holdfast: ", 0), 0u) << r.Describe();
    EXPECT_NE(r.err.find(names), std::string::npos) << "does not name '" << names << "': " << r.Describe();
    EXPECT_EQ(r.out, "");
  }
  std::string GoodProfile() {
    RunAs(Launch::kPreload, {"endings", "return"}, {{"heap-interval", "1"}});
    const std::vector<ProfileName> names = ListProfiles(out());
    EXPECT_EQ(names.size(), 1u);
    return names.empty() ? "" : names[0].path;
  }
};

TEST_F(BadInput, FilesThatAreNoProfiles) {
  const std::string good = ReadFile(GoodProfile());
  ASSERT_GT(good.size(), 100u);
  struct {
    const char* name;
    std::string bytes;
  } files[] = {
      {"empty", ""},
      {"one_byte", "\x1f"},
      {"not_gzip", "this is a text\n"},
      {"truncated", good.substr(0, good.size() / 2)},
      {"no_trailer", good.substr(0, good.size() - 5)},
      {"bit_flipped",
       [&] {
         std::string s = good;
         s[s.size() / 2] = static_cast<char>(s[s.size() / 2] ^ 0x55);
         return s;
       }()},
      {"zeros", std::string(10000, '\0')},
      {"elf", ReadFile(ProgramPath("nothing"))},
  };
  for (const auto& file : files) {
    const std::string path = folder() + "/" + file.name + ".pb.gz";
    WriteFile(path, file.bytes);
    for (const char* command : {"top", "info"}) ExpectOneLine(RunTool({command, path}), 3, path);
    EXPECT_EQ(ReadFile(path), file.bytes);
  }
  // A whole gzip file of something else.
  const std::string text = folder() + "/text.pb.gz";
  Execute({.argv = {"sh", "-c", "echo hello, this is no profile | gzip > '" + text + "'"}});
  for (const char* command : {"top", "info"}) ExpectOneLine(RunTool({command, text}), 3, text);
  const std::string nothing = folder() + "/nothing.pb.gz";
  Execute({.argv = {"sh", "-c", "printf '' | gzip > '" + nothing + "'"}});
  for (const char* command : {"top", "info"}) ExpectOneLine(RunTool({command, nothing}), 3, nothing);
}

TEST_F(BadInput, FilesThatCannotBeRead) {
  for (const char* command : {"top", "info"}) {
    ExpectOneLine(RunTool({command, "/nonexistent/file.pb.gz"}), 3, "/nonexistent/file.pb.gz");
    ExpectOneLine(RunTool({command, folder()}), 3, folder());
  }
  if (!IsRoot()) return;
  const std::string path = folder() + "/secret.pb.gz";
  WriteFile(path, "x");
  chmod(path.c_str(), 0);
  Command command;
  command.argv = {Tool(), "top", path};
  command.uid = 65534;
  ExpectOneLine(Execute(command), 3, path);
}

TEST_F(BadInput, WrongUsage) {
  ExpectOneLine(RunTool({}), 2, "");
  ExpectOneLine(RunTool({"frobnicate"}), 2, "frobnicate");
  ExpectOneLine(RunTool({"--frobnicate"}), 2, "--frobnicate");
  ExpectOneLine(RunTool({"top", "--frobnicate", "x.pb.gz"}), 2, "--frobnicate");
  ExpectOneLine(RunTool({"top"}), 2, "");
  ExpectOneLine(RunTool({"info"}), 2, "");
  ExpectOneLine(RunTool({"collect"}), 2, "");
}

TEST_F(BadInput, OptionsThatMayComeSeveralTimesLeaveTheFileToTheCommand) {
  const std::string no_file = folder() + "/none.pb.gz";
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"check", "--max", "1GB", no_file, "--format", "json"},
                                             {"check", "--budgets", "b", no_file, "--format", "json"},
                                             {"diff", "--base", no_file, no_file, "-n", "2"},
                                             {"leaks", "--suppressions", "/dev/null", no_file, "-n", "1"},
                                             {"list", "--source-path", "/", "main", no_file, "-n", "1"},
                                             {"locks", "--plumbing", "x", no_file, "-n", "1"}}) {
    const RunResult result = RunTool(words);
    EXPECT_EQ(result.err.find("is missing. holdfast"), std::string::npos) << result.Describe();
  }
}

TEST_F(BadInput, RunWithoutOrWithWrongArguments) {
  ExpectOneLine(RunTool({"run"}), 125, "");
  ExpectOneLine(RunTool({"run", "--"}), 125, "");
  ExpectOneLine(RunTool({"run", "--frobnicate", "--", "true"}), 125, "--frobnicate");
  ExpectOneLine(RunTool({"run", "--out"}), 125, "--out");
}

TEST_F(BadInput, HelpAndVersionAreFine) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"--version"}, {"run", "--help"}, {"top", "--help"}}) {
    const RunResult r = RunTool(arguments);
    EXPECT_TRUE(r.exited(0)) << r.Describe();
    EXPECT_NE(r.out, "");
    EXPECT_EQ(r.err, "");
  }
}

TEST_F(BadInput, HelpAndVersionAreWordsToo) {
  EXPECT_EQ(RunTool({"help"}).out, RunTool({"--help"}).out);
  EXPECT_EQ(RunTool({"help", "top"}).out, RunTool({"top", "--help"}).out);
  EXPECT_EQ(RunTool({"version"}).out, RunTool({"--version"}).out);
  EXPECT_NE(RunTool({"version"}).out, "");
  ExpectOneLine(RunTool({"help", "tpo"}), 2, "Did you mean top?");
  ExpectOneLine(RunTool({"laeks", "x"}), 2, "Did you mean leaks?");
  ExpectOneLine(RunTool({"top", "--nodecuont", "3", "x"}), 2, "Did you mean --nodecount?");
  EXPECT_THAT(RunTool({"run", "--resident", "maybe", "--", "true"}).err,
              ::testing::Not(::testing::HasSubstr("Did you mean")));
  EXPECT_THAT(RunTool({"run", "--lifetimes", "yes", "--heap-interval", "0", "-o", out(), "--", "true"}).err,
              ::testing::HasSubstr("--lifetimes yes: no profile will be written, because --heap-interval is 0\n"));
  ExpectOneLine(RunTool({"memory", "--at", "5", out()}), 2, "--at 5: not a time");
}

TEST_F(BadInput, HelpDoesNotShowHowOptionsAreChecked) {
  for (const char* command : {"top", "graph", "symbolize", "bundle", "serve", "push", "agent", "dump", "collect"}) {
    const RunResult r = RunTool({command, "--help"});
    for (const char* inside : {"{false}", ":FLOAT", "DIR:DIR", ":{", " TEXT", "(required)"})
      EXPECT_THAT(r.out, ::testing::Not(::testing::HasSubstr(inside)));
  }
  const RunResult shell = RunTool({"completion", "zsh"});
  EXPECT_THAT(shell.out, ::testing::HasSubstr("--debug-dir"));
  EXPECT_THAT(shell.out, ::testing::Not(::testing::HasSubstr("DIR:DIR")));
}

TEST_F(BadInput, HelpGroupsTheCommands) {
  const std::string help = RunTool({"--help"}).out;
  size_t at = 0;
  for (const char* line : {"\nRecord:\n", "\n  run ", "\nLook at profiles:\n", "\n  top ", "\n  leaks ",
                           "\nLook at live programs:\n", "\n  stuck ", "\nOperate:\n", "\n  push "}) {
    const size_t found = help.find(line, at);
    ASSERT_NE(found, std::string::npos) << line << help;
    at = found;
  }
  for (const char* hidden : {"\n  exporter ", "\n  man-pages ", "Subcommands"})
    EXPECT_THAT(help, ::testing::Not(::testing::HasSubstr(hidden)));
}

TEST_F(BadInput, HelpListsOnlyOptionsThatHaveAnEffect) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> without_effect = {
      {"list", {"--by", "--verbose"}}, {"diff", {"--ended"}},     {"merge", {"--ended", "--unit", "--by"}},
      {"export", {"--unit"}},          {"lifetimes", {"--only"}}, {"leaks", {"--only"}}};
  for (const auto& [command, options] : without_effect) {
    const std::string help = RunTool({command, "--help"}).out;
    for (const std::string& option : options) {
      EXPECT_THAT(help, ::testing::Not(::testing::HasSubstr(option + " "))) << command;
      ExpectOneLine(RunTool({command, option, "x", "x"}), 2, option + ": no such option");
    }
  }
  EXPECT_THAT(RunTool({"top", "--help"}).out,
              ::testing::AllOf(::testing::HasSubstr("--by "), ::testing::HasSubstr("--ended ")));
}

TEST_F(BadInput, ProgramsThatCannotBeStarted) {
  const auto start = [&](const std::string& program) { return RunTool({"run", "-o", out(), "--", program}); };
  ExpectOneLine(start("/nonexistent/program"), 127, "/nonexistent/program");
  ExpectOneLine(start("no_such_program_in_path"), 127, "no_such_program_in_path");
  ExpectOneLine(start(folder()), 126, folder());

  const std::string plain = folder() + "/not_executable";
  WriteFile(plain, "#!/bin/sh\n");
  ExpectOneLine(start(plain), 126, plain);
  const std::string script = folder() + "/script";
  WriteFile(script, "#!/nonexistent/interpreter\n");
  chmod(script.c_str(), 0755);
  ExpectOneLine(start(script), 126, "/nonexistent/interpreter");
  const std::string garbage = folder() + "/garbage";
  WriteFile(garbage, std::string("\x7f\x45\x4c\x46garbage", 11));
  chmod(garbage.c_str(), 0755);
  ExpectOneLine(start(garbage), 126, garbage);
  EXPECT_TRUE(ListProfiles(out()).empty());
}

// Programs that run, but into which nothing can be preloaded: `run` says so before it would promise a profile.
TEST_F(BadInput, AStaticProgramCannotBeProfiledAndRunSaysSo) {
  const RunResult r = RunTool({"run", "-o", out(), "--", ProgramPath("static_program")});
  EXPECT_NE(r.err.find("static"), std::string::npos) << r.Describe();
  EXPECT_NE(r.err.find(ProgramPath("static_program")), std::string::npos) << r.err;
}

TEST_F(BadInput, A32BitProgramCannotBeProfiledAndRunSaysSo) {
  Elf32_Ehdr header = {};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_386;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  const std::string path = folder() + "/program32";
  WriteFile(path, std::string(reinterpret_cast<const char*>(&header), sizeof header));
  chmod(path.c_str(), 0755);
  const RunResult r = RunTool({"run", "-o", out(), "--", path});
  EXPECT_NE(r.err.find(path), std::string::npos) << r.Describe();
  EXPECT_NE(r.err.find("32-bit"), std::string::npos) << r.err;
}

TEST_F(BadInput, ASetuidProgramCannotBeProfiledAndRunSaysSo) {
  if (!IsRoot()) GTEST_SKIP() << "needs root";
  const std::string path = folder() + "/setuid_program";
  std::filesystem::copy_file(ProgramPath("endings"), path);
  chmod(path.c_str(), 04755);
  Command command;
  command.argv = {Tool(), "run", "-o", folder() + "/out", "--", path, "return"};
  command.uid = 65534;
  chmod(folder().c_str(), 0777);
  const RunResult r = Execute(command);
  EXPECT_NE(r.err.find("setuid"), std::string::npos) << r.Describe();
}

TEST_F(BadInput, AnOutputFolderThatCannotBeMade) {
  const std::string file = folder() + "/file";
  WriteFile(file, "precious");
  for (const std::string& bad : {file, file + "/below", std::string("/proc/holdfast")}) {
    ExpectOneLine(RunTool({"run", "-o", bad, "--", ProgramPath("nothing")}), 125, bad);
  }
  EXPECT_EQ(ReadFile(file), "precious");
}

TEST_F(BadInput, TablesThatAreNotTables) {
  std::filesystem::create_directories(out());
  const std::string uid = std::to_string(getuid());
  struct {
    const char* name;
    std::string bytes;
  } files[] = {{"empty", ""},
               {"short", "HOLDFAST"},
               {"zeros", std::string(1 << 20, '\0')},
               {"text", std::string(500000, 'x')},
               {"magic_only", "HOLDFAST" + std::string(1 << 20, '\xff')}};
  int pid = 4000000;  // above pid_max: no process has it
  for (const auto& file : files) {
    WriteFile(tables() + "/holdfast." + uid + "." + std::to_string(pid++) + ".1.00000000000000ab.table", file.bytes);
  }
  const RunResult r = RunTool({"collect", out(), "--tables", tables()});
  EXPECT_TRUE(r.started && !r.timed_out && WIFEXITED(r.status)) << r.Describe();
  EXPECT_TRUE(ListProfiles(out()).empty());
  // A good one beside them is still collected.
  Command command = CommandFor(Launch::kPreload, {"endings", "_exit"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_EXPORTER"] = "no";
  Execute(command);
  RunTool({"collect", out(), "--tables", tables()});
  EXPECT_EQ(ListProfiles(out()).size(), 1u);
  std::filesystem::remove_all(tables());
}

TEST_F(BadInput, ATableWithABadOffsetNeverCrashesTheReader) {
  Command command = CommandFor(Launch::kPreload, {"realloc_cases"}, {{"heap-interval", "1"}});
  command.env["HOLDFAST_EXPORTER"] = "no";
  Execute(command);
  ASSERT_EQ(Tables().size(), 1u);
  const std::string path = tables() + "/" + Tables()[0];
  const std::string good = ReadFile(path);
  uint64_t state = 88172645463325252;  // xorshift: the same bytes in every run
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    for (int i = 0; i < 200; ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      // Half of them in the header's first 64 KiB, where a word decides most.
      const size_t at = (state >> 8) % (i % 2 ? bad.size() : std::min<size_t>(bad.size(), 65536));
      if (at < 8) continue;
      bad[at] = static_cast<char>(state);
    }
    WriteFile(path, bad);
    const RunResult r = RunTool({"collect", out(), "--tables", tables()});
    EXPECT_TRUE(WIFEXITED(r.status) && !r.timed_out) << "round " << round << ": " << r.Describe();
    ListProfiles(out());
    std::filesystem::remove_all(out());
  }
  std::filesystem::remove_all(tables());
}

}  // namespace
}  // namespace holdfast::testing
