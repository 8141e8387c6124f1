// HOLDFAST_* variables as the preloaded library reads them.
#include "sampler/contract/options.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace holdfast {
namespace {

Options Read(std::vector<const char*> environment) {
  environment.push_back(nullptr);
  Options options;
  ReadOptions(environment.data(), &options);
  return options;
}

TEST(Options, DefaultsEqualTheContracts) {
  const Options options = Read({"PATH=/bin"});
  EXPECT_EQ(options.heap_interval, 512u << 10);
  EXPECT_EQ(options.snapshot_every_ns, 60'000'000'000u);
  EXPECT_EQ(options.keep, kKeepThinned);
  EXPECT_EQ(options.max_disk_bytes, 1u << 30);
  EXPECT_EQ(options.max_memory_bytes, 64u << 20);
  EXPECT_EQ(options.profiles, kAllKinds);
  EXPECT_EQ(options.lifetimes, Lifetimes::kUnlessShort);
  EXPECT_EQ(Read({"HOLDFAST_LIFETIMES=yes"}).lifetimes, Lifetimes::kYes);
  EXPECT_EQ(Read({"HOLDFAST_LIFETIMES=no"}).lifetimes, Lifetimes::kNo);
  EXPECT_FALSE(Read({}).resident);
  EXPECT_TRUE(Read({"HOLDFAST_RESIDENT=yes"}).resident);
  EXPECT_FALSE(Read({}).wall);
  EXPECT_TRUE(Read({"HOLDFAST_WALL=yes"}).wall);
  EXPECT_EQ(options.signal, 0);
  EXPECT_TRUE(options.children);
  EXPECT_TRUE(options.enable);
  EXPECT_TRUE(options.exporter);
  char here[1024];
  ASSERT_NE(getcwd(here, sizeof here), nullptr);
  EXPECT_STREQ(options.out, here);
}

TEST(Options, CpuTakesARateAndMayBeForced) {
  const auto read = [](const char* entry) { return Read({entry}); };
  EXPECT_EQ(read("PATH=/bin").cpu_interval_ns, 0u);
  EXPECT_EQ(read("HOLDFAST_CPU=yes").cpu_interval_ns, 10'000'000u);
  EXPECT_EQ(read("HOLDFAST_CPU=no").cpu_interval_ns, 0u);
  EXPECT_EQ(read("HOLDFAST_CPU=0").cpu_interval_ns, 0u);
  EXPECT_EQ(read("HOLDFAST_CPU=250").cpu_interval_ns, 4'000'000u);
  EXPECT_FALSE(read("HOLDFAST_CPU=250").cpu_is_forced);
  EXPECT_TRUE(read("HOLDFAST_CPU=250,force").cpu_is_forced);
  EXPECT_EQ(read("HOLDFAST_CPU=force").cpu_interval_ns, 10'000'000u);
  for (const char* bad : {"HOLDFAST_CPU=", "HOLDFAST_CPU=1001", "HOLDFAST_CPU=-1", "HOLDFAST_CPU=100Hz",
                          "HOLDFAST_CPU=yes,no", "HOLDFAST_CPU=99999999999999999999"}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(read(bad).cpu_interval_ns, 0u) << bad;
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              std::string("holdfast: ") + bad +
                  ": not yes, no, or samples a second from 1 to 1000, such as 100; the default is used.\n");
  }
}

TEST(Options, CpuTimersNeedAKernelThatDefersTheirSignals) {
  for (const char* release : {"5.9.0", "5.10.0-28-amd64", "6.1", "10.0.1"})
    EXPECT_TRUE(DefersCpuTimers(release)) << release;
  for (const char* release : {"4.18.0-553.el8.x86_64", "5.8.18", "5", "", "linux", "2.6.60"})
    EXPECT_FALSE(DefersCpuTimers(release)) << release;
}

TEST(Options, AMisspeltVariableIsNamed) {
  ::testing::internal::CaptureStderr();
  Read({"HOLDFAST_HEAP_INTERVALL=1", "HOLDFAST_OUT=/x", "HOLDFAST_TEST_FULL=1", "HOLDFAST_PORT=tcp://10.0.0.1:80",
        "HOLDFAST_AGENT_SERVICE_HOST=10.0.0.1", "HOLDFAST_PAGER=less", "HOLDFAST_OUTER=1"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "holdfast: HOLDFAST_HEAP_INTERVALL=1: no such variable, it is ignored; holdfast run --help names them.\n"
            "holdfast: HOLDFAST_OUTER=1: no such variable, it is ignored; holdfast run --help names them.\n");
  // `holdfast run` has named it, once for all its processes.
  ::testing::internal::CaptureStderr();
  Read({"HOLDFAST_HEAP_INTERVALL=1", "HOLDFAST_ROOT=1"});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(Options, ACommandIsAcceptedOnlyWithOurLibraryPreloaded) {
  EXPECT_EQ(Read({"HOLDFAST_ON_SNAPSHOT=cp"}).on_snapshot, nullptr);
  EXPECT_EQ(Read({"LD_PRELOAD=/lib/other.so", "HOLDFAST_ON_SNAPSHOT=cp"}).on_snapshot, nullptr);
  EXPECT_EQ(Read({"XLD_PRELOAD=libholdfast.so", "HOLDFAST_ON_SNAPSHOT=cp"}).on_snapshot, nullptr);
  const char* const preload = "LD_PRELOAD=/lib/other.so:/opt/lib/holdfast/libholdfast.so";
  EXPECT_STREQ(Read({"HOLDFAST_ON_SNAPSHOT=cp", preload}).on_snapshot, "HOLDFAST_ON_SNAPSHOT=cp");
  EXPECT_EQ(Read({preload, "HOLDFAST_ON_SNAPSHOT="}).on_snapshot, nullptr);
  const std::string fits = "HOLDFAST_ON_SNAPSHOT=" + std::string(kOnSnapshotBytes - 1, 'x'), too_long = fits + "x";
  EXPECT_STREQ(Read({preload, fits.c_str()}).on_snapshot, fits.c_str());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Read({preload, too_long.c_str()}).on_snapshot, nullptr);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("not a command of at most 1023 bytes"), std::string::npos);
}

TEST(Options, ConditionsForSnapshotsAreChecked) {
  EXPECT_STREQ(Read({"HOLDFAST_SNAPSHOT_WHEN=inuse>1GiB, delay>1s/min"}).snapshot_when, "inuse>1GiB, delay>1s/min");
  ::testing::internal::CaptureStderr();
  EXPECT_STREQ(Read({"HOLDFAST_SNAPSHOT_WHEN=memory>1GiB"}).snapshot_when, "");
  EXPECT_EQ(
      ::testing::internal::GetCapturedStderr(),
      "holdfast: HOLDFAST_SNAPSHOT_WHEN=memory>1GiB: not conditions such as inuse>2GiB, rss>80%limit, growth>100MiB/min, "
      "delay>10s/min, at most 8 with commas between; the default is used.\n");
}

TEST(Options, AnOutputFolderThatIsTooLongIsNotCut) {
  char here[1024];
  ASSERT_NE(getcwd(here, sizeof here), nullptr);
  const std::string fits = "HOLDFAST_OUT=/" + std::string(1022, 'x'), too_long = fits + "x";
  EXPECT_EQ(strlen(Read({fits.c_str()}).out), 1023u);
  ::testing::internal::CaptureStderr();
  EXPECT_STREQ(Read({too_long.c_str()}).out, here);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("longer than 1023 bytes; the default is used"), std::string::npos) << said;
  EXPECT_EQ(said.back(), '\n');
}

