// The views of one profile: golden tables of the fixture that the tests share, and agreement with `go tool pprof`.
#include <gmock/gmock.h>

#include <random>

#include "report/analysis/profiles/frame_origin.h"
#include "report/show/call_graph.h"
#include "report/show/export_formats.h"
#include "report/show/source_listing.h"
#include "report/show/top.h"
#include "report/show/tree.h"
#include "tests/support/view_numbers.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using testing::Catch;
using testing::Folder;
using testing::GoPprof;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ParseGoTree;
using testing::ParseOurPeek;
using testing::ParseOurTop;
using testing::ParseOurTopBy;
using testing::ParseOurTree;
using testing::RandomProfile;
using testing::Result;
using testing::Stack;
using testing::StackProfile;
using testing::ViewNumbers;

class Views : public ::testing::Test {
 protected:
  std::string Save(const Profile& profile) { return folder_.Write("profile.pb.gz", EncodePprof(profile)); }

  static Result Top(const ViewOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunTop(options, out, err); });
  }
  static Result Peek(const ViewOptions& options, const std::string& pattern) {
    return Catch([&](auto& out, auto& err) { return RunPeek(options, pattern, out, err); });
  }
  static Result Tree(const TreeOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunTree(options, out, err); });
  }
  static Result Callers(const TreeOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunCallers(options, out, err); });
  }
  // From the line that begins with `title` on.
  static std::string Rows(const std::string& text, const std::string& title) {
    const size_t at = text.find(title);
    return at == std::string::npos ? text : text.substr(at);
  }

  Folder folder_;
  // handle_request → parse_json → validate, handle_request → process_data → apply; each allocates a known amount.
  const Profile requests_ = StackProfile(
      {Stack{"main;handle_request", 100}, Stack{"main;handle_request;parse_json", 2000},
       Stack{"main;handle_request;parse_json;validate", 300}, Stack{"main;handle_request;process_data", 40},
       Stack{"main;handle_request;process_data;apply", 7560}});
};

