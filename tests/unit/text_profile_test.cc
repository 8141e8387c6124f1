// Text profiles of gperftools and jemalloc.
#include "report/profile/text_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "report/profile/pprof.h"
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
  EXPECT_EQ(profile->process().kind, "heap");
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
TEST(TextProfile, SampledProfilesAreScaled) {
  for (const std::string text : {"heap profile: 1: 512 [1: 512] @ heap_v2/524288\n1: 512 [1: 512] @ 0x400100\n",
                                 "heap profile: 1: 512 [1: 512] @ heap/1048576\n1: 512 [1: 512] @ 0x400100\n",
                                 "heap_v2/524288\n  t*: 1: 512 [0: 0]\n@ 0x400100\n  t*: 1: 512 [0: 0]\n"}) {
    const auto profile = DecodePprof(text, "prof.heap");
    ASSERT_TRUE(profile.ok()) << profile.status();
    ASSERT_EQ(profile->samples.size(), 1u) << text;
    EXPECT_THAT(ValuesOf(*profile, 0), ElementsAre(1024, 524544, 1024, 524544));
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
  EXPECT_EQ(profile->process().kind, "block");
  EXPECT_EQ(profile->mappings.size(), 2u);
}

// The maps of other writers: without rights, with variables for folders, and without the first part of a file.
TEST(TextProfile, ShorterMapsAreReadAsWell) {
  const auto profile = DecodePprof(
      "--- contentionz 1 ---\ncycles/second = 3201000000\nsampling period = 100\n"
      "  2698 35 @ 0x00a05001 0x7fcdc3000001 0x00b00001\n--- Memory map: ---\n\tsource=/home\n"
      "  00900000-00a00000: $source/my_server (@500000) abc123\n  00a00000-00fcb000: $source/server_main\n"
      "  7fcdc2feb000-7fcdc3003000: /libpthread-2.15.so\n  7fff86bff000-7fff86c00000: [vdso]\n",
      "app.contention");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_THAT(ValuesOf(*profile, 0), ElementsAre(3500, 84286));
  const auto frames = profile->FramesOf(profile->samples[0]);
  const auto file_of = [&](size_t frame) {
    return profile->strings[profile->mappings[profile->locations[frames[frame]].mapping].file];
  };
  EXPECT_EQ(file_of(0), "/home/server_main");
  EXPECT_EQ(file_of(1), "/libpthread-2.15.so");
  EXPECT_EQ(profile->mappings[0].start, 0x400000u) << "a program's usual start";
  EXPECT_EQ(profile->mappings[0].offset, 0u);
  EXPECT_EQ(profile->strings[profile->mappings[0].build_id], "abc123");
}

TEST(TextProfile, AJavaProfileIsNamedAsOne) {
  for (const char* text : {"--- contentionz 1 ---\nformat = java\nresolution = microseconds\n 1 1 @ 0x3\n 0x3 f\n",
                           "--- heapz 1 ---\nformat = java\n"}) {
    const auto profile = DecodePprof(text, "java.contention");
    EXPECT_THAT(std::string(profile.status().message()), HasSubstr("java.contention: a Java profile"));
  }
}

// go tool pprof reads the same of the same text, to the last digit.
TEST(TextProfile, AgreesWithGo) {
  testing::Folder folder;
  const std::string samples =
      "2: 1024 [6: 3072] @ 0x400100 0x400200\n1: 700 [3: 1536] @ 0x400200\n0: 0 [7: 99999] @ 0x400300\n"
      "131: 8384001 [131: 8384001] @ 0x7f0000000300 0x400100\n-3: -64 [1: 8] @ 0x400400\n3: 0 [3: 0] @ 0x400500\n";
  for (const std::string heading :
       {"heap profile: 3: 1536 [9: 4608] @ heap_v2/524288\n", "heap profile: 3: 1536 [9: 4608] @ heapprofile\n",
        "heap profile: 3: 1536 [9: 4608] @ heap/4096\n"}) {
    const std::string text = folder.Write("prof.heap", heading + samples + "\n" + kMaps);
    const auto ours = ReadPprofFile(text);
    ASSERT_TRUE(ours.ok()) << ours.status();
    const std::string raw = testing::GoPprof("-raw", text).output;
    static const std::regex row(R"((-?\d+) +(-?\d+) +(-?\d+) +(-?\d+): .*\n +bytes:\[(-?\d+)\])");
    size_t sample = 0;
    for (std::sregex_iterator at(raw.begin(), raw.end(), row), end; at != end; ++at, ++sample) {
      ASSERT_LT(sample, ours->samples.size());
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(ours->ValuesOf(sample)[i], std::stoll((*at)[i + 1])) << heading << raw;
      EXPECT_EQ(ours->LabelsOf(ours->samples[sample])[0].number, std::stoll((*at)[5])) << heading << sample;
    }
    EXPECT_EQ(sample, 6u) << raw;
  }
  const std::string waits =
      folder.Write("app.contention", std::string("--- contention:\ncycles/second = 3201000000\nsampling period = 7\n"
                                                 "2698 35 @ 0x400100 0x400200\n1 1 @ 0x400300\n--- Memory map: ---\n") +
                                         kMaps);
  const auto ours = ReadPprofFile(waits);
  ASSERT_TRUE(ours.ok()) << ours.status();
  const std::string raw = testing::GoPprof("-raw", waits).output;
  EXPECT_THAT(raw,
              HasSubstr(std::to_string(ours->ValuesOf(0)[0]) + "       " + std::to_string(ours->ValuesOf(0)[1]) + ":"));
  EXPECT_THAT(raw, HasSubstr(" " + std::to_string(ours->ValuesOf(1)[1]) + ":"));
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
