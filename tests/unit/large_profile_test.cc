// A profile of 1,000,000 samples and 100,000 locations, stacks of 30 frames that are all different: every view and every
// export of the tool as it ships takes under 2 s of processor time and 1 GB; a comparison of two such profiles, too.
// (Callgrind's text takes longer, because its size is the number of different calls.) Commands that read many files, or write
// a profile or page, have their own bounds. Where time is not measured, a quarter of the samples must do with a quarter of
// the memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "tests/unit/pprof_fixture.h"

namespace holdfast {
namespace {

using testing::Folder;

// By scripts/bench-views.
const bool kIsMeasured = getenv("HOLDFAST_BOUNDS_FACTOR") != nullptr;
const uint32_t kSamples = kIsMeasured ? 1'000'000 : 250'000;
const double kMegabytes = kIsMeasured ? 1000 : 250;

Profile LargeProfile(unsigned seed, uint32_t samples) {
  constexpr uint32_t kLocations = 100'000, kFunctions = 20'000, kDepth = 30;
  Profile p;
  const auto text = [&](std::string_view t) { return p.strings.Intern(t); };
  for (const char* type : {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}) {
    p.sample_types.push_back({text(type), text(std::string_view(type).ends_with("objects") ? "count" : "bytes")});
  }
  p.default_sample_type = text("inuse_space");
  p.period_type = {text("space"), text("bytes")};
  p.period = 524288;
  p.AddComment("kind: heap");
  p.mappings.push_back({.start = 0x400000,
                        .limit = 0x40000000,
                        .offset = 0,
                        .file = text("/usr/bin/app"),
                        .build_id = text("b1d"),
                        .has_functions = true});
  for (uint32_t i = 0; i < kFunctions; ++i) {
    p.functions.push_back(
        {.name = text("app::part" + std::to_string(i % 97) + "::function" + std::to_string(i) + "(int)"),
         .filename = text("/src/app/part" + std::to_string(i % 97) + ".cc")});
  }
  for (uint32_t i = 0; i < kLocations; ++i) {
    Profile::Location location{.address = 0x400000 + i * 16, .mapping = 0};
    const Profile::Line line{.function = i % kFunctions, .line = i % 500 + 1};
    p.SetLines(&location, {&line, 1});
    p.locations.push_back(location);
  }
  std::mt19937 random(seed);
  std::vector<uint32_t> frames(kDepth);
  for (uint32_t i = 0; i < samples; ++i) {
    uint64_t state = 1;
    for (uint32_t depth = 0; depth < kDepth; ++depth) {
      state = state * 6364136223846793005 + (random() & 3) + 1;  // four callees each
      frames[kDepth - 1 - depth] = static_cast<uint32_t>((state >> 33) % kLocations);
    }
    const int64_t objects = random() % 100 + 1, bytes = objects * static_cast<int64_t>(random() % 4096);
    const std::array<int64_t, 4> values = {objects * 3, bytes * 3, objects, bytes};
    const Profile::Label label{.key = text("bytes"), .number = 4096, .unit = text("bytes")};
    p.AddSample(frames, values, {&label, 1});
  }
  return p;
}

struct Cost {
  int status;
  double seconds, megabytes;
};
Cost CostOf(std::vector<std::string> arguments) {
  std::vector<char*> argv = {const_cast<char*>(HOLDFAST_TOOL)};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = vfork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return {WEXITSTATUS(status), seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<double>(usage.ru_maxrss) / 1024};
}

void Expect(const std::vector<std::string>& command, double seconds) {
  std::string shown;
  for (const std::string& word : command) shown += word.starts_with('/') ? " FILE" : " " + word;
  const Cost cost = CostOf(command);
  EXPECT_EQ(cost.status, 0) << shown;
  // Other tests run at the same time: time is measured on a quiet machine, by scripts/bench-views.
  if (const char* factor = getenv("HOLDFAST_BOUNDS_FACTOR"))
    EXPECT_LT(cost.seconds, seconds * std::stod(factor)) << shown;
  EXPECT_LT(cost.megabytes, kMegabytes) << shown;
  printf("holdfast%s: %.2f s, %.0f MB\n", shown.c_str(), cost.seconds, cost.megabytes);
}

TEST(LargeProfile, EveryViewIsSmall) {
  Folder folder;
  const std::string file = folder.Write("large.pb.gz", EncodePprof(LargeProfile(1, kSamples)));
  const std::string other = folder.Write("other.pb.gz", EncodePprof(LargeProfile(2, kSamples)));
  const std::vector<std::vector<std::string>> views = {
      {"top", file},
      {"top", "--error", "--focus", "function1", "--fold", "system", file},
      {"tree", file},
      {"callers", file},
      {"callers", "--of", "function17", file},
      {"peek", "function123", file},
      {"list", "function123", file},
      {"graph", file},
      {"tree", "--by", "package", file},
      {"top", "--by", "bytes", file},
      {"check", "--max", "inuse_space:function123=900GB", file},
      {"info", file},
      {"diff", file, other},
      {"diff", "--normalize", "--cum", "--hide", "function1", file, file},
      {"export", "--to", "folded", file},
      {"export", "--to", "speedscope", file},
      {"export", "--to", "callgrind", file},
      {"export", "--to", "csv", file},
      {"export", "--to", "heap", file},
  };
  for (const auto& view : views) {
    // Stacks of unlike paths make 19 million different calls, each of them three lines of callgrind's text.
    Expect(view, view.size() > 2 && view[2] == "callgrind" ? 6 : 2);
  }
}

// As many samples in all, in five snapshots of one process.
TEST(LargeProfile, CommandsOfManyFilesAreSmall) {
  Folder folder;
  std::vector<std::string> files;
  for (int hour = 1; hour <= 5; ++hour) {
    Profile profile = LargeProfile(1, kSamples / 5);
    profile.AddComment("process: host/1/42/1/1");
    profile.time_nanos = hour * 3'600'000'000'000;
    files.push_back(folder.Write(std::to_string(hour) + ".heap.pb.gz", EncodePprof(profile)));
  }
  const auto with_all = [&](std::vector<std::string> command) {
    command.insert(command.end(), files.begin(), files.end());
    return command;
  };
  Expect(with_all({"leaks"}), 2.5);
  Expect(with_all({"info"}), 2);
  Expect(with_all({"merge", "--difference"}), 4);
  Expect({"html", "-o", folder.File("report.html"), files[4]}, 6);  // four million nodes
}

}  // namespace
}  // namespace holdfast