TEST_F(Views, TopOfRequests) {
  const Result top = Top({.files = {Save(requests_)}, .unit = "bytes"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_EQ(Rows(top.out, "showing"),
            "showing  6 of 6 functions\n"
            " self  self% total total%  function  (object)\n"
            " 7560 75.60%  7560 75.60%  apply  (app)\n"
            " 2000    20%  2300    23%  parse_json  (app)\n"
            "  300     3%   300     3%  validate  (app)\n"
            "  100     1% 10000   100%  handle_request  (app)\n"
            "   40   0.4%  7600    76%  process_data  (app)\n"
            "    0     0% 10000   100%  main  (app)\n");
}

TEST_F(Views, TreeOfRequests) {
  const Result tree = Tree({.view = {.files = {Save(requests_)}, .unit = "bytes"}, .node_fraction = 0});
  EXPECT_EQ(tree.exit_code, 0) << tree.err;
  EXPECT_EQ(Rows(tree.out, "total total%"),
            "total total%  self children  function  (object)\n"
            "10000   100%     0    10000  main  (app)\n"
            "10000   100%   100     9900    handle_request  (app)\n"
            " 7600    76%    40     7560      process_data  (app)\n"
            " 7560 75.60%  7560        0        apply  (app)\n"
            " 2300    23%  2000      300      parse_json  (app)\n"
            "  300     3%   300        0        validate  (app)\n");
}

TEST_F(Views, CallersOfRequests) {
  const Result callers = Callers({.view = {.files = {Save(requests_)}, .unit = "bytes"}, .of = "validate|apply"});
  EXPECT_EQ(callers.exit_code, 0) << callers.err;
  EXPECT_EQ(Rows(callers.out, "callers"),
            "callers  of validate|apply: 7860\n"
            "total total%   top%  function  (object)\n"
            " 7560 75.60%   100%  apply  (app)\n"
            " 7560 75.60%   100%    process_data  (app)\n"
            " 7560 75.60%   100%      handle_request  (app)\n"
            " 7560 75.60%   100%        main  (app)\n"
            "  300     3%   100%  validate  (app)\n"
            "  300     3%   100%    parse_json  (app)\n"
            "  300     3%   100%      handle_request  (app)\n"
            "  300     3%   100%        main  (app)\n");
}

TEST_F(Views, PeekOfRequests) {
  const Result peek = Peek({.files = {Save(requests_)}, .unit = "bytes"}, "^handle_request$");
  EXPECT_EQ(peek.exit_code, 0) << peek.err;
  EXPECT_EQ(Rows(peek.out, " self"),
            " self  self% total total%  flow  flow%  callers ↓  function  ↓ callees\n"
            "                          10000   100%      main\n"
            "  100     1% 10000   100%               handle_request  (app)\n"
            "                           7600    76%      process_data\n"
            "                           2300    23%      parse_json\n");
}

// main → foo, main → foo, foo → bar, bar: one box for foo, one for bar.
TEST_F(Views, EqualCallsAreOneBranch) {
  const Profile calls =
      StackProfile({Stack{"main;foo", 1}, Stack{"main;foo", 1}, Stack{"main;foo;bar", 2}, Stack{"main;foo;bar", 2}});
  const Result tree = Tree({.view = {.files = {Save(calls)}, .unit = "bytes"}, .node_fraction = 0});
  EXPECT_EQ(Rows(tree.out, "total total%"),
            "total total%  self children  function  (object)\n"
            "    6   100%     0        6  main  (app)\n"
            "    6   100%     2        4    foo  (app)\n"
            "    4 66.67%     4        0      bar  (app)\n");
  const std::string dot =
      Catch([&](auto& out, auto& err) {
        return RunGraph({.view = {.files = {Save(calls)}, .unit = "bytes", .node_count = 0}}, out, err);
      }).out;
  EXPECT_THAT(dot, HasSubstr("[label=\"foo\\n2 (33.33%)\\nof 6 (100%)\""));
  EXPECT_EQ(std::count(dot.begin(), dot.end(), '>'), 2) << dot;
}

TEST_F(Views, RecursionCountsOnce) {
  const Profile recursive = StackProfile({Stack{"main;walk;walk;visit;walk", 10}, Stack{"main;walk", 5}});
  const auto numbers = ParseOurTop(Top({.files = {Save(recursive)}, .format = "csv"}).out);
  EXPECT_EQ(numbers.nodes.at("walk"), std::pair(int64_t{15}, int64_t{15}));
  EXPECT_EQ(numbers.nodes.at("visit"), std::pair(int64_t{0}, int64_t{10}));
  const Result callers = Callers({.view = {.files = {Save(recursive)}, .unit = "bytes"}, .of = "walk"});
  EXPECT_THAT(callers.out, HasSubstr("callers  of walk: 15\n"));
}

TEST_F(Views, SmallBranchesAreSummedUp) {
  std::vector<Stack> stacks = {{"main;big", 9000}};
  for (int i = 0; i < 100; ++i) stacks.push_back({"main;small" + std::to_string(i), 10});
  const std::string file = Save(StackProfile(stacks));
  const Result tree = Tree({.view = {.files = {file}, .unit = "bytes"}});
  EXPECT_THAT(tree.out, HasSubstr(" 9000    90%  9000        0    big  (app)\n"));
  EXPECT_THAT(tree.out, HasSubstr(" 1000    10%                   (100 more branches)\n"));
  const Result two = Tree({.view = {.files = {file}, .unit = "bytes", .node_count = 2}, .node_fraction = 0});
  EXPECT_EQ(two.out, tree.out);
  const Result flat = Tree({.view = {.files = {file}, .unit = "bytes"}, .depth = 1});
  EXPECT_THAT(flat.out, HasSubstr("10000   100%                   (101 more branches)\n"));
}

TEST_F(Views, ByObjectFilePackageLineAndLabel) {
  Profile p =
      StackProfile({Stack{"main;app::parse(int);app::grow(int);libx.so!alloc", 60}, Stack{"main;other::f()", 40}});
  const std::string file = Save(p);
  const auto by = [&](const char* what) {
    return ParseOurTopBy(Top({.files = {file}, .stacks = {.by = what}, .format = "csv"}).out, what);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(by("object")["app"], Pair(40, 100));
  EXPECT_EQ(by("object")["libx.so"], Pair(60, 60));
  EXPECT_EQ(by("package")["app"], Pair(0, 100));
  EXPECT_EQ(by("package")["other"], Pair(40, 40));
  EXPECT_EQ(by("file")["main.cc"], Pair(100, 100));
  EXPECT_EQ(by("line")["main main.cc:1"], Pair(0, 100));
  EXPECT_EQ(by("thread")["worker"], Pair(100, 100));
  const Result tree = Tree({.view = {.files = {file}, .unit = "bytes", .stacks = {.by = "thread"}}});
  EXPECT_THAT(tree.out, HasSubstr("100   100%    100%     0      100  worker\n")) << "the share of the thread too";
  const Result unknown = Top({.files = {file}, .stacks = {.by = "color"}});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err,
            "holdfast: --by color: the profile has no such label. Use function, line, file, object, package, bytes, "
            "thread.\n");
}

// Holdfast's files have no label for threads, so a thread is identified by its start function.
TEST_F(Views, ByThreadWithoutALabelUsesTheStartFunction) {
  const Profile p =
      StackProfile({Stack{"libc.so.6!_start;libc.so.6!__libc_start_main;main;app::serve()", 1},
                    Stack{"libc.so.6!clone3;libc.so.6!start_thread;worker;app::serve()", 20},
                    Stack{"libc.so.6!clone3;libc.so.6!start_thread;worker", 300},
                    Stack{"libc.so.6!clone3;libc.so.6!start_thread;libstdc++.so.6!execute_native_thread_routine;"
                          "std::thread::_State_impl<int>::_M_run();app::Pool::run()",
                          4000},
                    Stack{"libc.so.6!clone3;libc.so.6!calloc", 50000}},
                   "");
  const auto threads =
      ParseOurTopBy(Top({.files = {Save(p)}, .stacks = {.by = "thread"}, .format = "csv"}).out, "thread");
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(threads.at("main"), Pair(1, 1));
  EXPECT_EQ(threads.at("worker"), Pair(320, 320));
  EXPECT_EQ(threads.at("app::Pool::run()"), Pair(4000, 4000));
  EXPECT_THAT(Top({.files = {Save(p)}, .stacks = {.by = "thread"}}).out, HasSubstr("threads  by start function"));
  EXPECT_EQ(threads.at("calloc"), Pair(50000, 50000));
}

TEST_F(Views, SystemFramesAreFoldedIntoTheirCallers) {
  const Profile p =
      StackProfile({Stack{"libc.so.6!_start;main;std::vector<int>::push_back(int&&);operator new(unsigned long)", 70},
                    Stack{"libc.so.6!start_thread;libc.so.6!fopen", 30}});
  const auto numbers = ParseOurTop(Top({.files = {Save(p)}, .stacks = {.fold_system = true}, .format = "csv"}).out);
  EXPECT_EQ(numbers.nodes.at("main"), std::pair(int64_t{70}, int64_t{70}));
  EXPECT_EQ(numbers.nodes.at("start_thread"), std::pair(int64_t{30}, int64_t{30})) << "nothing gets lost";
  EXPECT_EQ(numbers.nodes.size(), 2u);
}

TEST_F(Views, PackagesOfNames) {
  EXPECT_EQ(PackageOf("app::json::parse(std::string const&)", "/usr/bin/x", ""), "app");
  EXPECT_EQ(PackageOf("void app::f<std::string>(int)", "/usr/bin/x", ""), "app");
  EXPECT_EQ(PackageOf("main", "/usr/bin/x", ""), "x");
  EXPECT_EQ(PackageOf("main", "", "/src/app/main.c"), "app");
  EXPECT_EQ(PackageOf("<app::Tree as core::ops::Drop>::drop", "/usr/bin/x", ""), "app");
  EXPECT_EQ(PackageOf("github.com/a/b.(*T).Run", "/usr/bin/x", ""), "github.com/a/b");
  EXPECT_EQ(PackageOf("", "", ""), "?");
  EXPECT_TRUE(IsSystemFrame("malloc", "/lib/x86_64-linux-gnu/libc.so.6"));
  EXPECT_TRUE(IsSystemFrame("malloc", "/lib64/libc-2.17.so"));
  EXPECT_TRUE(IsSystemFrame("malloc", "/lib/ld-musl-x86_64.so.1"));
  EXPECT_FALSE(IsSystemFrame("mail_open", "/usr/lib/libc-client.so.2007e"));
  EXPECT_TRUE(IsSystemFrame("void std::sort<int*>(int*, int*)", "/usr/bin/x"));
  EXPECT_FALSE(IsSystemFrame("app::stdlib::f()", "/usr/bin/x"));
  EXPECT_FALSE(IsSystemFrame("main", "/usr/lib/libcurl.so.4"));
}

// tests/web/core_test.mjs holds the HTML report and `holdfast top` to the same table.
TEST_F(Views, FramesBelongToWhatTheTableSays) {
  std::ifstream table(HOLDFAST_TESTS "/golden/frame_origins.txt");
  constexpr std::string_view kOrigins[] = {"user", "library", "system", "unknown"};
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line + "\t");
    std::string function, object, file, package, origin;
    for (std::string* column : {&function, &object, &file, &package, &origin}) std::getline(columns, *column, '\t');
    EXPECT_EQ(PackageOf(function, object, file), package) << line;
    EXPECT_EQ(IsSystemFrame(function, object), origin == "system") << line;
    EXPECT_EQ(kOrigins[static_cast<size_t>(OriginOf(function, object, object == "/usr/bin/app"))], origin) << line;
    ++rows;
  }
  EXPECT_GE(rows, 30);
  EXPECT_EQ(OriginOf("", "/usr/lib/libc.so.6", false), FrameOrigin::kSystem);
  EXPECT_EQ(OriginOf("", "/usr/bin/app", true), FrameOrigin::kUnknown) << "a function without a name";
}

