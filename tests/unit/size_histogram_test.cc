// `top --by size`: rows are powers of two, and add up to what the filters select.
#include "report/show/size_histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/show/top.h"
#include "tests/support/view_numbers.h"
#include "tests/unit/pprof_fixture.h"
#include "tests/unit/view_fixture.h"

namespace holdfast {
namespace {

using testing::Catch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::NumberIn;
using testing::ParseCsv;
using testing::RandomProfile;
using testing::Result;
using testing::Stack;
using testing::StackProfile;

class SizeHistogram : public ::testing::Test {
 protected:
  Result Top(const Profile& profile, ViewOptions options = {}) {
    options.files = {folder_.Write("profile.pb.gz", EncodePprof(profile))};
    options.stacks.by = "size";
    options.color = "never";
    return Catch([&](auto& out, auto& err) { return RunTop(options, out, err); });
  }
  static std::string Rows(const std::string& text) { return text.substr(std::min(text.size(), text.find("size "))); }

  Folder folder_;
};

TEST_F(SizeHistogram, ARowIsAPowerOfTwoAndNoneIsLeftOut) {
  // Sizes 60, 64, 65, 600 and 8,000 bytes.
  const Profile profile = StackProfile({Stack{"main;a", 600, 10}, Stack{"main;b", 64, 1}, Stack{"main;a", 130, 2},
                                        Stack{"main;c", 600, 1}, Stack{"main;c", 8000, 1}});
  const Result top = Top(profile, {.files = {}, .unit = "bytes"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_EQ(Rows(top.out),
            "size        objects   self  self%\n"
            "up to 64B        11    664  7.07% █▋\n"
            "up to 128B        2    130  1.38% ▍\n"
            "up to 256B        0      0     0%\n"
            "up to 512B        0      0     0%\n"
            "up to 1KiB        1    600  6.39% █▌\n"
            "up to 2KiB        0      0     0%\n"
            "up to 4KiB        0      0     0%\n"
            "up to 8KiB        1   8000 85.16% ████████████████████\n");
}

TEST_F(SizeHistogram, TheRowsOfOneFunctionAreItsAllocations) {
  const Profile profile = StackProfile({Stack{"main;a;x", 640, 10}, Stack{"main;b", 64, 1}, Stack{"main;a", 128, 1}});
  const auto rows = ParseCsv(Top(profile, {.files = {}, .stacks = {.focus = "^a$"}, .format = "csv"}).out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(NumberIn(rows[0], "size"), 64);
  EXPECT_EQ(NumberIn(rows[0], "objects"), 10);
  EXPECT_EQ(NumberIn(rows[0], "self"), 640);
  EXPECT_EQ(NumberIn(rows[1], "self"), 128);
}

TEST_F(SizeHistogram, RowsAddUpToTheTotalOfEveryMetric) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Profile profile = RandomProfile(seed);
    for (size_t metric = 0; metric < profile.sample_types.size(); ++metric) {
      const std::string name(profile.strings[profile.sample_types[metric].type]);
      int64_t sum = 0;
      for (const auto& row : ParseCsv(Top(profile, {.files = {}, .metric = name, .format = "csv"}).out))
        sum += NumberIn(row, "self");
      EXPECT_EQ(sum, profile.Total(metric)) << name << " of " << seed;
    }
  }
}

// As in text profiles of gperftools and jemalloc.
TEST_F(SizeHistogram, AFileWithoutSizesCountsTheMeanOfEachStack) {
  Profile profile = StackProfile({Stack{"main;a", 1000, 10}, Stack{"main;b", 3000, 1}}, "");
  for (Profile::Sample& sample : profile.samples) sample.labels = 0;
  const Result top = Top(profile);
  EXPECT_THAT(top.out, HasSubstr("uses the mean size of each stack"));
  EXPECT_THAT(top.out, HasSubstr("up to 128B       10    1000B"));
  EXPECT_THAT(top.out, HasSubstr("up to 4KiB        1  2.93KiB"));
}

TEST_F(SizeHistogram, AProfileOfWaitsHasNoSizes) {
  Profile profile = StackProfile({Stack{"main;a", 1000, 10}}, "");
  profile.sample_types[0].type = profile.sample_types[2].type = profile.strings.Intern("contentions");
  profile.sample_types[1].type = profile.sample_types[3].type = profile.strings.Intern("delay");
  profile.default_sample_type = profile.sample_types[1].type;
  profile.samples[0].labels = 0;
  const Result top = Top(profile);
  EXPECT_EQ(top.exit_code, 2);
  EXPECT_THAT(top.err, HasSubstr("--by size: delay has no sizes"));
}

}  // namespace
}  // namespace holdfast
