// Views of real programs' profiles: the numbers equal those of Go's pprof, and the consumers of exports can read them.
#include <cmath>
#include <filesystem>
#include <regex>

#include "tests/support/profiled.h"
#include "tests/support/view_numbers.h"

namespace holdfast::testing {
namespace {

// Deterministic: what differs between two runs is the sampling.
constexpr char kPerl[] =
    "my %h; for my $i (1..6000) { $h{\"k$i\"} = [map {\"v$_\"} 1..10]; } my @s = sort keys %h; my $t = join(',', @s);"
    "my @r = map { [split /,/, $t] } 1..2; for (1..200) { my $x = 'y' x 40000; push @r, $x if $_ % 10 == 0; }"
    "my $re = join('|', map {\"a$_\"} 1..300); my $n = () = $t =~ /$re/g; print scalar(@r), qq(\\n);";

class ViewsOfPrograms : public Profiled {
 protected:
  void RunPerl(const Options& options) {
    Command command = CommandFor(Launch::kRun, {"/usr/bin/perl", "-e", kPerl}, options);
    command.env["PERL_HASH_SEED"] = "0";
    command.env["PERL_PERTURB_KEYS"] = "0";
    const RunResult run = RunAndSettle(command);
    ASSERT_TRUE(run.exited(0)) << run.Describe();
  }

  // Python's threads hand one lock round: what they wait for is in its block profile.
  std::string RunPython(const std::string& seed) {
    const std::string program = std::filesystem::canonical("/usr/bin/python3").string();
    const RunResult run = RunAs(Launch::kRun,
                                {program, "-c",
                                 "import threading, json\n"
                                 "def work(n):\n"
                                 "  for i in range(300): kept.append(json.dumps([i, n] * 20))\n"
                                 "kept = []\n"
                                 "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
                                 "for t in threads: t.start()\n"
                                 "for t in threads: t.join()\n"},
                                {{"heap-interval", "4KiB"}, {"lock-interval", "1ns"}, {"seed", seed}});
    EXPECT_TRUE(run.exited(0)) << run.Describe();
    return std::filesystem::path(program).filename().string();
  }
  void RunBash(int words) {
    const std::string script =
        "declare -A m; for ((i = 0; i < " + std::to_string(words) + "; i++)); do m[k$i]=v$i$i; done";
    const RunResult run = RunAs(Launch::kRun, {"/usr/bin/bash", "-c", script}, {{"heap-interval", "1"}});
    ASSERT_TRUE(run.exited(0)) << run.Describe();
  }

  // The newest file of each program and kind.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const ProfileName& name : ListProfiles(out())) files[name.program + "." + name.kind] = name.path;
    return files;
  }