TEST_F(Views, ListShowsLinesBesideTheirSource) {
  const std::string source = folder_.Write("main.cc", "int main() {\n  f();\n  g();\n}\n");
  Profile p = StackProfile({Stack{"main;f", 10}, Stack{"main", 5}});
  for (auto& function : p.functions) function.filename = p.strings.Intern(source);
  const Result list = Catch([&](auto& out, auto& err) {
    return RunList({.view = {.files = {Save(p)}, .unit = "bytes"}, .function = "^main$"}, out, err);
  });
  EXPECT_EQ(list.exit_code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("    5    15   100%     1  int main() {\n"));
  EXPECT_THAT(list.out, HasSubstr("                       2    f();\n"));
  const Result none = Catch(
      [&](auto& out, auto& err) { return RunList({.view = {.files = {Save(p)}}, .function = "nothing"}, out, err); });
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_EQ(none.err, "holdfast: nothing: no function in the profile matches. List the names with holdfast top.\n");
}

TEST_F(Views, AFunctionOfAnotherKindIsFound) {
  Folder profiles;
  Profile waits = StackProfile({Stack{"main;clean_cache", 10}});
  waits.comments = {waits.strings.Intern("kind: mutex")};
  profiles.Write("app.7.0001.heap.pb.gz", EncodePprof(requests_));
  profiles.Write("app.7.0001.mutex.pb.gz", EncodePprof(waits));
  const std::string expected = "no function in this kind of profile matches, but another kind has one: --kind mutex\n";
  const std::vector<std::string> files = {profiles.File("")};
  EXPECT_EQ(Callers({.view = {.files = files}, .of = "clean_cache"}).err, "holdfast: --of clean_cache: " + expected);
  EXPECT_EQ(Peek({.files = files}, "clean_cache").err, "holdfast: clean_cache: " + expected);
  const Result list = Catch(
      [&](auto& out, auto& err) { return RunList({.view = {.files = files}, .function = "clean_cache"}, out, err); });
  EXPECT_EQ(list.err, "holdfast: clean_cache: " + expected);
}

