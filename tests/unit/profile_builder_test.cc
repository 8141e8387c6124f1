#include "report/builder/profile_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "report/builder/written_locks.h"
#include "report/builder/written_threads.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMain = 0x555555554000, kLib = 0x7ffff7000000;

// A process with a main program and one library, and no rows yet.
TableSnapshot Process() {
  TableSnapshot s = {};
  s.process = {.host = "box",
               .program = "app",
               .executable = "/usr/bin/app",
               .command_line = "app -v",
               .out = "/tmp",
               .pid = 4242,
               .parent_pid = 1,
               .uid = 1000,
               .pid_ns = 4026531836,
               .start_ticks = 777,
               .image = 0xabc,
               .stack_end = 0,
               .entry = kMain + 0x1080,
               .forked = false,
               .start_wall_ns = 1'700'000'000'000'000'000,
               .start_monotonic_ns = 5};
  s.wall_ns = s.process.start_wall_ns + 12'500'000'000;
  s.elapsed_ns = 12'500'000'000;
  s.heap_intervals = {{s.process.start_wall_ns, 524288}};
  s.lock_intervals = {{s.process.start_wall_ns, 10000}};
  s.table_bytes = 262144;
  s.modules.push_back({.path = "/usr/lib/libx.so.1",
                       .build_id = "aabb",
                       .start = kLib,
                       .end = kLib + 0x20000,
                       .bias = kLib,
                       .tag = 0,
                       .unloaded = false,
                       .segments = {{kLib + 0x1000, kLib + 0x9000, 0x1000}}});
  s.modules.push_back({.path = "/usr/bin/app",
                       .build_id = "0011",
                       .start = kMain,
                       .end = kMain + 0x5000,
                       .bias = kMain,
                       .tag = 0,
                       .unloaded = false,
                       .segments = {{kMain + 0x1000, kMain + 0x3000, 0x1000}}});
  return s;
}

uint32_t AddStack(TableSnapshot* s, std::vector<TaggedPc> frames) {
  s->stacks.push_back({.frames = std::move(frames), .truncated = false, .overflow = false, .missing = false});
  return static_cast<uint32_t>(s->stacks.size()) - 1;
}

struct Sums {
  double objects, space, free_objects = 0, free_space = 0, variance = 0, space_variance = 0, free_variance = 0,
                         free_space_variance = 0;
};
void AddHeapRow(TableSnapshot* s, uint32_t stack, uint64_t class_bytes, Sums v) {
  s->rows.push_back({.stack = stack,
                     .profile = ProfileKind::kHeap,
                     .wait = WaitKind::kNone,
                     .class_bytes = class_bytes,
                     .sums = {v.objects, v.space, v.free_objects, v.free_space, v.variance, v.space_variance,
                              v.free_variance, v.free_space_variance}});
}
void AddLockRow(TableSnapshot* s, uint32_t stack, ProfileKind kind, WaitKind wait, double contentions, double delay) {
  s->rows.push_back({.stack = stack,
                     .profile = kind,
                     .wait = wait,
                     .class_bytes = 0,
                     .sums = {contentions, delay, 0, 100, 50, 1, 0, 0}});
}

std::vector<std::string> CommentsOf(const Profile& p) {
  std::vector<std::string> comments;
  for (const StringId comment : p.comments) comments.emplace_back(p.strings[comment]);
  return comments;
}
std::vector<uint64_t> AddressesOf(const Profile& p, size_t sample) {
  std::vector<uint64_t> addresses;
  for (const uint32_t frame : p.FramesOf(p.samples[sample])) addresses.push_back(p.locations[frame].address);
  return addresses;
}
std::string FunctionAt(const Profile& p, size_t sample, size_t frame) {
  const auto& location = p.locations[p.FramesOf(p.samples[sample])[frame]];
  return std::string(p.strings[p.functions[p.LinesOf(location)[0].function].name]);
}
std::vector<int64_t> ValuesOf(const Profile& p, size_t sample) {
  const auto values = p.ValuesOf(sample);
  return {values.begin(), values.end()};
}
std::vector<std::string> TypesOf(const Profile& p) {
  std::vector<std::string> types;
  for (const auto& type : p.sample_types) {
    types.push_back(std::string(p.strings[type.type]) + "/" + std::string(p.strings[type.unit]));
  }
  return types;
}

TEST(HeapProfile, HasGosTypesInGosOrder) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 104, {.objects = 1, .space = 100});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_THAT(TypesOf(p),
              ElementsAre("alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"));
  EXPECT_EQ(p.strings[p.default_sample_type], "inuse_space");
  EXPECT_EQ(p.strings[p.period_type.type], "space");
  EXPECT_EQ(p.strings[p.period_type.unit], "bytes");
  EXPECT_EQ(p.period, 524288);
  EXPECT_EQ(p.time_nanos, s.wall_ns);
  EXPECT_EQ(p.duration_nanos, 0);
}