  // Go's figures, all rows.
  static ViewNumbers Go(const std::string& metric, std::vector<std::string> more) {
    std::vector<std::string> arguments = {"-tree",
                                          "-nodecount=0",
                                          "-nodefraction=0",
                                          "-edgefraction=0",
                                          "-sample_index=" + metric,
                                          metric == "delay" ? "-unit=ns" : "-unit=bytes"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const RunResult result = RunGoPprof(arguments);
    EXPECT_TRUE(result.exited(0)) << result.Describe();
    return ParseGoTree(result.out);
  }

  static std::string Csv(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--format", "csv"});
    const RunResult result = RunTool(arguments);
    EXPECT_TRUE(result.exited(0)) << result.Describe();
    return result.out;
  }
};

TEST_F(ViewsOfPrograms, HaveTheNumbersOfGoRowByRow) {
  RunPerl({{"heap-interval", "4KiB"}, {"seed", "1"}});
  RunAs(Launch::kPreload, {"hot_mutex"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  RunAs(Launch::kRun, {"uses_libraries"}, {{"heap-interval", "1"}});
  const std::string python = RunPython("1");
  const auto files = Files();
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"perl.heap", {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}},
      {"uses_libraries.heap", {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}},
      {"hot_mutex.block", {"contentions", "delay"}},
      {python + ".heap", {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}},
      {python + ".block", {"contentions", "delay"}}};
  for (const auto& [name, metrics] : cases) {
    ASSERT_TRUE(files.contains(name)) << name;
    const std::string& file = files.at(name);
    for (const std::string& metric : metrics) {
      SCOPED_TRACE(name + " " + metric);
      const ViewNumbers go = Go(metric, {file});
      ASSERT_GE(go.nodes.size(), 3u);
      ASSERT_GE(go.edges.size(), 2u);
      EXPECT_EQ(ParseOurTop(Csv({"top", "-n", "0", "--metric", metric, file})).nodes, go.nodes);
      EXPECT_EQ(ParseOurPeek(Csv({"peek", ".", "-n", "0", "--metric", metric, file})), go);
      EXPECT_EQ(ParseOurTree(Csv({"tree", "--nodefraction", "0", "--metric", metric, file})), go);
    }
  }
}

// Two runs of each that differ: rows of both sides and of one side only.
TEST_F(ViewsOfPrograms, DiffsOfThreeProgramsHaveTheNumbersOfGoRowByRow) {
  std::map<std::string, std::string> sides[2];
  std::string python;
  for (int side = 0; side < 2; ++side) {
    const std::string seed = std::to_string(side + 1);
    RunPerl({{"heap-interval", "8KiB"}, {"seed", seed}});
    RunBash(side == 0 ? 200 : 300);
    python = RunPython(seed);
    RunAs(Launch::kPreload, {"hot_mutex"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
    for (const auto& [name, path] : Files()) {
      sides[side][name] = folder() + "/" + seed + "." + name + ".pb.gz";
      WriteFile(sides[side][name], ReadFile(path));
    }
  }
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"perl.heap", {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}},
      {"bash.heap", {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}},
      {python + ".heap", {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}},
      {python + ".block", {"contentions", "delay"}},
      {"hot_mutex.block", {"contentions", "delay"}},
      {"hot_mutex.mutex", {"contentions", "delay"}}};
  for (const auto& [name, metrics] : cases) {
    ASSERT_TRUE(sides[0].contains(name) && sides[1].contains(name)) << name;
    size_t compared = 0;
    for (const std::string& metric : metrics) {
      SCOPED_TRACE(name + " " + metric);
      const std::string &base = sides[0].at(name), &head = sides[1].at(name);
      std::map<std::string, std::pair<int64_t, int64_t>> ours;
      for (const auto& row : ParseCsv(Csv({"diff", "-n", "0", "--metric", metric, base, head}))) {
        ours[row.at("function")] = {NumberIn(row, "self_delta"), NumberIn(row, "total_delta")};
      }
      EXPECT_EQ(ours, Go(metric, {"-base=" + base, head}).nodes);
      compared += ours.size();
    }
    EXPECT_GE(compared, 4u) << name;
  }
}

TEST_F(ViewsOfPrograms, DiffsHaveTheNumbersOfGoAndFewChangesByChance) {
  RunPerl({{"heap-interval", "16KiB"}, {"seed", "1"}});
  const std::string base = folder() + "/base.pb.gz";
  WriteFile(base, ReadFile(Files().at("perl.heap")));
  RunPerl({{"heap-interval", "16KiB"}, {"seed", "2"}});
  const std::string head = Files().at("perl.heap");
  ASSERT_NE(ReadFile(head), ReadFile(base));
  for (const std::string metric : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
    SCOPED_TRACE(metric);
    const auto rows = ParseCsv(Csv({"diff", "-n", "0", "--metric", metric, base, head}));
    std::map<std::string, std::pair<int64_t, int64_t>> ours;
    size_t changed = 0;
    for (const auto& row : rows) {
      ours[row.at("function")] = {NumberIn(row, "self_delta"), NumberIn(row, "total_delta")};
      changed += row.at("within_error") == "no";
    }
    const ViewNumbers go = Go(metric, {"-base=" + base, head});
    ASSERT_GE(go.nodes.size(), 5u);
    EXPECT_EQ(ours, go.nodes);
    const size_t functions = ParseOurTop(Csv({"top", "-n", "0", "--metric", metric, base})).nodes.size();
    RecordProperty(metric, std::to_string(changed) + " of " + std::to_string(functions));
    // One in 20 is outside of its interval by chance: that, and three standard deviations.
    const double by_chance = 0.05 * static_cast<double>(functions);
    EXPECT_LT(static_cast<double>(changed), by_chance + 3 * std::sqrt(by_chance)) << changed << " of " << functions;
    EXPECT_EQ(ParseCsv(Csv({"diff", "--metric", metric, base, base})).size(), 0u);
  }
}

TEST_F(ViewsOfPrograms, ExportsLoadInTheirConsumers) {
  RunAs(Launch::kRun, {"operators_new"}, {{"heap-interval", "1"}});
  const std::string file = Files().at("operators_new.heap");
  const auto export_to = [&](const std::string& format) {
    const std::string path = folder() + "/" + format;
    const RunResult result = RunTool({"export", "--to", format, "-o", path, file});
    EXPECT_TRUE(result.exited(0)) << result.Describe();
    return path;
  };
  const auto totals = [&](const std::string& metric) {
    int64_t sum = 0;
    for (const auto& [name, values] : ParseOurTop(Csv({"top", "-n", "0", "--metric", metric, file})).nodes)
      sum += values.first;
    return sum;
  };
  const auto with_commas = [](int64_t number) {
    std::string text = std::to_string(number);
    for (int i = static_cast<int>(text.size()) - 3; i > 0; i -= 3) text.insert(static_cast<size_t>(i), ",");
    return text;
  };

  // callgrind_annotate: all four events, and each function's own cost.
  const RunResult annotate =
      Execute({.argv = {"callgrind_annotate", "--threshold=100", "--auto=no", export_to("callgrind")}});
  EXPECT_TRUE(annotate.exited(0)) << annotate.Describe();
  const std::regex program_totals(
      R"(([\d,]+) \([^)]*\) +([\d,]+) \([^)]*\) +([\d,]+) \([^)]*\) +([\d,]+) \([^)]*\) +PROGRAM TOTALS)");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(annotate.out, match, program_totals)) << annotate.out;
  EXPECT_EQ(match[1], with_commas(totals("alloc_objects")));
  EXPECT_EQ(match[2], with_commas(totals("alloc_space")));
  EXPECT_EQ(match[3], with_commas(totals("inuse_objects")));
  EXPECT_EQ(match[4], with_commas(totals("inuse_space")));
  size_t functions = 0;
  for (const auto& [name, values] : ParseOurTop(Csv({"top", "-n", "0", "--metric", "alloc_space", file})).nodes) {
    if (values.first == 0) continue;
    ++functions;
    EXPECT_NE(annotate.out.find(":" + name), std::string::npos) << name;
  }
  EXPECT_GE(functions, 3u);

