// Nothing of ours grows: not with time, not with restarts. HOLDFAST_TEST_FULL=1 takes the whole hour (10 million samples,
// 1 million stacks, 100,000 threads) and 1,000 restarts; without it a tenth of both.
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

bool Full() { return getenv("HOLDFAST_TEST_FULL") != nullptr; }

class Growth : public Profiled {
 protected:
  uint64_t BytesInTables() const {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(tables(), error)) {
      struct stat info;
      if (lstat(entry.path().c_str(), &info) == 0) bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
    return bytes;
  }
};

TEST_F(Growth, AnHourOfChurnLeavesItsOwnMemoryAsItWas) {
  const std::vector<std::string> argv = Full() ? std::vector<std::string>{"churn", "10000000", "1000000", "100000"}
                                               : std::vector<std::string>{"churn", "1000000", "1000000", "10000"};
  // Smaller than the default, so that it is full within the second tenth also here: from then on nothing may grow.
  Command command = CommandFor(Launch::kPreload, argv, {{"heap-interval", "1"}, {"max-memory", "8MiB"}});
  command.timeout_seconds = 300;
  const RunResult r = RunAndSettle(command);
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  std::istringstream lines(r.err);
  std::string word;
  std::vector<long> own, shared;
  for (long tenth, anonymous, table; lines >> word >> tenth >> word >> anonymous >> word >> table;) {
    own.push_back(anonymous);
    shared.push_back(table);
  }
  ASSERT_EQ(own.size(), 10u) << r.err;
  EXPECT_LE(static_cast<double>(own[9]), 1.02 * static_cast<double>(own[1])) << r.err;
  EXPECT_LE(static_cast<double>(shared[9]), 1.02 * static_cast<double>(shared[1])) << r.err;
  EXPECT_LE(shared[9], 8 << 10) << r.err;
  const Decoded heap = NewestHeap().at(0);
  EXPECT_EQ(heap.error, "");
  // No sample is lost: those without a row of their own are in [overflow].
  EXPECT_GE(heap.Total().at("alloc_objects"), Full() ? 10'000'000 : 1'000'000);
  EXPECT_GT(heap.SumAny("[overflow]").at("alloc_objects"), 0);
}

TEST_F(Growth, AProgramThatCrashesAndIsRestartedLeavesNoTableBehind) {
  const int restarts = Full() ? 1000 : 100;
  uint64_t most = 0;
  for (int i = 0; i < restarts; ++i) {
    const RunResult r = Execute(CommandFor(Launch::kPreload, {"endings", i % 2 == 0 ? "segv" : "abort"}, {{"heap-interval", "1"}, {"keep", "1"}}));
    ASSERT_FALSE(r.exited(0));
    if (i % 10 == 9) most = std::max(most, BytesInTables());
  }
  EXPECT_TRUE(Settled()) << ::testing::PrintToString(Tables());
  EXPECT_LT(most, 64u << 20);
  EXPECT_EQ(BytesInTables(), 0u);
  EXPECT_EQ(Newest(out(), "heap").size(), static_cast<size_t>(restarts));
}

TEST_F(Growth, AParallelMakeLeavesNoTableBehind) {
  std::ofstream makefile(folder() + "/Makefile");
  makefile << "all:";
  for (int i = 0; i < 150; ++i) makefile << " t" << i;
  makefile << "\nt%:\n\t@" << ProgramPath("endings") << " exit >/dev/null; test $$? = 6\n";
  makefile.close();
  Command command = CommandFor(Launch::kPreload, {"/usr/bin/make", "-s", "-j8", "-C", folder()}, {{"heap-interval", "4KiB"}});
  command.timeout_seconds = 120;
  const RunResult r = RunAndSettle(command);
  EXPECT_TRUE(r.exited(0)) << r.Describe();
  EXPECT_EQ(BytesInTables(), 0u);
}

}  // namespace
}  // namespace holdfast::testing
