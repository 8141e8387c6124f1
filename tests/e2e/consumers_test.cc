// Go's pprof, the reference consumer, reads every file and shows the same numbers as our own `top`.
#include <algorithm>
#include <regex>

#include "tests/support/profiled.h"

namespace holdfast::testing {
namespace {

class Consumers : public Profiled {};

TEST_F(Consumers, GoToolPprofReadsEveryFile) {
  RunAs(Launch::kPreload, {"hot_mutex"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  RunAs(Launch::kRun, {"operators_new"}, {{"heap-interval", "1"}, {"lock-interval", "0"}});
  RunAs(Launch::kPreload, {"loads_plugins", ProgramPath("first_plugin.so"), ProgramPath("second_plugin.so")},
        {{"heap-interval", "1"}});
  RunAs(Launch::kPreload, {"mixed_sizes"}, {{"heap-interval", "64KiB"}, {"lock-interval", "0"}});
  const std::vector<ProfileName> names = ListProfiles(out());
  const auto of_kinds = std::count_if(names.begin(), names.end(), [](const auto& name) {
    return name.kind == "heap" || name.kind == "mutex" || name.kind == "block";
  });
  ASSERT_EQ(of_kinds, 6);  // heap, mutex, block; and three of heap
  for (const ProfileName& name : names) {
    const RunResult raw = RunGoPprof({"-raw", name.path});
    EXPECT_TRUE(raw.exited(0)) << name.path << raw.Describe();
    EXPECT_NE(raw.out.find("PeriodType: "), std::string::npos) << raw.Describe();
    const RunResult top = RunGoPprof({"-top", name.path});
    EXPECT_TRUE(top.exited(0)) << name.path << top.Describe();
    const char* type = name.kind == "heap" || name.kind == "map" ? "Type: inuse_space"
                       : name.kind == "peak"                     ? "Type: peak_space"
                       : name.kind == "threads"                  ? "Type: alive"
                       : name.kind == "exceptions"               ? "Type: exceptions"
                                                                 : "Type: delay";
    EXPECT_NE(top.out.find(type), std::string::npos) << top.out;
  }
}

TEST_F(Consumers, GoToolPprofShowsTheKnownBytes) {
  RunAs(Launch::kPreload, {"threads_exact"},
        {{"heap-interval", "1"}, {"lock-interval", "0"}, {"profiles", "heap,block"}});
  const std::vector<ProfileName> names = ListProfiles(out());
  ASSERT_EQ(names.size(), 1u);
  const RunResult top = RunGoPprof({"-top", "-unit=B", "-sample_index=alloc_space", names[0].path});
  EXPECT_TRUE(std::regex_search(top.out, std::regex(R"(40040000B .* allocate_and_free)"))) << top.Describe();
  const RunResult objects = RunGoPprof({"-top", "-sample_index=inuse_objects", names[0].path});
  EXPECT_TRUE(std::regex_search(objects.out, std::regex(R"(60000 .* allocate_and_keep)"))) << objects.Describe();
}

TEST_F(Consumers, OurTopNamesTheSameFunctions) {
  RunAs(Launch::kPreload, {"threads_exact"}, {{"heap-interval", "1"}, {"lock-interval", "0"}});
  RunAs(Launch::kPreload, {"hot_mutex"}, {{"lock-interval", "1ns"}});
  for (const ProfileName& name : ListProfiles(out())) {
    const bool is_lock = name.kind == "mutex" || name.kind == "block";
    if ((!is_lock && name.kind != "heap") || (name.kind == "heap" && name.program != "threads_exact")) continue;
    const RunResult top = RunTool({"top", name.path});
    EXPECT_TRUE(top.exited(0)) << top.Describe();
    EXPECT_EQ(top.err, "");
    const char* known = name.kind == "heap"    ? "allocate_and_keep"
                        : name.kind == "mutex" ? "culprit_holds"
                                               : "victim_waits";
    EXPECT_NE(top.out.find(known), std::string::npos) << top.out;
    const RunResult info = RunTool({"info", name.path});
    EXPECT_TRUE(info.exited(0)) << info.Describe();
    EXPECT_NE(info.out.find(name.program), std::string::npos) << info.out;
  }
}

}  // namespace
}  // namespace holdfast::testing