TEST(ThreadsProfile, EndedThreadsAreNotAlive) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  s.rows.push_back(
      {.stack = stack, .profile = ProfileKind::kThreads, .wait = WaitKind::kNone, .class_bytes = 0, .sums = {9, 4}});
  for (uint32_t id = 1; id <= 5; ++id) s.live_threads.push_back({.id = id, .row = 0, .when_ns = 1});
  ProcessState state(s);
  state.thread_is_gone = {true, true, false, false, false};
  const Profile p = BuildProfile(state, ProfileKind::kThreads);
  EXPECT_THAT(TypesOf(p), ElementsAre("created/count", "alive/count"));
  EXPECT_EQ(p.strings[p.default_sample_type], "alive");
  EXPECT_THAT(ValuesOf(p, 0), ElementsAre(9, 3));
}

TEST(ThreadTimesRecord, ManyThreadsBecomeSumsOfLikeNames) {
  ThreadTimes times;
  constexpr uint32_t kThreads = 5000;
  double lived_ns = 0;
  for (uint32_t i = 0; i < kThreads; ++i) {
    times.names.push_back((i % 2 == 0 ? "worker-" : "io-") + std::to_string(i));
    ThreadTime one;
    one.name = one.id = i;
    one.lived_ns = one.ns[static_cast<int>(ThreadDoes::kCpu)] = 1000 + i;
    lived_ns += one.lived_ns;
    times.threads.push_back(one);
  }
  Profile profile;
  AddThreadTimes(times, &profile);
  const std::vector<record::ThreadTime>& written = profile.records().thread_times->thread;
  EXPECT_LE(written.size(), 1024u);
  uint64_t threads = 0;
  int64_t lived = 0, cpu = 0;
  std::set<std::string> sums;
  for (const record::ThreadTime& one : written) {
    threads += one.threads;
    lived += one.lived_ns;
    cpu += one.cpu_ns;
    if (one.tid == 0 && one.threads > 1) sums.insert(one.name);
  }
  EXPECT_EQ(threads, kThreads);
  EXPECT_EQ(lived, static_cast<int64_t>(lived_ns));
  EXPECT_EQ(cpu, lived);
  EXPECT_EQ(sums, (std::set<std::string>{"io-*", "worker-*"}));
  EXPECT_EQ(written[0].name, "io-4999") << "the longest life";
}

TEST(ExceptionsProfile, AreKeptApartByTypeAndRethrow) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  s.thrown_types = {{1, "St13runtime_error"}, {2, "*N3app7RefusedE"}, {3, "no name"}};
  const auto add = [&](uint8_t mark, uint16_t number, double count) {
    s.rows.push_back({.stack = stack,
                      .profile = ProfileKind::kExceptions,
                      .wait = WaitKind::kNone,
                      .class_bytes = 0,
                      .mark = mark,
                      .number = number,
                      .sums = {count, 4}});
  };
  add(0, 1, 5);
  add(kRethrown, 2, 6);
  add(0, 3, 7);
  add(kRust, 0, 8);
  add(kForeign, 0, 9);
  add(0, kTypeOverflow, 10);
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kExceptions);
  std::vector<std::string> found;
  for (size_t i = 0; i < p.samples.size(); ++i) {
    std::string text = std::to_string(ValuesOf(p, i)[0]);
    for (const Profile::Label& label : p.LabelsOf(p.samples[i]))
      text += " " + std::string(p.strings[label.key]) + "=" + std::string(p.strings[label.text]);
    found.push_back(text);
  }
  EXPECT_THAT(found, ElementsAre("5 type=std::runtime_error", "6 type=app::Refused rethrow=yes", "7 type=no name",
                                 "8 type=rust panic", "9 type=foreign", "10 type=[overflow]"));
  EXPECT_THAT(CommentsOf(p), ::testing::Contains("total exceptions: 45 ± 10"));
}

TEST(HeapProfile, ValuesAreRoundedToNearestAndOnlyOnce) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 524288,
             {.objects = 1.58, .space = 829408.4, .free_objects = 0.2, .free_space = 100.7});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_THAT(ValuesOf(p, 0), ElementsAre(2, 829408, 1, 829308));  // in use: 1.38 and 829307.7
}

