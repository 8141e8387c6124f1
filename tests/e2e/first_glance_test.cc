// What users read first: names for code without names, and the output on a terminal.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

struct Terminal {
  unsigned short columns = 80, rows = 24;
};

class FirstGlance : public Profiled {
 protected:
  // The tool as somebody at a terminal runs it: everything that came there, without carriage returns.
  static RunResult OnTerminal(Terminal terminal, std::vector<std::string> arguments,
                              const std::map<std::string, std::string>& environment = {}) {
    RunResult result;
    winsize size{.ws_row = terminal.rows, .ws_col = terminal.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    int master = -1;
    const pid_t child = forkpty(&master, nullptr, nullptr, &size);
    if (child == 0) {
      for (const char* name : {"PAGER", "LESS", "NO_COLOR", "HOLDFAST_PAGER"}) unsetenv(name);
      setenv("TERM", "xterm", 1);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      arguments.insert(arguments.begin(), Tool());
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    result.started = child > 0;
    char bytes[4096];
    for (ssize_t got; (got = read(master, bytes, sizeof bytes)) > 0;)
      result.out.append(bytes, static_cast<size_t>(got));
    waitpid(child, &result.status, 0);
    close(master);
    std::erase(result.out, '\r');
    return result;
  }

  // A profile with long names in deep stacks, of every kind, in eight snapshots.
  void ProfileLongNames() {
    Running running(CommandFor(Launch::kPreload, {"long_names"},
                               {{"heap-interval", "1"}, {"lock-interval", "1ns"}, {"snapshot-every", "50ms"}}));
    StepThroughSnapshots(&running, 8);
  }
};

std::string WithoutColours(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Characters of UTF-8.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(FirstGlance, AStrippedProgramSaysHowToNameItAndTheCommandDoes) {
  const std::string program = folder() + "/stripped", debug = folder() + "/debug";
  std::filesystem::create_directory(debug);
  std::filesystem::copy_file(ProgramPath("threads_exact"), program);
  std::filesystem::copy_file(program, debug + "/stripped");
  ASSERT_EQ(Execute({.argv = {"strip", program}}).status, 0);
  const RunResult run = RunAs(Launch::kRun, {program}, {{"heap-interval", "1"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::string how =
      "is in code of stripped without function names. To name it: holdfast symbolize --debug-dir DIR " + out() +
      ", with the unstripped stripped or its debug file in DIR";
  EXPECT_THAT(run.err, HasSubstr(how));
  const std::vector<std::string> top = {"top", "-n", "0", "--metric", "alloc_space", out()};
  const RunResult before = RunTool(top);
  EXPECT_THAT(before.out, HasSubstr("names    100% " + how)) << before.Describe();
  const std::vector<Known> known = KnownHeap(run.out);
  ASSERT_FALSE(known.empty());
  EXPECT_THAT(before.out, Not(HasSubstr(known[0].function)));

  const RunResult named = RunTool({"symbolize", "--debug-dir", debug, out()});
  ASSERT_TRUE(named.exited(0)) << named.Describe();
  const RunResult after = RunTool(top);
  EXPECT_THAT(after.out, Not(HasSubstr("names    "))) << after.Describe();
  EXPECT_THAT(after.out, HasSubstr(known[0].function));
}

TEST_F(FirstGlance, AProgramIsCalledAsItWasStarted) {
  const std::string link = folder() + "/called-so";
  std::filesystem::create_symlink(ProgramPath("threads_exact"), link);
  ASSERT_TRUE(RunAs(Launch::kRun, {link}, {{"heap-interval", "1"}}).exited(0));
  for (const char* by : {"function", "object", "package"}) {
    const RunResult top = RunTool({"top", "--metric", "alloc_space", "--by", by, out()});
    EXPECT_THAT(top.out, HasSubstr("called-so")) << top.Describe();
    EXPECT_THAT(top.out, Not(HasSubstr("threads_exact"))) << top.Describe();
  }
  EXPECT_THAT(NewestHeap().at(0).path, HasSubstr("/called-so."));
}

TEST_F(FirstGlance, CodeWithoutNamesIsOfTheProgramAsItWasStarted) {
  const std::string program = folder() + "/its-file", link = folder() + "/called-so";
  std::filesystem::copy_file(ProgramPath("threads_exact"), program);
  ASSERT_EQ(Execute({.argv = {"strip", program}}).status, 0);
  std::filesystem::create_symlink(program, link);
  ASSERT_TRUE(RunAs(Launch::kRun, {link}, {{"heap-interval", "1"}}).exited(0));
  const std::string merged = folder() + "/merged.pb.gz", stripped = folder() + "/stripped.pb.gz";
  ASSERT_TRUE(RunTool({"merge", out(), "-o", merged}).exited(0));
  for (const std::string& from : {out(), merged}) {
    for (const std::vector<std::string>& view : {std::vector<std::string>{"top", "-n", "0"},
                                                 {"tree"},
                                                 {"top", "--by", "object"},
                                                 {"export", "--to", "folded"}}) {
      std::vector<std::string> arguments = view;
      arguments.insert(arguments.end(), {"--metric", "alloc_space", from});
      const RunResult shown = RunTool(arguments);
      EXPECT_THAT(shown.out, HasSubstr("called-so")) << from << shown.Describe();
      // But for the line that says how to name it, which is about the file.
      std::string text;
      for (const std::string& line : LinesOf(shown.out)) text += line.starts_with("names ") ? "" : line + "\n";
      EXPECT_THAT(text, Not(HasSubstr("its-file"))) << from << shown.Describe();
    }
  }
  EXPECT_THAT(RunTool({"top", "-n", "0", "--metric", "alloc_space", out()}).out, HasSubstr("called-so!0x"));
  EXPECT_THAT(RunGoPprof({"-top", "-sample_index=alloc_space", NewestHeap().at(0).path}).out,
              HasSubstr("called-so!0x"));
}

TEST_F(FirstGlance, ThreadsThatOnlyAllocateAreCalledByTheirNames) {
  Running running(
      CommandFor(Launch::kPreload, {"named_threads"}, {{"heap-interval", "1"}, {"snapshot-every", "50ms"}}));
  StepThroughSnapshots(&running, 3);
  const RunResult top = RunTool({"top", "--by", "thread", "--metric", "alloc_space", "--kind", "heap", out()});
  EXPECT_THAT(top.out, HasSubstr("pool_worker  (io-0 … io-3)")) << top.Describe() << AllSummaries();
  EXPECT_THAT(top.out, HasSubstr("brief_worker  (brief)")) << top.Describe();  // which ended between snapshots
  EXPECT_THAT(top.out, HasSubstr("nameless_worker\n")) << top.Describe();
  // Of other tools' business it is none.
  EXPECT_THAT(RunGoPprof({"-top", NewestHeap().at(0).path}).out, Not(HasSubstr("io-0")));
}

TEST_F(FirstGlance, AProgramThatFreedEverythingIsShownAtItsPeak) {
  Running running(
      CommandFor(Launch::kPreload, {"frees_its_report"}, {{"heap-interval", "1"}, {"snapshot-every", "50ms"}}));
  StepThroughSnapshots(&running, 5);
  for (const char* view : {"top", "tree"}) {
    const RunResult shown = RunTool({view, out()});
    EXPECT_THAT(shown.out, HasSubstr("metric   peak_space (peak)\n")) << shown.Describe();
    EXPECT_THAT(shown.out,
                ContainsRegex("note     (nothing is|hardly anything is \\([0-9.]+KiB\\)) in use any more, so this "
                              "shows the peak \\(peak_space\\)\n"));
    EXPECT_THAT(shown.out, HasSubstr("RenderReport"));
  }
  const std::string json = RunTool({"top", "--format", "json", out()}).out;
  EXPECT_THAT(json, HasSubstr("\"metric\": \"peak_space\""));
  EXPECT_THAT(json, HasSubstr("\"all_freed\": true"));
  EXPECT_THAT(RunTool({"top", "--format", "csv", out()}).out, HasSubstr("RenderReport"));
  // What the user asks for is shown as it is, and a named file has no peak.
  EXPECT_THAT(RunTool({"top", "--metric", "inuse_space", out()}).out, HasSubstr("metric   inuse_space (heap)\n"));
  const RunResult named = RunTool({"top", NewestHeap().at(0).path});
  EXPECT_THAT(named.out, HasSubstr("metric   alloc_space (heap)\n")) << named.Describe();
  EXPECT_THAT(named.out, HasSubstr("so this shows all allocations (alloc_space)\n"));
  EXPECT_THAT(RunTool({"export", "--to", "folded", out()}).out, HasSubstr("RenderReport")) << "the heap's own metric";
}

TEST_F(FirstGlance, LocksComeFirstWhenThreadsWaitForAQuarterOfTheTime) {
  const RunResult run = RunAs(Launch::kRun, {"eight_waiters"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  const std::string waits = "[0-9.]+m?s for locks that others held, most for ledger \\(eight_waiters\\)";
  EXPECT_THAT(run.err, ContainsRegex("what to type next:\n    holdfast locks [^ ]+ +# threads waited " + waits + "\n"));
  const RunResult top = RunTool({"top", out()});
  EXPECT_THAT(top.out, ContainsRegex("^waits    " + waits + ": see holdfast locks [^ ]+\nprogram ")) << top.Describe();
  EXPECT_THAT(RunTool({"top", "--format", "json", out()}).out, ContainsRegex("\"lock_trouble\": [0-9]{9}"));
  // Whoever asks for one kind is shown that.
  EXPECT_THAT(RunTool({"top", "--kind", "heap", out()}).out, ::testing::StartsWith("program "));
}

TEST_F(FirstGlance, WorkersOfRustThatWaitForWorkAreNoTrouble) {
  const RunResult run = RunAs(Launch::kRun, {"rust_idle_workers"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  EXPECT_THAT(run.out, HasSubstr("152 calls")) << run.Describe();
  EXPECT_THAT(run.err, Not(HasSubstr("for locks that others held"))) << run.Describe();
  EXPECT_THAT(RunTool({"top", out()}).out, ::testing::StartsWith("program "));
  // The lock's own waits, 20 ms, are locks nevertheless.
  EXPECT_THAT(RunTool({"top", "--metric", "delay", out()}).out, ContainsRegex("\nlocks    [0-9.]+m?s of it"));
}

TEST_F(FirstGlance, ResidentMemoryIsShownNextToTheHeap) {
  Running running(
      CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"snapshot-every", "50ms"}}));
  StepThroughSnapshots(&running, 3);
  const auto resident_of = [](const std::string& text) {
    const size_t at = text.find("resident_bytes: ");
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + 16));
  };
  const std::string file = NewestHeap().at(0).path;
  const int64_t resident = resident_of(RunTool({"info", file}).out);
  EXPECT_GT(resident, 500 << 10);
  EXPECT_LT(resident, 100 << 20);
  const RunResult top = RunTool({"top", file});
  EXPECT_THAT(top.out, HasSubstr("\nresident ")) << top.Describe();
  EXPECT_THAT(top.out, HasSubstr("B, as the kernel counts it for the process\n")) << top.Describe();
  EXPECT_THAT(RunTool({"top", "--format", "json", file}).out, HasSubstr("\"resident\": " + std::to_string(resident)));
  // Of objects it says nothing.
  EXPECT_THAT(RunTool({"top", "--metric", "inuse_objects", file}).out, Not(HasSubstr("\nresident ")));
  // A sum of two processes has both; of two snapshots of one, that of the one that counts.
  const std::string merged = folder() + "/merged.heap.pb.gz";
  ASSERT_TRUE(RunTool({"merge", out(), "-o", merged}).exited(0));
  EXPECT_EQ(resident_of(RunTool({"info", merged}).out), resident);
}

TEST_F(FirstGlance, EveryViewFitsEveryTerminalAndSaysWhereItIsShortened) {
  ProfileLongNames();
  Running live(
      CommandFor(Launch::kPreload, {"waits_for_input"}, {{"heap-interval", "1"}, {"out", folder() + "/live"}}));
  ASSERT_TRUE(live.WaitForOutput("ready"));
  const std::vector<std::vector<std::string>> views = {{"top", out()},
                                                       {"top", "--cum", "--error", out()},
                                                       {"top", "--kind", "block", "--by", "thread", out()},
                                                       {"top", "--by", "line", out()},
                                                       {"peek", "InsertOrAssign", out()},
                                                       {"tree", out()},
                                                       {"callers", out()},
                                                       {"list", "Flush", out()},
                                                       {"diff", out()},
                                                       {"diff", "--cum", out()},
                                                       {"leaks", out()},
                                                       {"leaks", "--all", "-v", out()},
                                                       {"locks", out()},
                                                       {"info", out()},
                                                       {"ls", "--tables", tables()}};
  for (const auto& view : views) {
    const RunResult whole = RunTool(view);  // no terminal: as long as it is
    for (const unsigned short columns : {60, 80, 120, 200}) {
      const RunResult shown = OnTerminal({columns, 5000}, view);
      ASSERT_EQ(WEXITSTATUS(shown.status), WEXITSTATUS(whole.status)) << view[0] << shown.out;
      const std::string text = WithoutColours(shown.out);
      size_t names = 0;
      for (const std::string& line : LinesOf(text)) {
        EXPECT_LE(WidthOf(line), columns) << view[0] << ": " << line;
        names += line.find("Insert") != std::string::npos || line.find("…") != std::string::npos ||
                 line.find("::") != std::string::npos;
      }
      // All words are there, or a sign that some are not.
      const auto joined = [](const std::string& from) {
        std::string made;
        for (const char c : from) made += std::isspace(static_cast<unsigned char>(c)) ? "" : std::string(1, c);
        return made;
      };
      // (`ls` says how old a process is.)
      if (view[0] != "ls" && joined(text) != joined(whole.out)) {
        EXPECT_NE(text.find("…"), std::string::npos) << view[0] << " " << columns << "\n" << text << whole.out;
      }
      if (view[0] == "top" || view[0] == "tree" || view[0] == "leaks") {
        EXPECT_GT(names, 0u) << view[0] << " " << columns << "\n" << text;
      }
    }
  }
}

TEST_F(FirstGlance, TwoLeaksThatPartFarFromMallocDoNotLookTheSame) {
  ProfileLongNames();
  const RunResult leaks = RunTool({"leaks", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  EXPECT_THAT(leaks.out, HasSubstr("FlushConfigurationChangesToReplicas"));
  EXPECT_THAT(leaks.out, HasSubstr("FlushConfigurationChangesToBackups"));
  // Nor on the narrowest terminal.
  const std::string narrow = WithoutColours(OnTerminal({60, 5000}, {"leaks", out()}).out);
  EXPECT_THAT(narrow, HasSubstr("ToReplicas")) << narrow;
  EXPECT_THAT(narrow, HasSubstr("ToBackups")) << narrow;
}

TEST_F(FirstGlance, LongOutputUsesThePager) {
  ProfileLongNames();
  const std::vector<std::string> top = {"top", "-n", "0", out()}, leaks = {"leaks", out()};
  const std::string pager = folder() + "/pager";
  WriteFile(pager, "#!/bin/sh\necho \"PAGED LESS=$LESS\"\ncat\nexit 3\n");
  std::filesystem::permissions(pager, std::filesystem::perms::owner_all);
  const std::map<std::string, std::string> ours = {{"HOLDFAST_PAGER", pager}, {"PAGER", "false"}};
  const Terminal low = {.rows = 5};
  EXPECT_THAT(OnTerminal(low, top, ours).out, HasSubstr("PAGED LESS=FRX\n"));
  EXPECT_THAT(OnTerminal(low, top, {{"PAGER", pager}, {"LESS", "S"}}).out, HasSubstr("PAGED LESS=S\n"));
  // Neither where it is shorter, nor where there is no terminal, nor where it is not wanted.
  EXPECT_THAT(OnTerminal({.rows = 5000}, top, ours).out, Not(HasSubstr("PAGED")));
  EXPECT_THAT(Execute({.argv = {Tool(), "top", out()}, .env = ours}).out, Not(HasSubstr("PAGED")));
  EXPECT_THAT(OnTerminal(low, {"top", "--no-pager", out()}, ours).out, Not(HasSubstr("PAGED")));
  EXPECT_THAT(OnTerminal(low, {"--no-pager", "top", out()}, ours).out, Not(HasSubstr("PAGED")));
  EXPECT_THAT(OnTerminal(low, top, {{"HOLDFAST_PAGER", ""}, {"PAGER", pager}}).out, Not(HasSubstr("PAGED")));
  EXPECT_THAT(OnTerminal(low, {"help", "top"}, ours).out, HasSubstr("PAGED"));
  // The status is the command's: of leaks that grow 1, whatever the pager's.
  EXPECT_EQ(WEXITSTATUS(OnTerminal(low, leaks, ours).status), 1);
  EXPECT_EQ(OnTerminal(low, top, ours).status, 0);
  // Left early: nothing is said, nothing fails. Not there: the text comes without it.
  const RunResult left = OnTerminal(low, {"top", "-n", "0", "-v", out()}, {{"HOLDFAST_PAGER", "exec <&-; sleep 0.1"}});
  EXPECT_EQ(left.status, 0) << left.out;
  EXPECT_EQ(left.out, "");
  const RunResult none = OnTerminal(low, top, {{"HOLDFAST_PAGER", "/no/such/pager 2>/dev/null"}});
  EXPECT_EQ(none.status, 0);
  EXPECT_THAT(none.out, HasSubstr("Insert"));
}

TEST_F(FirstGlance, ColoursAreForTerminalsAndAsAskedFor) {
  ProfileLongNames();
  const auto has_colours = [](const std::string& text) { return text.find("\x1b[") != std::string::npos; };
  const Terminal high = {.rows = 5000};
  for (const char* view : {"top", "tree", "leaks", "locks", "diff"}) {
    EXPECT_TRUE(has_colours(OnTerminal(high, {view, out()}).out)) << view;
    EXPECT_FALSE(has_colours(OnTerminal(high, {view, out()}, {{"NO_COLOR", "1"}}).out)) << view;
    EXPECT_FALSE(has_colours(OnTerminal(high, {view, "--color=never", out()}).out)) << view;
    EXPECT_FALSE(has_colours(RunTool({view, out()}).out)) << view;
    EXPECT_TRUE(has_colours(RunTool({view, "--color=always", out()}).out)) << view;
  }
}

}  // namespace
}  // namespace holdfast::testing
