// Names of functions without a symbol of their own, and which frames are user code.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "tests/support/profiled.h"
#include "tests/support/view_numbers.h"

namespace holdfast::testing {
namespace {

class Scopes : public Profiled {
 protected:
  // Bytes that each function allocated itself.
  std::map<std::string, std::string> SelfOf(const std::string& program) {
    EXPECT_TRUE(RunTool({"run", "-q", "--exact", "-o", out(), "--", program}).exited(0));
    EXPECT_TRUE(RunTool({"symbolize", "-q", out()}).exited(0));  // what was not in time
    const RunResult top =
        RunTool({"top", "--fold", "plumbing", "--format", "csv", "--metric", "alloc_space", "-n", "0", out()});
    std::map<std::string, std::string> self;
    for (const auto& row : ParseCsv(top.out)) self[row.at("function")] = row.at("self");
    return self;
  }
  static void ExpectNames(std::map<std::string, std::string> self) {
    EXPECT_EQ(self["app::(anonymous namespace)::Hidden"], "1000") << ::testing::PrintToString(self);
    EXPECT_EQ(self["app::LoadUsers()::{lambda named_scopes.cc:34}::operator()"], "2000");
    EXPECT_EQ(self["app::LoadOrders()::{lambda named_scopes.cc:37}::operator()"], "3000");
    EXPECT_EQ(self["app::LoadItems()::{lambda named_scopes.cc:46}::operator()<int>"], "6000");
    EXPECT_EQ(self["app::LoadPrices()::{lambda named_scopes.cc:49}::operator()<int>"], "7000");
    EXPECT_EQ(self["std::vector<int, std::allocator<int> > app::MakeRows<int>(int)"], "4000");
    EXPECT_EQ(self["core::Engine::Load(int)"], "5000");
    EXPECT_TRUE(self.contains("app::Cache::Each<app::LoadUsers()::<lambda(int)> >"));
  }
};

TEST_F(Scopes, FunctionsWithoutALinkageNameAreNamedByWhatIsAroundThem) {
  ExpectNames(SelfOf(ProgramPath("named_scopes")));
}

TEST_F(Scopes, ScopesDescribedInAnotherUnitAreNamedToo) {
  const std::string program = ProgramPath("named_scopes_lto");
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "built by another compiler than GCC";
  ExpectNames(SelfOf(program));
}

}  // namespace
}  // namespace holdfast::testing