TEST(HeapProfile, InUseIsNeverNegativeAndNeverAboveWhatWasAllocated) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, stack, 16,
             {.objects = 2, .space = 32, .free_objects = 3, .free_space = 48});  // read between two counters
  AddHeapRow(&s, stack, 32, {.objects = 2, .space = 64, .free_objects = -1, .free_space = -5});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_THAT(ValuesOf(p, 0), ElementsAre(2, 32, 0, 0));
  EXPECT_THAT(ValuesOf(p, 1), ElementsAre(2, 64, 2, 64));
}

TEST(HeapProfile, ABlockOfSizeZeroIsOneObjectOfNoBytes) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 0, {.objects = 1, .space = 0});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_THAT(ValuesOf(p, 0), ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(p.LabelsOf(p.samples[0])[0].number, 0);
}

TEST(HeapProfile, EachSizeClassIsASampleWithItsBytesLabel) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, stack, 104, {.objects = 1, .space = 100});
  AddHeapRow(&s, stack, 4096, {.objects = 1, .space = 4000});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.samples.size(), 2u);
  for (const auto& [sample, bytes] : {std::pair(0, 104), std::pair(1, 4096)}) {
    const auto labels = p.LabelsOf(p.samples[sample]);
    ASSERT_EQ(labels.size(), 1u);
    EXPECT_EQ(p.strings[labels[0].key], "bytes");
    EXPECT_EQ(p.strings[labels[0].unit], "bytes");
    EXPECT_EQ(labels[0].text, 0u);
    EXPECT_EQ(labels[0].number, bytes);
  }
}

TEST(HeapProfile, EqualStacksAndLabelsAreOneSample) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500, kMain + 0x1600}), 104, {.objects = 1.3, .space = 100});
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500, kMain + 0x1600}), 104, {.objects = 1.4, .space = 100});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.samples.size(), 1u);
  EXPECT_THAT(ValuesOf(p, 0), ElementsAre(3, 200, 3, 200));  // 2.7 rounded once
}

TEST(HeapProfile, StacksOfDifferentLabelsAreDifferentSamples) {
  TableSnapshot s = Process();
  s.label_sets = {{}, {{"bytes", "mine"}, {"tenant", "acme"}}};
  for (const uint32_t labels : {0u, 1u, 1u}) {
    const uint32_t stack = AddStack(&s, {kMain + 0x1010});
    s.stacks[stack].labels = labels;
    AddHeapRow(&s, stack, 64, {.objects = 1, .space = 60});
  }
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.samples.size(), 2u);
  EXPECT_EQ(p.LabelsOf(p.samples[0]).size(), 1u);
  const auto labels = p.LabelsOf(p.samples[1]);
  ASSERT_EQ(labels.size(), 3u);
  EXPECT_EQ(ValuesOf(p, 1)[1], 120);
  EXPECT_EQ(p.strings[labels[1].key], "label_bytes");
  EXPECT_EQ(p.strings[labels[1].text], "mine");
  EXPECT_EQ(p.strings[labels[2].key], "tenant");
  EXPECT_EQ(p.strings[labels[2].text], "acme");
}

TEST(HeapProfile, RowsOfZerosAndOfOtherKindsAreLeftOut) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, stack, 8, {.objects = 0, .space = 0});
  AddLockRow(&s, stack, ProfileKind::kBlock, WaitKind::kMutex, 1, 1000);
  EXPECT_TRUE(BuildProfile(ProcessState(s), ProfileKind::kHeap).samples.empty());
  EXPECT_TRUE(BuildProfile(ProcessState(s), ProfileKind::kMutex).samples.empty());
  EXPECT_EQ(BuildProfile(ProcessState(s), ProfileKind::kBlock).samples.size(), 1u);
}

TEST(Addresses, AreReturnAddressesMinusOneLeafFirst) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kLib + 0x1234, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_THAT(AddressesOf(p, 0), ElementsAre(kLib + 0x1233, kMain + 0x14ff));
}

TEST(Addresses, TheReturnAddressBehindTheLastInstructionBelongsToItsSegment) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kMain + 0x3000}), 8, {.objects = 1, .space = 8});  // a noreturn call ends the segment
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_EQ(p.locations[0].mapping, 0u);
}

TEST(Mappings, AreTheExecutableSegmentsMainProgramFirst) {
  TableSnapshot s = Process();
  s.modules[0].segments.push_back({kLib + 0xa000, kLib + 0xb000, 0xa000});
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.mappings.size(), 3u);
  EXPECT_EQ(p.strings[p.mappings[0].file], "/usr/bin/app");
  EXPECT_EQ(p.mappings[0].start, kMain + 0x1000);
  EXPECT_EQ(p.mappings[0].limit, kMain + 0x3000);
  EXPECT_EQ(p.mappings[0].offset, 0x1000u);
  EXPECT_EQ(p.strings[p.mappings[0].build_id], "0011");
  EXPECT_FALSE(p.mappings[0].has_functions);
  EXPECT_EQ(p.strings[p.mappings[1].file], "/usr/lib/libx.so.1");
  EXPECT_EQ(p.mappings[2].offset, 0xa000u);
}