TEST_F(Views, ErrorsAreRecomputedFromTheFile) {
  // 1 MiB in 16 objects of 64 KiB under 512 KiB: p = 1 − e^(−1/8), σ² = 1 MiB·64 KiB·(1−p)/p, half width 1.96σ.
  Profile p = StackProfile({Stack{"main;hold", 1 << 20, 16}});
  p.comments.clear();
  p.AddComment("kind: heap");
  p.AddComment("interval: 524288 bytes");
  const auto rows = testing::ParseCsv(Top({.files = {Save(p)}, .format = "csv"}).out);
  ASSERT_EQ(rows.size(), 2u);
  const double expected = 1.96 * std::sqrt(1048576.0 * 65536 * std::exp(-0.125) / (1 - std::exp(-0.125)));
  EXPECT_NEAR(std::stod(rows[0].at("self_error")), expected, 1);
  const Result shown = Top({.files = {Save(p)}, .errors = true});
  EXPECT_THAT(shown.out, HasSubstr("1MiB ±1.34MiB")) << shown.out;
  // What the file states about its total is what all rows add up to.
  p.AddComment("total inuse_space: 1048576 ± 700000");
  EXPECT_NEAR(std::stod(testing::ParseCsv(Top({.files = {Save(p)}, .format = "csv"}).out)[0].at("self_error")), 700000,
              2);
}

