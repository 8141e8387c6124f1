// Text profiles of gperftools and jemalloc.
#include "report/pprof/text_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "report/pprof/pprof.h"
#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMaps[] =
    "MAPPED_LIBRARIES:\n"
    "00400000-00500000 r-xp 00001000 08:01 1234                               /usr/bin/my app\n"
    "00600000-00700000 rw-p 00000000 08:01 1234                               /usr/bin/my app\n"
    "7f0000000000-7f0000100000 r-xp 00002000 08:01 99                         /usr/lib/libx.so.1\n";

std::vector<int64_t> ValuesOf(const Profile& profile, size_t sample) {
  const auto values = profile.ValuesOf(sample);
  return {values.begin(), values.end()};
}

TEST(TextProfile, AHeapOfGperftools) {
  const auto profile =
      DecodePprof(std::string("heap profile:      3:     1536 [     9:     4608] @ heapprofile\n"
                              "     2:     1024 [     6:     3072] @ 0x00400100 0x00400200 0x7f0000000300\n"
                              "     1:      512 [     3:     1536] @ 0x00400200\n\n") +
                      kMaps,
                  "prof.heap");
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->samples.size(), 2u);
  EXPECT_THAT(ValuesOf(*profile, 0), ElementsAre(6, 3072, 2, 1024));
  EXPECT_THAT(ValuesOf(*profile, 1), ElementsAre(3, 1536, 1, 512));
  EXPECT_EQ(profile->strings[profile->default_sample_type], "inuse_space");
  EXPECT_EQ(profile->CommentValue("kind"), "heap");
  ASSERT_EQ(profile->mappings.size(), 2u) << "executable ones";
  EXPECT_EQ(profile->strings[profile->mappings[0].file], "/usr/bin/my app");
  EXPECT_EQ(profile->mappings[0].offset, 0x1000u);
  const auto frames = profile->FramesOf(profile->samples[0]);
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(profile->locations[frames[0]].address, 0x4000ffu) << "in the call, not after it";
  EXPECT_EQ(profile->locations[frames[2]].mapping, 1u);
  EXPECT_EQ(frames[1], profile->FramesOf(profile->samples[1])[0]);
}

// An object of 512 bytes under 512 KiB weighs 1/(1 − e^(−1/1024)).
TEST(TextProfile, WhatWasSampledIsScaled) {
  for (const std::string text : {"heap profile: 1: 512 [1: 512] @ heap_v2/524288\n1: 512 [1: 512] @ 0x400100\n",
                                 "heap profile: 1: 512 [1: 512] @ heap/1048576\n1: 512 [1: 512] @ 0x400100\n",
                                 "heap_v2/524288\n  t*: 1: 512 [0: 0]\n@ 0x400100\n  t*: 1: 512 [0: 0]\n"}) {
    const auto profile = DecodePprof(text, "prof.heap");
    ASSERT_TRUE(profile.ok()) << profile.status();
    ASSERT_EQ(profile->samples.size(), 1u) << text;
    EXPECT_THAT(ValuesOf(*profile, 0), ElementsAre(1025, 524544, 1025, 524544));
    EXPECT_EQ(profile->period, 524288);
  }
}

TEST(TextProfile, AHeapOfJemallocCountsEachStackOnce) {
  const auto profile = DecodePprof(
      std::string("heap_v2/1\n  t*: 3: 300 [10: 1000]\n  t0: 2: 200 [6: 600]\n  t1: 1: 100 [4: 400]\n"
                  "@ 0x400100 0x400200\n  t*: 2: 200 [6: 600]\n  t0: 1: 100 [3: 300]\n  t1: 1: 100 [3: 300]\n"
                  "@ 0x400300\n  t*: 1: 100 [4: 400]\n  t0: 1: 100 [4: 400]\n\n") +
          kMaps,
      "jeprof.1.heap");
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->samples.size(), 2u);
  EXPECT_THAT(ValuesOf(*profile, 0), ElementsAre(6, 600, 2, 200));
  EXPECT_THAT(ValuesOf(*profile, 1), ElementsAre(4, 400, 1, 100));
  EXPECT_EQ(profile->locations[0].mapping, 0u);
}

TEST(TextProfile, ContentionIsTimeByTheClockOfTheFile) {
  const auto profile =
      DecodePprof(std::string("--- contention:\ncycles/second = 2000000000\nsampling period = 10\nms since reset = 5\n"
                              "  4000 3 @ 0x400100 0x400200\n--- Memory map: ---\n") +
                      kMaps,
                  "app.contention");
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->samples.size(), 1u);
  EXPECT_THAT(ValuesOf(*profile, 0), ElementsAre(30, 20000));
  EXPECT_EQ(profile->CommentValue("kind"), "block");
  EXPECT_EQ(profile->mappings.size(), 2u);
}

// go tool pprof reads the same of the same text.
TEST(TextProfile, AgreesWithGo) {
  testing::Folder folder;
  const std::string text =
      folder.Write("prof.heap", std::string("heap profile: 3: 1536 [9: 4608] @ heap_v2/524288\n"
                                            "2: 1024 [6: 3072] @ 0x400100 0x400200\n1: 700 [3: 1536] @ 0x400200\n\n") +
                                    kMaps);
  const auto ours = ReadPprofFile(text);
  ASSERT_TRUE(ours.ok()) << ours.status();
  const std::string raw = testing::GoPprof("-raw", text).output;
  static const std::regex row(R"((\d+) +(\d+) +(\d+) +(\d+): )");
  size_t sample = 0;
  for (std::sregex_iterator at(raw.begin(), raw.end(), row), end; at != end; ++at, ++sample) {
    ASSERT_LT(sample, ours->samples.size());
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(static_cast<double>(ours->ValuesOf(sample)[i]), std::stod((*at)[i + 1]), 1) << "it cuts, we round";
  }
  EXPECT_EQ(sample, 2u) << raw;
}

TEST(TextProfile, DamageIsAnErrorWithItsLine) {
  for (const char* text : {"heap profile: 3: 15\n", "heap profile: 1: 1 [1: 1] @ heap_v2/1\n1: 1 [1: 1] 0x40\n",
                           "heap_v2/x\n", "heap_v2/1\n@ zz\n t*: 1: 1 [0: 0]\n", "--- contention:\n1 @ 0x40\n"}) {
    const auto profile = DecodePprof(text, "prof.heap");
    EXPECT_FALSE(profile.ok()) << text;
    EXPECT_THAT(std::string(profile.status().message()), HasSubstr("prof.heap: damaged at line ")) << text;
  }
  EXPECT_FALSE(IsTextProfile("heap"));
  EXPECT_FALSE(IsTextProfile(""));
}

}  // namespace
}  // namespace holdfast