TEST(Mappings, DeletedFilesKeepTheirPath) {
  TableSnapshot s = Process();
  s.modules[1].path = "/usr/bin/app (deleted)";
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_EQ(p.strings[p.mappings[0].file], "/usr/bin/app");
}

TEST(Mappings, AModuleLoadedWhereAnotherHadBeenHasAddressesOfItsOwn) {
  TableSnapshot s = Process();
  s.modules[0].unloaded = true;
  ModuleInfo later = s.modules[0];
  later.path = "/usr/lib/liby.so.1";
  later.tag = 1;
  later.unloaded = false;
  s.modules.push_back(later);
  const uint64_t tag = uint64_t{1} << kPcTagShift;
  AddHeapRow(&s, AddStack(&s, {kLib + 0x2000, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  AddHeapRow(&s, AddStack(&s, {(kLib + 0x2000) | tag, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.samples.size(), 2u);
  const auto& before = p.locations[p.FramesOf(p.samples[0])[0]];
  const auto& after = p.locations[p.FramesOf(p.samples[1])[0]];
  EXPECT_EQ(after.address, before.address + tag);
  EXPECT_EQ(p.strings[p.mappings[before.mapping].file], "/usr/lib/libx.so.1");
  EXPECT_EQ(p.strings[p.mappings[after.mapping].file], "/usr/lib/liby.so.1");
  EXPECT_EQ(p.mappings[after.mapping].start, kLib + 0x1000 + tag);
  // The same ELF address, whatever the tag.
  EXPECT_EQ(before.address - p.mappings[before.mapping].bias, 0x1fffu);
  EXPECT_EQ(after.address - p.mappings[after.mapping].bias, 0x1fffu);
}

// A JIT compiler's code where a library was before, and some where none ever was.
TEST(Mappings, CodeOfNoModuleIsNotThatOfOneThatLayThere) {
  TableSnapshot s = Process();
  s.modules[0].unloaded = true;
  const uint64_t outside = uint64_t{kNoModuleTag} << kPcTagShift;
  AddHeapRow(&s, AddStack(&s, {kLib + 0x2000, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  AddHeapRow(&s, AddStack(&s, {(kLib + 0x2000) | outside, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  AddHeapRow(&s, AddStack(&s, {0x7e0000001000 | outside, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.samples.size(), 3u);
  const auto leaf = [&](size_t sample) { return p.locations[p.FramesOf(p.samples[sample])[0]]; };
  EXPECT_EQ(p.strings[p.mappings[leaf(0).mapping].file], "/usr/lib/libx.so.1");
  EXPECT_EQ(leaf(1).mapping, Profile::kNone);
  EXPECT_EQ(leaf(1).address, leaf(0).address | outside) << "an address of its own";
  EXPECT_EQ(leaf(2).mapping, Profile::kNone);
  EXPECT_EQ(leaf(2).address, 0x7e0000000fffu) << "as perf and the JIT know it";
}

TEST(Mappings, AnUnloadedModuleStaysWhileAStackNamesIt) {
  TableSnapshot s = Process();
  s.modules[0].unloaded = true;
  const uint32_t app = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, app, 8, {.objects = 1, .space = 8});
  EXPECT_EQ(BuildProfile(ProcessState(s), ProfileKind::kHeap).mappings.size(), 1u);
  AddHeapRow(&s, AddStack(&s, {kLib + 0x2000}), 8, {.objects = 1, .space = 8});
  EXPECT_EQ(BuildProfile(ProcessState(s), ProfileKind::kHeap).mappings.size(), 2u);
}

TEST(Mappings, TwoModulesWithOneTagGiveNoNamesRatherThanWrongOnes) {
  TableSnapshot s = Process();
  s.modules[0].unloaded = true;
  ModuleInfo later = s.modules[0];  // the 257th at this address: its tag is 0 again
  later.path = "/usr/lib/liby.so.1";
  later.unloaded = false;
  s.modules.push_back(later);
  AddHeapRow(&s, AddStack(&s, {kLib + 0x2000}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_EQ(p.locations[0].mapping, Profile::kNone);
}

TEST(SyntheticFrames, ReplaceStacksThatWereLost) {
  TableSnapshot s = Process();
  s.stacks.push_back({.frames = {}, .truncated = false, .overflow = true, .missing = false});
  s.stacks.push_back({.frames = {}, .truncated = false, .overflow = false, .missing = true});
  s.stacks.push_back({.frames = {kMain + 0x1500}, .truncated = true, .overflow = false, .missing = false});
  for (uint32_t i = 0; i < 3; ++i) AddHeapRow(&s, i, 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  ASSERT_EQ(p.samples.size(), 3u);
  EXPECT_EQ(FunctionAt(p, 0, 0), "[overflow]");
  EXPECT_TRUE(p.LabelsOf(p.samples[0]).empty());  // all sizes meet there
  EXPECT_EQ(FunctionAt(p, 1, 0), "[no stack]");
  EXPECT_EQ(p.FramesOf(p.samples[2]).size(), 2u);
  EXPECT_EQ(FunctionAt(p, 2, 1), "[truncated]");  // the root: self of the leaf is as it was
  std::set<uint64_t> addresses;
  for (const auto& location : p.locations) {
    EXPECT_NE(location.address, 0u);
    EXPECT_TRUE(addresses.insert(location.address).second);
  }
}

TEST(SyntheticFrames, AddressesWhereNoCodeIsEndTheStack) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500, 0, kMain + 0x1600}), 8, {.objects = 1, .space = 8});
  AddHeapRow(&s, AddStack(&s, {1}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_EQ(p.FramesOf(p.samples[0]).size(), 2u);
  EXPECT_EQ(FunctionAt(p, 0, 1), "[truncated]");
  EXPECT_EQ(FunctionAt(p, 1, 0), "[no stack]");
}

TEST(LockProfiles, HaveTheirTypesPeriodAndLabel) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddLockRow(&s, stack, ProfileKind::kMutex, WaitKind::kMutex, 2.4, 1000.6);
  AddLockRow(&s, stack, ProfileKind::kBlock, WaitKind::kRwlockRead, 3, 500);
  AddLockRow(&s, stack, ProfileKind::kBlock, WaitKind::kCondition, 4, 600);
  const Profile mutex = BuildProfile(ProcessState(s), ProfileKind::kMutex),
                block = BuildProfile(ProcessState(s), ProfileKind::kBlock);
  for (const Profile* p : {&mutex, &block}) {
    EXPECT_THAT(TypesOf(*p), ElementsAre("contentions/count", "delay/nanoseconds"));
    EXPECT_EQ(p->strings[p->default_sample_type], "delay");
    EXPECT_EQ(p->strings[p->period_type.type], "contentions");
    EXPECT_EQ(p->strings[p->period_type.unit], "count");
    EXPECT_EQ(p->period, 1);
  }
  EXPECT_THAT(ValuesOf(mutex, 0), ElementsAre(2, 1001));
  EXPECT_EQ(mutex.strings[mutex.LabelsOf(mutex.samples[0])[0].key], "lock");
  ASSERT_EQ(block.samples.size(), 2u);  // one stack, two kinds of wait
  EXPECT_EQ(block.strings[block.LabelsOf(block.samples[0])[0].key], "wait");
  EXPECT_EQ(block.strings[block.LabelsOf(block.samples[0])[0].text], "rwlock-read");
  EXPECT_EQ(block.strings[block.LabelsOf(block.samples[1])[0].text], "condition");
}

// Of a hundred conditions that idle threads wait for, and few or many mutexes.
TEST(LockRecords, ConditionsTakeNoLocksPlace) {
  for (const size_t mutexes : {10, 100}) {
    TableSnapshot s = Process();
    for (size_t i = 0; i < 100 + mutexes; ++i) {
      LockInfo lock{};
      lock.address = i;
      lock.kind = i < 100 ? WaitKind::kCondition : WaitKind::kMutex;
      lock.waits = 1;
      lock.wait_ns = 1'000'000 - i;
      s.locks_known.push_back(lock);
    }
    size_t found = 0;
    const ProcessState state(s);
    const std::vector<const LockInfo*> written = LocksToWrite(state);
    for (const LockInfo* lock : written) found += lock->kind == WaitKind::kMutex;
    EXPECT_EQ(written.size(), kMaxLocksWritten);
    EXPECT_EQ(found, mutexes == 10 ? 10 : kMaxLocksWritten - kMaxUnheldWritten);
    EXPECT_EQ(written[0]->address, 0u) << "the longest delay first";
  }
}

TEST(LockRecords, ArraysOfOneNameInTwoModulesAreTwoSums) {
  TableSnapshot table = Process();
  for (uint64_t i = 0; i < kMaxLocksWritten + 20; ++i) {
    LockInfo lock{};
    lock.address = 0x1000 + i * 64;
    lock.kind = WaitKind::kMutex;
    lock.waits = 1;
    lock.wait_ns = 1000 - i;
    table.locks_known.push_back(lock);
  }
  ProcessState state(std::move(table));
  for (uint64_t i = 0; i < kMaxLocksWritten + 20; ++i)
    state.waits.lock_classes.push_back({"locks[*]", i % 2 == 0 ? 0x1000u : 0x9000u});
  Profile profile;
  AddLockRecords(
      state, false, [](uint32_t) { return std::vector<uint32_t>(); }, &profile);
  std::vector<int32_t> sums;
  for (const record::Lock& lock : profile.records().locks->lock) {
    if (lock.locks > 1) sums.push_back(lock.locks);
  }
  EXPECT_EQ(sums, std::vector<int32_t>({10, 10}));
}

TEST(Comments, NameTheProcessAndTheSampling) {
  TableSnapshot s = Process();
  s.process.command_line = "app\n-v\x1b[31m";
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const auto comments = CommentsOf(BuildProfile(ProcessState(s), ProfileKind::kHeap));
  EXPECT_THAT(comments, Contains("kind: heap"));
  EXPECT_THAT(comments, Contains("process: box/4026531836/4242/777/0000000000000abc"));
  EXPECT_THAT(comments, Contains("program: app"));
  EXPECT_THAT(comments, Contains("command: app -v [31m"));
  EXPECT_THAT(comments, Contains("version: holdfast 0.1.0"));
  EXPECT_THAT(comments, Contains("started: 2023-11-14T22:13:20.000Z"));
  EXPECT_THAT(comments, Contains("elapsed: 12.500s"));
  EXPECT_THAT(comments, Contains("interval: 524288 bytes"));
  EXPECT_THAT(comments, Contains("losses: none"));
  EXPECT_THAT(comments, Contains("own table_bytes: 262144"));
}

TEST(Comments, ListEachIntervalWithItsTimeAfterAChange) {
  TableSnapshot s = Process();
  s.heap_intervals.push_back({s.process.start_wall_ns + 1'000'000'000, 65536});
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_EQ(p.period, 65536);
  EXPECT_THAT(CommentsOf(p), Contains("interval: 65536 bytes"));
  EXPECT_THAT(CommentsOf(p), Contains("interval since 2023-11-14T22:13:20.000Z: 524288 bytes"));
  EXPECT_THAT(CommentsOf(p), Contains("interval since 2023-11-14T22:13:21.000Z: 65536 bytes"));
}

TEST(Comments, AfterSamplingWasTurnedOffThePeriodIsTheLastOneInForce) {
  TableSnapshot s = Process();
  s.heap_intervals.push_back({s.process.start_wall_ns + 1'000'000'000, 0});
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
  EXPECT_EQ(p.period, 524288);
  EXPECT_THAT(CommentsOf(p), Contains("interval: 0 bytes"));
}

TEST(Comments, NameAsExactOnlyWhatIs) {
  TableSnapshot s = Process();
  s.totals.alloc_calls = 10;
  s.totals.alloc_bytes = 1000;
  s.totals.free_calls = 4;
  s.totals.free_bytes = 400;
  s.totals.sample_ns = 99;
  s.locks[static_cast<int>(WaitKind::kMutex)] = {
      .waits = 7, .acquired = 5, .wait_ns = 70, .holds = 4, .hold_ns = 60, .gap_ns = 10};
  s.locks[static_cast<int>(WaitKind::kSemaphore)] = {
      .waits = 1, .acquired = 1, .wait_ns = 5, .holds = 0, .hold_ns = 0, .gap_ns = 0};
  s.wait_samples = 3;
  s.hold_samples = 2;
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, stack, 8, {.objects = 1, .space = 8});
  AddLockRow(&s, stack, ProfileKind::kBlock, WaitKind::kMutex, 1, 10);
  auto comments = CommentsOf(BuildProfile(ProcessState(s), ProfileKind::kHeap));
  EXPECT_THAT(comments, Contains("sampled_alloc_calls: 10"));
  EXPECT_THAT(comments, Contains("alloc_bytes: 1000"));
  EXPECT_THAT(comments, Contains("exact: alloc_bytes, but for what each thread allocated since its last sample"));
  EXPECT_THAT(comments, Not(Contains("alloc_calls: 10")));
  EXPECT_THAT(comments, Contains("own time_ns: 99"));

  s.heap_intervals = {{0, 1}};
  comments = CommentsOf(BuildProfile(ProcessState(s), ProfileKind::kHeap));
  EXPECT_THAT(comments, Contains("alloc_calls: 10"));
  EXPECT_THAT(comments, Contains("free_bytes: 400"));
  EXPECT_THAT(comments, Contains("exact: alloc_calls, alloc_bytes, free_calls, free_bytes"));

  const Profile block = BuildProfile(ProcessState(s), ProfileKind::kBlock);
  comments = CommentsOf(block);
  EXPECT_THAT(comments, Contains("contentions: 8"));
  EXPECT_THAT(comments, Contains("delay_ns: 75"));
  EXPECT_THAT(comments, Contains("interval: 10000 ns"));
  EXPECT_EQ(block.records().locks->contentions, 8);
  EXPECT_EQ(block.records().locks->samples, 3u);
  const std::vector<record::LockKind> waits = {{.kind = "mutex", .contentions = 7, .acquired = 5, .delay_ns = 70},
                                               {.kind = "semaphore", .contentions = 1, .acquired = 1, .delay_ns = 5}};
  EXPECT_EQ(block.records().locks->kind, waits);

  AddLockRow(&s, stack, ProfileKind::kMutex, WaitKind::kMutex, 1, 10);
  const Profile mutex = BuildProfile(ProcessState(s), ProfileKind::kMutex);
  comments = CommentsOf(mutex);
  EXPECT_THAT(comments, Contains("contentions: 4"));
  EXPECT_THAT(comments, Contains("delay_ns: 60"));
  EXPECT_THAT(comments, Contains("gap_ns: 10"));
  EXPECT_EQ(mutex.records().locks->samples, 2u);
  const std::vector<record::LockKind> holds = {{.kind = "mutex", .contentions = 4, .delay_ns = 60, .gap_ns = 10}};
  EXPECT_EQ(mutex.records().locks->kind, holds) << "nobody holds a semaphore";
}

TEST(Course, HasWhatCameBetweenTwoMomentsForEachSample) {
  TableSnapshot s = Process();
  s.elapsed_ns = 100;
  const uint32_t one = AddStack(&s, {kMain + 0x1500}), two = AddStack(&s, {kMain + 0x1600});
  AddHeapRow(&s, one, 104, {.objects = 100, .space = 10000});
  AddHeapRow(&s, two, 104, {.objects = 5, .space = 500});
  s.rows[0].place = 7;
  s.rows[1].place = 9;
  // Blocks of 100 bytes.
  const auto row = [](uint64_t allocated, uint64_t freed, Offset place) {
    return RowSums{100 * allocated, allocated, 100 * freed, freed, place};
  };
  const std::vector<HeapMoment> earlier = {{.elapsed_ns = 20, .rows = {row(3, 0, 7)}},
                                           {.elapsed_ns = 40, .rows = {row(3, 1, 7), row(2, 0, 9), row(1, 0, 77)}},
                                           {.elapsed_ns = 140, .rows = {row(9, 0, 7)}}};
  ProcessState state(s);
  state.course = earlier;
  const Profile heap = BuildProfile(state, ProfileKind::kHeap);
  ASSERT_TRUE(heap.records().course.has_value());
  const record::Course& course = *heap.records().course;
  EXPECT_THAT(course.elapsed_ns, testing::ElementsAre(20, 40)) << "a moment after the snapshot is left out";
  const std::vector<record::SampleCourse> samples = {
      {.number = 1,
       .allocated_bytes = {300},
       .allocated_objects = {3},
       .freed_bytes = {0, 100},
       .freed_objects = {0, 1}},
      {.number = 2, .allocated_bytes = {0, 200}, .allocated_objects = {0, 2}}};
  EXPECT_EQ(course.sample, samples);
  EXPECT_FALSE(BuildProfile(state, ProfileKind::kMap).records().course.has_value());
}

// A file with a longer course would be refused by every reader.
TEST(Course, IsLeftOutWithMoreSamplesThanAReaderAccepts) {
  constexpr size_t kSamples = 100'001;
  TableSnapshot s = Process();
  s.elapsed_ns = 100;
  std::vector<HeapMoment> earlier = {{.elapsed_ns = 20, .rows = {}}};
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  for (size_t i = 0; i < kSamples; ++i) {
    AddHeapRow(&s, stack, 8 * (i + 1), {.objects = 1, .space = 8});
    s.rows[i].place = static_cast<Offset>(i + 1);
    earlier[0].rows.push_back({8, 1, 0, 0, static_cast<Offset>(i + 1)});
  }
  for (const bool is_too_long : {true, false}) {
    if (!is_too_long) earlier[0].rows.pop_back();
    ProcessState state(s);
    state.course = earlier;
    const auto read = DecodePprof(EncodePprof(BuildProfile(state, ProfileKind::kHeap)), "long");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->samples.size(), kSamples);
    EXPECT_EQ(read->records().course.has_value(), !is_too_long);
  }
}

TEST(Comments, StateThe95PercentIntervalOfEachTotal) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, stack, 104,
             {.objects = 100,
              .space = 10000,
              .free_objects = 50,
              .free_space = 5000,
              .variance = 64,
              .space_variance = 640000,
              .free_variance = 28,
              .free_space_variance = 280000});
  AddHeapRow(
      &s, stack, 208,
      {.objects = 10, .space = 2000, .free_objects = 0, .free_space = 0, .variance = 36, .space_variance = 360000});
  const auto comments = CommentsOf(BuildProfile(ProcessState(s), ProfileKind::kHeap));
  EXPECT_THAT(comments, Contains("total alloc_objects: 110 ± 20"));    // 1.96·√(64 + 36)
  EXPECT_THAT(comments, Contains("total alloc_space: 12000 ± 1960"));  // 1.96·√(640000 + 360000)
  EXPECT_THAT(comments, Contains("total inuse_objects: 60 ± 17"));     // 1.96·√(64 − 28 + 36)
  EXPECT_THAT(comments, Contains("total inuse_space: 7000 ± 1663"));   // 1.96·√(640000 − 280000 + 360000)
}

// Rows that are full, one after the other; their sum, and that of all samples, stays within what a value can be.
TEST(LockProfiles, AColumnNeverAddsUpToMoreThanAValueHolds) {
  constexpr double kFull = 0x1p59;
  TableSnapshot s = Process();
  for (const TaggedPc pc : {kMain + 0x1100, kMain + 0x1200}) {
    const uint32_t stack = AddStack(&s, {pc});
    for (int i = 0; i < 9; ++i) AddLockRow(&s, stack, ProfileKind::kBlock, WaitKind::kCondition, 1, kFull);
  }
  const Profile profile = BuildProfile(ProcessState(s), ProfileKind::kBlock);
  ASSERT_EQ(profile.samples.size(), 2u);
  EXPECT_EQ(ValuesOf(profile, 0), (std::vector<int64_t>{9, 9 * (int64_t{1} << 59)}));
  EXPECT_EQ(profile.Total(1), INT64_MAX);
  EXPECT_EQ(profile.CommentValue("lost sum-full"), "1");
}

TEST(Comments, CountLossesByCause) {
  TableSnapshot s = Process();
  s.losses[static_cast<int>(Loss::kStackTableFull)] = 312;
  s.losses[static_cast<int>(Loss::kNoSystemCalls)] = 2;
  AddHeapRow(&s, AddStack(&s, {kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const auto comments = CommentsOf(BuildProfile(ProcessState(s), ProfileKind::kHeap));
  EXPECT_THAT(comments, Contains("lost stack-table-full: 312"));
  EXPECT_THAT(comments, Contains("lost no-system-calls: 2"));
  EXPECT_THAT(comments, Not(Contains("losses: none")));
}

// The law that collectors stand on: from one snapshot to the next nothing decreases for the same stack and labels.
TEST(HeapProfile, AllocationsNeverDecreaseBetweenSnapshots) {
  TableSnapshot s = Process();
  const uint32_t stack = AddStack(&s, {kMain + 0x1500});
  AddHeapRow(&s, stack, 104, {.objects = 0, .space = 0});
  int64_t objects = 0, space = 0;
  for (int i = 1; i <= 200; ++i) {
    s.rows[0].sums[kAllocObjects] += 0.37 * (i % 3);
    s.rows[0].sums[kAllocSpace] += 33.3 * (i % 3);
    s.rows[0].sums[kFreeObjects] = s.rows[0].sums[kAllocObjects] * (i % 7) / 7;
    s.rows[0].sums[kFreeSpace] = s.rows[0].sums[kAllocSpace] * (i % 7) / 7;
    const Profile p = BuildProfile(ProcessState(s), ProfileKind::kHeap);
    if (p.samples.empty()) continue;
    const auto values = p.ValuesOf(0);
    EXPECT_GE(values[0], objects);
    EXPECT_GE(values[1], space);
    EXPECT_LE(values[2], values[0]);
    EXPECT_LE(values[3], values[1]);
    objects = values[0];
    space = values[1];
  }
  EXPECT_GT(objects, 50);
}

TEST(HeapProfile, IsReadBackFromItsFile) {
  TableSnapshot s = Process();
  AddHeapRow(&s, AddStack(&s, {kLib + 0x1234, kMain + 0x1500}), 8, {.objects = 1, .space = 8});
  const auto read = DecodePprof(EncodePprof(BuildProfile(ProcessState(s), ProfileKind::kHeap)), "built");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(ValuesOf(*read, 0), ElementsAre(1, 8, 1, 8));
}

}  // namespace
}  // namespace holdfast