TEST_F(Views, JsonHoldsEverything) {
  const Result top = Top({.files = {Save(requests_)}, .format = "json"});
  EXPECT_THAT(top.out, HasSubstr("\"metric\": \"inuse_space\",\n"));
  EXPECT_THAT(top.out, HasSubstr("\"total\": 10000,\n"));
  EXPECT_THAT(top.out, HasSubstr("{\"self\": 7560, \"self_error\": 0, \"self_percent\": 75.6, \"total\": 7560, "));
  EXPECT_THAT(top.out,
              HasSubstr("\"function\": \"apply\", \"file\": \"main.cc\", \"line\": 1, \"object\": \"/usr/bin/app\"}"));
}

TEST_F(Views, AFilterThatLeavesNothingSaysSo) {
  const Result top = Top({.files = {Save(requests_)}, .stacks = {.focus = "nothing"}});
  EXPECT_EQ(top.exit_code, 3);
  EXPECT_EQ(top.err, "holdfast: these filters leave no stack. List the names with holdfast top, or remove a filter.\n");
  EXPECT_EQ(Top({.files = {Save(requests_)}, .stacks = {.focus = "("}}).exit_code, 2);
}

TEST_F(Views, ALabelThatIsANumberTakesARangeOfNumbers) {
  const std::string file = Save(requests_);
  const Result typo = Top({.files = {file}, .stacks = {.tag_focus = "bytes=1XiB:2"}});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_EQ(typo.err,
            "holdfast: --tagfocus bytes=1XiB:2: \"1XiB\" is neither a size nor a time. Write a range as 1KiB:64KiB or "
            "1ms:2s.\n");
  EXPECT_EQ(Top({.files = {file}, .stacks = {.tag_ignore = "4KiB:1QB"}}).exit_code, 2);
  EXPECT_EQ(Top({.files = {file}, .stacks = {.tag_ignore = "bytes=large"}}).err,
            "holdfast: --tagignore bytes=large: bytes is a number. Give a range such as bytes=1KiB:64KiB, or one "
            "number.\n");
  for (const char* fine : {"bytes=1:1MiB", "bytes=:1MiB", "thread=work", "thread=a::b|work", "work"}) {
    EXPECT_EQ(Top({.files = {file}, .stacks = {.tag_focus = fine}}).exit_code, 0) << fine;
  }
}

TEST_F(Views, FoldedStacksAddUp) {
  const auto view = OpenView({.files = {Save(requests_)}}, std::cerr);
  ASSERT_TRUE(view.ok());
  EXPECT_EQ(*ExportText("folded", *view, {}),
            "main;handle_request 100\n"
            "main;handle_request;parse_json 2000\n"
            "main;handle_request;parse_json;validate 300\n"
            "main;handle_request;process_data 40\n"
            "main;handle_request;process_data;apply 7560\n");
  EXPECT_FALSE(ExportText("svg", *view, {}).ok());
}

// ---- The same numbers as go tool pprof, all rows ----