  // Folded, summed as flamegraph.pl does it.
  const std::string folded = ReadFile(export_to("folded"));
  std::map<std::string, int64_t> self;
  std::istringstream lines(folded);
  for (std::string line; std::getline(lines, line);) {
    const size_t blank = line.rfind(' ');
    const std::string stack = line.substr(0, blank);
    self[stack.substr(stack.rfind(';') + 1)] += std::stoll(line.substr(blank + 1));
  }
  for (const auto& [name, values] : ParseOurTop(Csv({"top", "-n", "0", file})).nodes) {
    if (name.find(';') == std::string::npos) {
      EXPECT_EQ(self[name], values.first) << name;
    }
  }

  // The old heap text: google-pprof names the functions from the program itself, go tool pprof reads it.
  const std::string heap = export_to("heap");
  if (Execute({.argv = {"sh", "-c", "command -v google-pprof"}}).exited(0)) {  // Debian 13 is the last that has it
    const RunResult google =
        Execute({.argv = {"google-pprof", "--text", "--inuse_objects", ProgramPath("operators_new"), heap}});
    EXPECT_TRUE(google.exited(0)) << google.Describe();
    std::smatch total;
    ASSERT_TRUE(std::regex_search(google.out, total, std::regex(R"(Total: (\d+) objects)"))) << google.Describe();
    EXPECT_EQ(std::stoll(total[1]), totals("inuse_objects"));
  }
  const RunResult go = RunGoPprof({"-top", "-unit=bytes", "-sample_index=inuse_space", heap});
  EXPECT_TRUE(go.exited(0)) << go.Describe();
  EXPECT_NE(go.out.find("of " + std::to_string(totals("inuse_space")) + "B total"), std::string::npos) << go.out;

  // CSV: the columns add up.
  int64_t sum = 0;
  for (const auto& row : ParseCsv(ReadFile(export_to("csv")))) sum += NumberIn(row, "alloc_space");
  EXPECT_EQ(sum, totals("alloc_space"));