TEST(Options, EveryUnitOfSizeAndTime) {
  const std::pair<const char*, uint64_t> sizes[] = {{"7", 7},           {"7B", 7},           {"2KiB", 2048},
                                                    {"2MiB", 2 << 20},  {"3GiB", 3ul << 30}, {"2KB", 2000},
                                                    {"2MB", 2'000'000}, {"1.5KiB", 1536},    {"2GB", 2'000'000'000}};
  for (const auto& [text, bytes] : sizes) {
    uint64_t parsed = 0;
    EXPECT_TRUE(ParseSize(text, &parsed)) << text;
    EXPECT_EQ(parsed, bytes) << text;
  }
  const std::pair<const char*, uint64_t> times[] = {{"0", 0},
                                                    {"1ns", 1},
                                                    {"2us", 2000},
                                                    {"3ms", 3'000'000},
                                                    {"4s", 4'000'000'000},
                                                    {"1m", 60'000'000'000},
                                                    {"0.5h", 1'800'000'000'000}};
  for (const auto& [text, ns] : times) {
    uint64_t parsed = 1;
    EXPECT_TRUE(ParseTime(text, &parsed)) << text;
    EXPECT_EQ(parsed, ns) << text;
  }
}

TEST(Options, BadQuantitiesAreRefused) {
  uint64_t parsed = 0;
  for (const char* text : {"", "x", "-1", "1 KiB", "1kib", "1TiB", "99999999999999999999", "KiB", "1e3"}) {
    EXPECT_FALSE(ParseSize(text, &parsed)) << text;
  }
  for (const char* text : {"", "5", "1min", "-1s", "s"}) EXPECT_FALSE(ParseTime(text, &parsed)) << text;
}

TEST(Options, ABadValueIsOneLineOnStandardErrorAndTheDefault) {
  testing::internal::CaptureStderr();
  const Options options = Read({"HOLDFAST_HEAP_INTERVAL=lots"});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(options.heap_interval, kDefaultHeapInterval);
  EXPECT_EQ(said,
            "holdfast: HOLDFAST_HEAP_INTERVAL=lots: not a size (B, KiB, MiB, GiB, KB, MB, GB); the default is used.\n");
}

TEST(Options, EveryVariableIsRead) {
  const Options options = Read({"HOLDFAST_HEAP_INTERVAL=1", "HOLDFAST_LOCK_INTERVAL=5us", "HOLDFAST_SNAPSHOT_EVERY=2s",
                                "HOLDFAST_KEEP=0", "HOLDFAST_MAX_DISK=1MiB", "HOLDFAST_MAX_MEMORY=8MiB",
                                "HOLDFAST_TABLES=/run/x", "HOLDFAST_PROFILES=heap,block", "HOLDFAST_SIGNAL=SIGUSR2",
                                "HOLDFAST_CHILDREN=no", "HOLDFAST_SEED=9", "HOLDFAST_ENABLE=0", "HOLDFAST_VERBOSE=1",
                                "HOLDFAST_ROOT=77", "HOLDFAST_EXPORTER=no", "HOLDFAST_OUT=/tmp/profiles"});
  EXPECT_EQ(options.heap_interval, 1u);
  EXPECT_EQ(options.lock_interval_ns, 5000u);
  EXPECT_EQ(options.snapshot_every_ns, 2'000'000'000u);
  EXPECT_EQ(options.keep, 0u);
  EXPECT_EQ(options.max_disk_bytes, 1u << 20);
  EXPECT_EQ(options.max_memory_bytes, 8u << 20);
  EXPECT_STREQ(options.tables, "/run/x");
  EXPECT_EQ(options.profiles, 5u);
  EXPECT_EQ(options.signal, SIGUSR2);
  EXPECT_FALSE(options.children);
  EXPECT_EQ(options.seed, 9u);
  EXPECT_FALSE(options.enable);
  EXPECT_EQ(options.verbose, 1u);
  EXPECT_EQ(options.root_pid, 77);
  EXPECT_FALSE(options.exporter);
  EXPECT_STREQ(options.out, "/tmp/profiles");
}

}  // namespace
}  // namespace holdfast
