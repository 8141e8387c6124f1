// Every frame of 10,000 addresses is what llvm-symbolizer says: function, file, line and what was inlined.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/symbols/oracle.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast::testing {
namespace {

std::string Sample(const std::string& name) { return std::string(HOLDFAST_SAMPLES "/") + name + "/sample"; }

class Lines : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (LlvmSymbolizer().empty()) GTEST_SKIP() << "llvm-symbolizer (package llvm) is not installed";
  }
};

TEST_P(Lines, AreWhatLlvmSymbolizerSays) {
  const std::string file = Sample(GetParam());
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << ": its compiler is not installed";
  const Comparison result = CompareWithLlvm(file, file, 10000);
  EXPECT_EQ(result.addresses, 10000u);
  EXPECT_GT(result.lines, 7000u);
  if (std::string(GetParam()).find("O0") == std::string::npos) {
    EXPECT_GT(result.with_inlines, 5000u);
    EXPECT_GT(result.frames, 30000u);
  }
  EXPECT_EQ(result.different, 0u) << result.first_differences;
}

INSTANTIATE_TEST_SUITE_P(Samples, Lines,
                         ::testing::Values("gcc-5-pie", "gcc-4-no-pie", "gcc-5-shared", "gcc-O0-compressed",
                                           "gcc-g1-64", "gcc-types-sections", "gcc-lto", "gcc-split-5", "gcc-split-4",
                                           "clang-5", "clang-4", "clang-split-5", "clang-split-4", "rust-legacy",
                                           "rust-v0"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A comparison that finds nothing must not be one that cannot find anything.
TEST_F(Lines, TheComparisonSeesADifference) {
  const std::string file = Sample("gcc-5-pie");
  const std::vector<uint64_t> addresses = CodeAddresses(file, 100);
  const std::vector<OracleFrames> theirs = AskLlvm(file, addresses);
  std::vector<OracleFrames> changed = theirs;
  changed[10].back().line += 1;
  changed[20].back().file += "x";
  changed[30].back().function += "x";
  changed[40].push_back({});
  EXPECT_EQ(Compare(file, addresses, theirs, changed).different, 4u);
  EXPECT_EQ(Compare(file, addresses, theirs, theirs).different, 0u);
}

}  // namespace
}  // namespace holdfast::testing