struct Filter {
  const char* go;
  StackOptions ours;
};

class AgreesWithGo : public Views {};

TEST_F(AgreesWithGo, InTreeAndPeekForEveryMetric) {
  for (const unsigned seed : {1u, 2u}) {
    const std::string file = Save(RandomProfile(seed));
    for (const char* metric : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
      const std::string options =
          std::string("-nodecount=0 -nodefraction=0 -edgefraction=0 -unit=bytes -sample_index=") + metric;
      const ViewNumbers go = ParseGoTree(GoPprof("-tree " + options, file).output);
      ASSERT_GE(go.nodes.size(), 50u);
      ASSERT_GE(go.edges.size(), 1000u);
      const ViewOptions view{.files = {file}, .metric = metric, .node_count = 0, .format = "csv"};
      EXPECT_EQ(ParseOurTree(Tree({.view = view, .node_fraction = 0}).out), go) << metric;
      EXPECT_EQ(ParseOurPeek(Peek(view, ".").out), go) << metric;
      const ViewNumbers some = ParseGoTree(GoPprof("'-peek=f1[0-9]|lib3' " + options, file).output);
      ASSERT_GE(some.nodes.size(), 10u);
      EXPECT_EQ(ParseOurPeek(Peek(view, "f1[0-9]|lib3").out), some) << metric;
    }
  }
}

TEST_F(AgreesWithGo, WithFilters) {
  const std::string file = Save(RandomProfile(5));
  const std::vector<Filter> filters = {
      {"-focus=f12", {.focus = "f12"}},
      {"-focus=lib2", {.focus = "lib2"}},
      {"-ignore='f1|f2'", {.ignore = "f1|f2"}},
      {"-hide='f[0-9][02468]'", {.hide = "f[0-9][02468]"}},
      {"-hide=lib1", {.hide = "lib1"}},
      {"-show='f[0-9][13579]'", {.show = "f[0-9][13579]"}},
      {"-show_from='f3[0-9]'", {.show_from = "f3[0-9]"}},
      {"-show_from=lib2", {.show_from = "lib2"}},
      {"-focus=f7 -hide=f8 -show_from=f2", {.focus = "f7", .hide = "f8", .show_from = "f2"}},
      {"-tagfocus=wait=mutex", {.tag_focus = "wait=mutex"}},
      {"-tagignore=mutex", {.tag_ignore = "mutex"}},
      {"-tagfocus=bytes=64b:512b", {.tag_focus = "bytes=64B:512B"}},
      {"-noinlines", {.inlines = false}},
  };
  for (const Filter& filter : filters) {
    const ViewNumbers go = ParseGoTree(
        GoPprof(std::string("-tree -nodecount=0 -nodefraction=0 -edgefraction=0 -unit=bytes ") + filter.go, file)
            .output);
    ASSERT_GE(go.nodes.size(), 5u) << filter.go;
    const ViewOptions view{.files = {file}, .node_count = 0, .stacks = filter.ours, .format = "csv"};
    EXPECT_EQ(ParseOurPeek(Peek(view, ".").out), go) << filter.go;
    EXPECT_EQ(ParseOurTop(Top(view).out).nodes, go.nodes) << filter.go;
  }
}

TEST_F(AgreesWithGo, OnSumsOfProcesses) {
  // The same code at other addresses, as ASLR has it.
  Profile moved = RandomProfile(7);
  for (auto& mapping : moved.mappings) {
    mapping.start += 0x7000000;
    mapping.limit += 0x7000000;
  }
  for (auto& location : moved.locations) location.address += 0x7000000;
  const std::string one = folder_.Write("one.pb.gz", EncodePprof(RandomProfile(7)));
  const std::string two = folder_.Write("two.pb.gz", EncodePprof(moved));
  const ViewNumbers go =
      ParseGoTree(GoPprof("-tree -nodecount=0 -nodefraction=0 -edgefraction=0 -unit=bytes", one + " " + two).output);
  const ViewOptions view{.files = {one, two}, .node_count = 0, .format = "csv"};
  EXPECT_EQ(ParseOurPeek(Peek(view, ".").out), go);
}

}  // namespace
}  // namespace holdfast
