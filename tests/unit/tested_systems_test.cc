// The table of tested systems exists twice: in the README and in the tool.
#include "report/run/tested_systems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "fmt/format.h"

namespace holdfast {
namespace {

TEST(TestedSystems, EqualTheReadmes) {
  std::ifstream readme(HOLDFAST_SOURCE "/README.md");
  std::vector<std::string> rows, known;
  bool inside = false;
  const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
  for (std::string line; std::getline(readme, line);) {
    inside = line.starts_with("| system |") || (inside && line.starts_with("|"));
    if (inside) rows.push_back(std::regex_replace(line, link, "$1"));
  }
  ASSERT_GT(rows.size(), 3u);
  rows.erase(rows.begin(), rows.begin() + 2);  // the head
  rows.pop_back();                             // all other systems
  for (const TestedSystem& one : TestedSystems())
    known.push_back(fmt::format("| {} | {} | {} | {} |", one.system, one.libc, one.what, one.when));
  EXPECT_EQ(rows, known);
}

TEST(TestedSystems, AreThoseOfTheProcessor) {
  const std::string path = ::testing::TempDir() + "/libc.so.6";
  std::ofstream(path) << "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n";
  Findings findings;
  DescribeLibc(path, &findings);
#if defined(__aarch64__)
  EXPECT_THAT(findings.Text(), ::testing::HasSubstr("tested on arm64"));
#else
  EXPECT_THAT(findings.Text(), ::testing::HasSubstr("tested on Debian 12"));
#endif
}

TEST(TestedSystems, TheCLibraryTellsItsVersion) {
  using std::string_literals::operator""s;
  EXPECT_EQ(LibcIn("x\0GNU C Library (Debian GLIBC 2.31-13) stable release version 2.31.\nCopyright"s), "glibc 2.31");
  EXPECT_EQ(LibcIn("\0"
                   "1.2.3\0musl libc (x86_64)\nVersion %s\n"s),
            "musl 1.2.3");
  EXPECT_EQ(LibcIn("\0"
                   "1.2.4_git20230717\0musl libc (x86_64)\n"s),
            "musl 1.2.4");
  EXPECT_EQ(LibcIn("\0"
                   "1.2\0musl libc (x86_64)\n"s),
            "");
  EXPECT_EQ(LibcIn("release version 2."), "");
  EXPECT_EQ(LibcIn(""), "");
}

}  // namespace
}  // namespace holdfast