  // DOT, drawn by graphviz.
  const RunResult svg = RunTool({"graph", "-o", folder() + "/graph.svg", file});
  EXPECT_TRUE(svg.exited(0)) << svg.Describe();
  EXPECT_NE(ReadFile(folder() + "/graph.svg").find("<title>profile</title>"), std::string::npos);
  for (const auto& [name, begins] :
       {std::pair("graph.png", "\x89PNG"), std::pair("graph.PDF", "%PDF-"), std::pair("graph.dot", "digraph")}) {
    const RunResult drawn = RunTool({"graph", "-o", folder() + "/" + name, file});
    EXPECT_TRUE(drawn.exited(0)) << drawn.Describe();
    EXPECT_TRUE(ReadFile(folder() + "/" + name).starts_with(begins)) << name;
  }
  // Text under the name of a picture is no picture.
  const RunResult other = RunTool({"graph", "-o", folder() + "/graph.webp", file});
  EXPECT_TRUE(other.exited(2)) << other.Describe();
  EXPECT_NE(other.err.find(".webp is not a known format"), std::string::npos) << other.Describe();
  EXPECT_FALSE(std::filesystem::exists(folder() + "/graph.webp"));
}

TEST_F(ViewsOfPrograms, ALeakingProgramIsFoundAndHowFastItLeaks) {
  const RunResult run =
      RunAs(Launch::kRun, {"leaks_beside_a_cache", "6"}, {{"heap-interval", "8KiB"}, {"snapshot-every", "200ms"}});
  ASSERT_TRUE(run.exited(0)) << run.Describe();
  std::smatch match;
  ASSERT_TRUE(std::regex_search(run.out, match, std::regex(R"(leaked (\d+) bytes in (\d+) ms)"))) << run.out;
  const double known = std::stod(match[1]) / std::stod(match[2]) * 3600e3;
  const RunResult leaks = RunTool({"leaks", "--format", "csv", out()});
  EXPECT_TRUE(leaks.exited(1)) << leaks.Describe();
  const auto rows = ParseCsv(leaks.out);
  ASSERT_EQ(rows.size(), 1u) << leaks.out;
  EXPECT_NE(rows[0].at("stack").find("remember_forever"), std::string::npos) << leaks.out;
  // Twice the 95 % interval: that one run in twenty lies outside of it is what it says.
  EXPECT_NEAR(std::stod(rows[0].at("slope")), known, 2 * std::stod(rows[0].at("slope_error"))) << leaks.out;
  // The same while it still runs: --follow prints at once, and goes on.
  Running follow({.argv = {Tool(), "leaks", "--follow", out()}});
  EXPECT_TRUE(follow.WaitForOutput("remember_forever"));
  follow.Signal(SIGTERM);
  EXPECT_TRUE(follow.Wait().killed_by(SIGTERM));
}

TEST_F(ViewsOfPrograms, CompletionAndPagesKnowEveryCommand) {
  const RunResult bash =
      Execute({.argv = {"bash", "-c",
                        "source <(" + Tool() +
                            " completion bash); COMP_WORDS=(holdfast leaks --su); COMP_CWORD=2; "
                            "_holdfast; echo \"${COMPREPLY[@]}\"; COMP_WORDS=(holdfast le); COMP_CWORD=1; _holdfast; "
                            "echo \"${COMPREPLY[@]}\""}});
  EXPECT_EQ(bash.out, "--suppressions\nleaks\n") << bash.Describe();
  for (const char* shell : {"zsh", "fish"}) {
    const RunResult script = RunTool({"completion", shell});
    EXPECT_TRUE(script.exited(0)) << script.Describe();
    for (const char* name : {"run", "top", "tree", "leaks", "check", "export", "completion"}) {
      EXPECT_NE(script.out.find(name), std::string::npos) << shell << " " << name;
    }
  }
  EXPECT_TRUE(RunTool({"completion", "csh"}).exited(2));
  const RunResult man = RunTool({"man-pages", folder() + "/man"});
  EXPECT_TRUE(man.exited(0)) << man.Describe();
  EXPECT_NE(ReadFile(folder() + "/man/holdfast.1").find("\\fBholdfast\\-leaks\\fR(1)"), std::string::npos);
  const std::string page = ReadFile(folder() + "/man/holdfast-leaks.1");
  EXPECT_THAT(page.substr(0, page.find('\n')),
              ::testing::MatchesRegex(R"(\.TH HOLDFAST.-LEAKS 1 "20..-..-.." "holdfast [0-9.]+" "Holdfast")"));
  EXPECT_EQ(ReadFile(folder() + "/man/holdfast.1").find(Library()), std::string::npos) << "no path of this machine";
  EXPECT_NE(page.find(".SH OPTIONS\n"), std::string::npos);
  EXPECT_NE(page.find("\\fB\\-\\-limit\\fR \\fISIZE\\fR"), std::string::npos) << page;
}

TEST_F(ViewsOfPrograms, StandardInputAndOutputAreFiles) {
  RunAs(Launch::kRun, {"operators_new"}, {{"heap-interval", "1"}});
  const std::string file = Files().at("operators_new.heap");
  const RunResult merged = RunTool({"merge", file});
  ASSERT_TRUE(merged.exited(0)) << merged.err;
  const RunResult from_file = RunTool({"top", file});
  const RunResult from_input = Execute({.argv = {Tool(), "top", "-"}, .input = merged.out});
  EXPECT_TRUE(from_input.exited(0)) << from_input.Describe();
  const auto rows = [](const std::string& text) { return text.substr(text.find("showing")); };
  EXPECT_EQ(rows(from_input.out), rows(from_file.out));
}

}  // namespace
}  // namespace holdfast::testing
