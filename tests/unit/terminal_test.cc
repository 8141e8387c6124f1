// Text fitted to a terminal: shortened with a sign, wrapped, told apart, counted for the pager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "report/analysis/growth/distinct_stacks.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/utf8.h"
#include "report/show/fitted_text.h"
#include "report/show/pager.h"

namespace holdfast::testing {
namespace {

using ::testing::ElementsAre;

TEST(FittedText, HelpGoesOnBelowWhatItSays) {
  const std::string text =
      "Options:\n"
      "  --by WHAT [function]     What a row is: function, line,\n"
      "                           or a label\n"
      "  --json                   All of it\n"
      "\n"
      "One row for each function: what was\n"
      "freed of its blocks, and at which age.\n"
      "  holdfast top --by age holdfast.app.4242     the oldest first\n";
  EXPECT_EQ(FittedHelp(text, 0), text);
  EXPECT_EQ(FittedHelp(text, 80), text);
  EXPECT_EQ(FittedHelp(text, 56),
            "Options:\n"
            "  --by WHAT [function]     What a row is: function,\n"
            "                           line, or a label\n"
            "  --json                   All of it\n"
            "\n"
            "One row for each function: what was\n"
            "freed of its blocks, and at which age.\n"
            "  holdfast top --by age holdfast.app.4242\n"
            "      the oldest first\n");
  EXPECT_EQ(FittedHelp("One row for each function: what was\nfreed of its blocks.\nLast\n", 30),
            "One row for each function:\nwhat was freed of its blocks.\nLast\n");
  EXPECT_EQ(FittedHelp("no line ends", 20), "no line ends\n");
}

TEST(FittedText, PartsAreOmittedInTheOrderOfTheirValue) {
  const std::string name = "app::Table<int, std::string>::Get(std::string const&)";
  const std::string whole = name + "  (libtable.so)";
  EXPECT_EQ(ShortenedTo(whole, 0), whole);
  EXPECT_EQ(ShortenedTo(whole, whole.size()), whole);
  EXPECT_EQ(ShortenedTo(whole, 60), name + "  (…)");
  EXPECT_EQ(ShortenedTo(whole, 54), name);
  EXPECT_EQ(ShortenedTo(whole, 40), "app::Table<int, std::string>::Get(…)");
  EXPECT_EQ(ShortenedTo(whole, 24), "app::Table<…>::Get(…)");
  EXPECT_EQ(ShortenedTo(whole, 15), "app::Ta…:Get(…)");
  EXPECT_EQ(ShortenedTo("storage::(anonymous namespace)::FlushChanges(int)", 20), "…::FlushChanges(…)");
  EXPECT_EQ(ShortenedTo("storage::FlushChanges(int)", 15), "…::FlushChanges");
  EXPECT_EQ(ShortenedTo("FlushChanges<int>(int)", 13), "FlushChanges…");
  EXPECT_EQ(ShortenedTo("store::Table<Order>::Compact", 23), "store::Tabl…>::Compact") << "one ellipsis";
  EXPECT_EQ(ShortenedTo("a_function_of_c_with_a_long_name", 11), "a_fun…_name");
  for (size_t width = 1; width < whole.size(); ++width) {
    const std::string shown = ShortenedTo(whole, width);
    EXPECT_LE(WidthOf(shown), width);
    EXPECT_TRUE(shown == name || shown.find("…") != std::string::npos) << shown;
  }
}

TEST(FittedText, IsWrappedAtBlanksAndNothingIsLost) {
  EXPECT_THAT(Wrapped("names    one two three", 18, 9), ElementsAre("names    one two", "         three"));
  EXPECT_THAT(Wrapped("short", 80, 9), ElementsAre("short"));
  EXPECT_THAT(Wrapped("any", 0, 9), ElementsAre("any"));
  EXPECT_THAT(Wrapped("abcdefghij", 4, 1), ElementsAre("abcd", " efg", " hij"));
  EXPECT_THAT(Wrapped("äöü äöü", 4, 0), ElementsAre("äöü", "äöü"));
  const std::string text = "program  some-program (pid 4242), another-with-a-long-name (pid 1) and 17 more";
  for (size_t width = 1; width < 90; ++width) {
    std::string all;
    for (const std::string& line : Wrapped(text, width, HangingIndent(text))) {
      EXPECT_LE(WidthOf(line), width);
      all += line;
    }
    const auto bare = [](std::string with) {
      std::erase(with, ' ');
      return with;
    };
    EXPECT_EQ(bare(all), bare(text)) << width;
  }
  EXPECT_EQ(WrappedLines("a b\n\nlost     1 2\n", 10), "a b\n\nlost     1\n     2\n");
}

TEST(DistinctStacks, FourFunctionsWhereTheyAreEnoughAndMoreWhereNot) {
  EXPECT_THAT(DistinctStacks({{"a", "b", "c", "d", "e", "f", "main"}, {"x", "main"}}, 4, nullptr),
              ElementsAre("a ← b ← c ← d ← …", "x ← main"));
  EXPECT_THAT(DistinctStacks({{"a", "b", "c", "d", "e", "main"}, {"a", "b", "c", "d", "f", "main"}}, 4, nullptr),
              ElementsAre("a ← b ← c ← d ← e ← …", "a ← b ← c ← d ← f ← …"));
  EXPECT_THAT(DistinctStacks({{"a", "b", "c", "d", "e", "f", "g", "one", "main"},
                              {"a", "b", "c", "d", "e", "f", "g", "two", "main"}},
                             4, nullptr),
              ElementsAre("a ← b ← c ← d ← … ← one ← …", "a ← b ← c ← d ← … ← two ← …"));
  // Of one the names are the other's end.
  EXPECT_THAT(
      DistinctStacks({{"a", "b", "c", "d", "e", "f", "g"}, {"a", "b", "c", "d", "e", "f", "g", "h"}}, 4, nullptr),
      ElementsAre("a ← b ← c ← d ← … ← g", "a ← b ← c ← d ← … ← h"));
  // Recursion is counted.
  EXPECT_THAT(DistinctStacks({{"a", "b", "b", "b", "main"}, {"a", "b", "b", "main"}}, 4, nullptr),
              ElementsAre("a ← b ×3 ← main", "a ← b ×2 ← main"));
  // By short names they are one.
  EXPECT_THAT(DistinctStacks({{"f(int)", "main"}, {"f(char)", "main"}}, 4, [](std::string_view) { return "f"; }),
              ElementsAre("f(int) ← f", "f(char) ← f"));
}

TEST(DistinctStacks, NoTwoOfThemLookTheSame) {
  std::set<std::vector<std::string>> all;
  unsigned seed = 1;
  for (int i = 0; i < 400; ++i) {
    std::vector<std::string> stack;
    const size_t depth = 1 + (seed = seed * 1103515245 + 12345) / 65536 % 14;
    for (size_t k = 0; k < depth; ++k) stack.emplace_back(1, "ab"[(seed = seed * 1103515245 + 12345) / 65536 % 2]);
    all.insert(stack);
  }
  const std::vector<std::vector<std::string>> stacks(all.begin(), all.end());
  ASSERT_GT(stacks.size(), 250u);
  const std::vector<std::string> texts = DistinctStacks(stacks, 4, ShortName);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
}

TEST(Pager, IsTheUsersOrLess) {
  std::map<std::string, std::string> environment = {{"TERM", "xterm"}};
  const auto command = [&] {
    return PagerCommand([&](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(command(), "less");
  environment["PAGER"] = "more";
  EXPECT_EQ(command(), "more");
  environment["HOLDFAST_PAGER"] = "less -S";
  EXPECT_EQ(command(), "less -S");
  for (const char* none : {"", "cat"}) {
    environment["HOLDFAST_PAGER"] = none;
    EXPECT_EQ(command(), "");
  }
  environment["HOLDFAST_PAGER"] = "less";
  environment["TERM"] = "dumb";
  EXPECT_EQ(command(), "");
}

TEST(Pager, CountsTheLinesThatTheTerminalShows) {
  EXPECT_EQ(LinesOnScreen("", 80), 0u);
  EXPECT_EQ(LinesOnScreen("a\nb\n", 80), 2u);
  EXPECT_EQ(LinesOnScreen("a\nb", 80), 2u);
  EXPECT_EQ(LinesOnScreen("12345678\n", 4), 2u);
  EXPECT_EQ(LinesOnScreen("123456789\n", 4), 3u);
  EXPECT_EQ(LinesOnScreen("\x1b[1;31mäöüß\x1b[0m\n", 4), 1u);
}

}  // namespace
}  // namespace holdfast::testing
