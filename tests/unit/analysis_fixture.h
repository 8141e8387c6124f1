// Runs what looks at several profiles on files in a folder of its own, and keeps what it says.
#ifndef HOLDFAST_TESTS_UNIT_ANALYSIS_FIXTURE_H_
#define HOLDFAST_TESTS_UNIT_ANALYSIS_FIXTURE_H_

#include <gtest/gtest.h>

#include "report/show/check.h"
#include "report/show/diff.h"
#include "report/show/leaks.h"
#include "report/show/merge_command.h"
#include "report/show/top.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {

class Analysis : public ::testing::Test {
 protected:
  using Result = testing::Result;
  static Result Diff(const DiffOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunDiff(options, out, err); });
  }
  static Result Merge(const MergeOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunMerge(options, out, err); });
  }
  static Result Check(CheckOptions options) {
    if (options.view.format == "table") options.view.format = "text";
    return Catch([&](auto& out, auto& err) { return RunCheck(options, out, err); });
  }
  static Result Leaks(const LeaksOptions& options) {
    return Catch([&](auto& out, auto& err) { return RunLeaks(options, out, err); });
  }
  std::string Save(const std::string& name, const Profile& profile) {
    return folder_.Write(name, EncodePprof(profile));
  }

  // A snapshot of a process, every byte sampled.
  static Profile Snapshot(const std::string& process, int64_t time, const std::vector<Stack>& stacks) {
    Profile p = StackProfile(stacks);
    if (!process.empty()) p.AddComment("process: " + process);
    p.time_nanos = time;
    return p;
  }
  // Self and total of each changed function.
  static std::map<std::string, std::pair<int64_t, int64_t>> Deltas(const std::string& csv) {
    std::map<std::string, std::pair<int64_t, int64_t>> rows;
    for (const auto& row : ParseCsv(csv)) {
      rows[row.at("function")] = {NumberIn(row, "self_delta"), NumberIn(row, "total_delta")};
    }
    return rows;
  }

  Folder folder_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_ANALYSIS_FIXTURE_H_
