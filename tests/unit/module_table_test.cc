// Modules as they are recorded: what a reader of the table finds, and what happens when they come and go.
#include "sampler/capture/module_table.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sampler/capture/lasting_modules.h"
#include "sampler/capture/module_reading.h"
#include "sampler/capture/stack_trace.h"
#include "sampler/contract/syscalls.h"
#include "tests/unit/anonymous_table.h"
#include "tests/unit/compiled_call.h"

namespace holdfast {
namespace {

struct Recorded {
  uint16_t tag;
  bool unloaded;
  uint64_t start, end, bias;
  std::vector<ModuleSegment> segments;
  std::string build_id, path;
};

// As a reader does it: from the list's head, newest first.
std::vector<Recorded> ReadModules() {
  std::vector<Recorded> modules;
  SharedTable* now = CurrentTable();
  for (Offset at = now->header()->modules; at != 0;) {
    const auto* module = now->At<Module>(at);
    const auto* segments = reinterpret_cast<const ModuleSegment*>(module + 1);
    const char* tail = reinterpret_cast<const char*>(segments + module->segments);
    modules.push_back({module->tag,
                       module->unloaded != 0,
                       module->start,
                       module->end,
                       module->bias,
                       {segments, segments + module->segments},
                       {tail, module->build_id_bytes},
                       {tail + module->build_id_bytes, module->path_bytes}});
    at = module->next;
  }
  EXPECT_EQ(modules.size(), now->header()->module_count);
  return modules;
}

uint16_t Sight(const void* code) {
  dl_find_object found;
  EXPECT_EQ(_dl_find_object(const_cast<void*>(code), &found), 0);
  const ModuleSight sight = SightModule(found);
  EXPECT_TRUE(sight.settled);
  return sight.tag;
}

struct ModuleTable : ::testing::Test {
  ModuleTable() {
    UseAnonymousTable();
    ForgetModules();
  }
};

TEST_F(ModuleTable, TheProgramHasItsAbsolutePath) {
  Sight(reinterpret_cast<void*>(&Sight));
  const auto modules = ReadModules();
  ASSERT_EQ(modules.size(), 1u);
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  EXPECT_EQ(modules[0].path, std::string(path, static_cast<size_t>(length)));
}

TEST_F(ModuleTable, ALibraryHasWhatItsHeadersSay) {
  const auto code = reinterpret_cast<uintptr_t>(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  Sight(reinterpret_cast<void*>(code));
  const auto modules = ReadModules();
  ASSERT_EQ(modules.size(), 1u);
  Dl_info info;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(code), &info), 0);
  EXPECT_EQ(modules[0].start, reinterpret_cast<uintptr_t>(info.dli_fbase));
  EXPECT_EQ(modules[0].bias, reinterpret_cast<uintptr_t>(info.dli_fbase)) << "libc is linked at 0";
  EXPECT_NE(modules[0].path.find("libc.so.6"), std::string::npos);
  EXPECT_EQ(modules[0].build_id.size(), 20u);
  EXPECT_FALSE(modules[0].unloaded);
  ASSERT_EQ(modules[0].segments.size(), 1u);
  EXPECT_LE(modules[0].segments[0].start, code);
  EXPECT_GT(modules[0].segments[0].end, code);
  EXPECT_EQ(modules[0].segments[0].file_offset % 4096, 0u);
}

TEST_F(ModuleTable, AModuleIsRecordedOnce) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Sight(reinterpret_cast<void*>(&Sight)), 0);
  EXPECT_EQ(ReadModules().size(), 1u);
}

TEST_F(ModuleTable, ThreadsThatMeetAModuleTogetherRecordItOnce) {
  std::atomic<int> other_tags{0};  // whether it could be recorded at once or not, it is the first at its address
  for (int round = 0; round < 1000; ++round) {
    UseAnonymousTable(1 << 20);
    ForgetModules();
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        dl_find_object found;
        _dl_find_object(reinterpret_cast<void*>(&ReadModules), &found);
        ++ready;
        while (ready < 2) std::this_thread::yield();
        for (bool recorded = false; !recorded;) {
          const ModuleSight sight = SightModule(found);
          if (sight.tag != 0) ++other_tags;
          recorded = sight.settled;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(ReadModules().size(), 1u);
  }
  EXPECT_EQ(other_tags, 0);
}

TEST_F(ModuleTable, TheVdsoIsAModule) {
  dl_find_object found;
  uintptr_t vdso = 0;
  for (const auto* map = static_cast<const link_map*>(dlopen(nullptr, RTLD_LAZY)); map != nullptr; map = map->l_next) {
    if (strcmp(map->l_name, "linux-vdso.so.1") == 0) vdso = reinterpret_cast<uintptr_t>(map->l_ld);
  }
  if (vdso == 0 || _dl_find_object(reinterpret_cast<void*>(vdso), &found) != 0) GTEST_SKIP() << "no vdso here";
  Sight(reinterpret_cast<void*>(vdso));
  EXPECT_EQ(ReadModules().at(0).path, "[vdso]");
}

// ---- Libraries that come and go ----

struct Plugin {
  explicit Plugin(const char* file) : handle(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
    call = reinterpret_cast<void (*)(void (*)(void*), void*)>(dlsym(handle, "PluginCall"));
  }
  void Close() {
    BeginUnload();
    dlclose(handle);
    MarkUnloadedModules();
    EndUnload();
  }
  void* handle;
  void (*call)(void (*)(void*), void*) = nullptr;
};

[[gnu::noinline]] void CaptureCaller(void* trace) {
  StackBounds bounds{};
  CaptureStack(HOLDFAST_CALLER(), &bounds, static_cast<StackTrace*>(trace));
}

// Returns the tag of the plugin's frame, from a real capture through it.
int TagInTrace(const Plugin& plugin) {
  static StackTrace trace;
  plugin.call(CaptureCaller, &trace);
  EXPECT_FALSE(trace.truncated);
  const uintptr_t pc = trace.frames[0] & kPcMask;
  dl_find_object found;
  EXPECT_EQ(_dl_find_object(reinterpret_cast<void*>(pc), &found), 0);
  EXPECT_EQ(found.dlfo_link_map, static_cast<link_map*>(plugin.handle));
  return static_cast<int>(trace.frames[0] >> kPcTagShift);
}

TEST_F(ModuleTable, DifferentModulesAtOneAddressHaveDifferentTags) {
  Plugin one(HOLDFAST_PLUGIN_1);
  const auto* where = reinterpret_cast<void*>(one.call);
  EXPECT_EQ(TagInTrace(one), 0);
  one.Close();
  Plugin two(HOLDFAST_PLUGIN_2);
  if (reinterpret_cast<void*>(two.call) != where) {
    two.Close();
    GTEST_SKIP() << "the loader chose another address";
  }
  EXPECT_EQ(TagInTrace(two), 1);
  bool seen_one = false, seen_two = false;
  for (const Recorded& module : ReadModules()) {
    if (module.path == HOLDFAST_PLUGIN_1) {
      seen_one = true;
      EXPECT_TRUE(module.unloaded);
      EXPECT_EQ(module.tag, 0);
    } else if (module.path == HOLDFAST_PLUGIN_2) {
      seen_two = true;
      EXPECT_FALSE(module.unloaded);
      EXPECT_EQ(module.tag, 1);
    }
  }
  EXPECT_TRUE(seen_one && seen_two);
  two.Close();
  Plugin again(HOLDFAST_PLUGIN_1);
  if (reinterpret_cast<void*>(again.call) == where) {
    EXPECT_EQ(TagInTrace(again), 0) << "the same library again: its own record";
  }
  again.Close();
}

// Threads that meet a module together, which comes back to where it lay before.
TEST_F(ModuleTable, ThreadsThatMeetAModuleAgainGiveItItsOldTag) {
  Plugin plugin(HOLDFAST_PLUGIN_1);
  const auto code = reinterpret_cast<uintptr_t>(plugin.call);
  Sight(reinterpret_cast<void*>(plugin.call));
  std::atomic<int> other_tags{0};
  for (int round = 0; round < 500; ++round) {
    plugin.Close();
    plugin = Plugin(HOLDFAST_PLUGIN_1);
    if (reinterpret_cast<uintptr_t>(plugin.call) != code) {
      plugin.Close();
      GTEST_SKIP() << "the loader chose another address";
    }
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        dl_find_object found;
        _dl_find_object(reinterpret_cast<void*>(code), &found);
        ++ready;
        while (ready < 2) std::this_thread::yield();
        for (int looks = 0; looks < 20; ++looks) other_tags += SightModule(found).tag;
      });
    }
    for (auto& thread : threads) thread.join();
  }
  EXPECT_EQ(other_tags, 0);
  plugin.Close();
}

TEST_F(ModuleTable, AnUnloadThatNobodyReportedIsNoticedByWhatComesNext) {
  Plugin one(HOLDFAST_PLUGIN_1);
  const auto* where = reinterpret_cast<void*>(one.call);
  EXPECT_EQ(Sight(where), 0);
  dlclose(one.handle);
  Plugin two(HOLDFAST_PLUGIN_2);
  if (reinterpret_cast<void*>(two.call) != where) {
    two.Close();
    GTEST_SKIP() << "the loader chose another address";
  }
  EXPECT_EQ(Sight(where), 1);
  const auto modules = ReadModules();
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_TRUE(modules[1].unloaded);
  two.Close();
}

TEST_F(ModuleTable, LoadingAPluginOverAndOverFillsNothing) {
  std::set<std::pair<int, void*>> places;  // few, but where each mapping has an address of its own, as in qemu-user
  for (int i = 0; i < 3000; ++i) {
    Plugin plugin(i % 2 == 0 ? HOLDFAST_PLUGIN_1 : HOLDFAST_PLUGIN_2);
    Sight(reinterpret_cast<void*>(plugin.call));
    places.emplace(i % 2, reinterpret_cast<void*>(plugin.call));
    plugin.Close();
  }
  EXPECT_LE(ReadModules().size(), places.size());
}

// _dl_find_object answers with one segment of it, which does not begin with its ELF header.
TEST_F(ModuleTable, AModuleWithHolesIsOneModule) {
  Plugin plugin(HOLDFAST_PLUGIN_3);
  const auto code = reinterpret_cast<uintptr_t>(plugin.call);
  dl_find_object found;
  ASSERT_EQ(_dl_find_object(reinterpret_cast<void*>(code), &found), 0);
  const uintptr_t bias = found.dlfo_link_map->l_addr;
  EXPECT_EQ(TagInTrace(plugin), 0);
  Sight(dlsym(plugin.handle, "plugin_number"));
  int seen = 0;
  for (const Recorded& module : ReadModules()) {
    if (module.path != HOLDFAST_PLUGIN_3) continue;
    ++seen;
    EXPECT_EQ(module.start, bias);
    EXPECT_EQ(module.bias, bias);
    EXPECT_GT(module.end, reinterpret_cast<uintptr_t>(dlsym(plugin.handle, "plugin_number")));
    EXPECT_FALSE(module.build_id.empty());
    ASSERT_EQ(module.segments.size(), 1u);
    EXPECT_TRUE(module.segments[0].start <= code && code < module.segments[0].end);
  }
  EXPECT_EQ(seen, 1);
  plugin.Close();
}

// Modules as large as they need to be for this: pages without ELF headers.
class Fakes {
 public:
  Fakes() : pages_(static_cast<char*>(mmap(nullptr, kPages * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Fakes() { munmap(pages_, kPages * kPage); }
  // Each has its own dynamic section, outside of everything that is loaded.
  uint16_t Sight(int first, int end) {
    ++count_;
    return SightLast(first, end);
  }
  uint16_t SightLast(int first, int end) {
    link_map& map = maps_[count_ % kMaps];
    map.l_name = const_cast<char*>("/fake.so");
    map.l_ld = reinterpret_cast<ElfW(Dyn)*>(pages_ + count_ * 16);
    dl_find_object found{};
    found.dlfo_map_start = pages_ + first * kPage;
    found.dlfo_map_end = pages_ + end * kPage;
    found.dlfo_link_map = &map;
    return SightModule(found).tag;
  }

 private:
  static constexpr int kPages = 32, kPage = 4096;
  char* pages_;
  static constexpr int kMaps = 4096;
  link_map maps_[kMaps] = {};
  int count_ = 0;
};

TEST_F(ModuleTable, NoTwoModulesThatEverOverlappedHaveTheSameTag) {
  Fakes fakes;
  const uint16_t left = fakes.Sight(10, 20), right = fakes.Sight(20, 30), both = fakes.Sight(10, 30),
                 after = fakes.Sight(10, 20);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(right, 0);
  EXPECT_NE(both, left);
  EXPECT_NE(after, both) << "as many lay there before as before that one, but not the same";
  EXPECT_NE(after, left);
}

TEST_F(ModuleTable, TooManyModulesLeaveTheLaterOnesUnnamedAndCountedOnce) {
  constexpr int kMax = (1 << kTagBits) - 1;
  const auto lost = [] { return CurrentTable()->header()->losses[static_cast<int>(Loss::kModuleTableFull)].load(); };
  auto fakes = std::make_unique<Fakes>();
  std::set<uint16_t> tags;
  for (int i = 0; i < kMax; ++i) tags.insert(fakes->Sight(10, 20));
  EXPECT_EQ(tags.size(), static_cast<size_t>(kMax));
  EXPECT_EQ(tags.count(kNoModuleTag), 0u);
  EXPECT_EQ(lost(), 0u);
  for (uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(fakes->Sight(10, 20), kNoModuleTag);
    EXPECT_EQ(fakes->SightLast(10, 20), kNoModuleTag) << "each of its frames";
    EXPECT_EQ(lost(), i);
  }
  EXPECT_EQ(fakes->Sight(20, 30), 0) << "elsewhere there is room";
}

// A thread that does not run for 20 ms on a busy machine is not waited for, and the loss is counted.
TEST_F(ModuleTable, WhileAnotherModuleIsRecordedThisOneWaits) {
  constexpr int kRounds = 300;
  int unrecorded = 0;
  for (int round = 0; round < kRounds; ++round) {
    SharedTable* table = UseAnonymousTable(1 << 20);
    ForgetModules();
    std::atomic<int> ready{0}, recorded{0};
    std::vector<std::thread> threads;
    for (void* code : {reinterpret_cast<void*>(&ReadModules), dlsym(RTLD_DEFAULT, "gnu_get_libc_version")}) {
      threads.emplace_back([&, code] {
        dl_find_object found;
        _dl_find_object(code, &found);
        ++ready;
        while (ready < 2) std::this_thread::yield();
        recorded += SightModule(found).settled;
      });
    }
    for (auto& thread : threads) thread.join();
    unrecorded += 2 - recorded;
    ASSERT_EQ(table->header()->losses[static_cast<int>(Loss::kModuleTableFull)], static_cast<uint64_t>(2 - recorded))
        << "round " << round;
  }
  EXPECT_LE(unrecorded, kRounds / 50);
}

TEST_F(ModuleTable, CodeAtTheAddressOfAnUnloadedPluginIsNotThePlugins) {
  Plugin plugin(HOLDFAST_PLUGIN_1);
  const auto page = reinterpret_cast<uintptr_t>(plugin.call) & ~uintptr_t{4095};
  EXPECT_EQ(TagInTrace(plugin), 0);
  plugin.Close();
  void* const made = mmap(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (made != reinterpret_cast<void*>(page)) GTEST_SKIP() << "something else is mapped there already";
  WriteCompiledCall(made);
  static StackTrace trace;
  reinterpret_cast<void (*)(void (*)(void*), void*)>(made)(CaptureCaller, &trace);
  EXPECT_EQ(trace.frames[0] & kPcMask, page + kReturnOfCompiledCall);
  EXPECT_EQ(trace.frames[0] >> kPcTagShift, kNoModuleTag);
  munmap(made, 4096);
}

// Another thread has begun to close a library: what is under its addresses is looked at anew each time.
TEST_F(ModuleTable, WhileALibraryIsBeingClosedNothingIsKept) {
  Plugin plugin(HOLDFAST_PLUGIN_1);
  const uintptr_t code = reinterpret_cast<uintptr_t>(plugin.call);
  EXPECT_EQ(TagInTrace(plugin), 0);
  BeginUnload();
  EXPECT_EQ(TagInTrace(plugin), 0);
  dlclose(plugin.handle);
  Plugin other(HOLDFAST_PLUGIN_2);  // before the first one is marked
  if (reinterpret_cast<uintptr_t>(other.call) == code) {
    EXPECT_EQ(TagInTrace(other), 1);
    EXPECT_EQ(TagInTrace(other), 1);
  }
  MarkUnloadedModules();
  EndUnload();
  EXPECT_TRUE(ModulesStay());
  EndUnload();  // in a child of fork, which began in the midst of one
  EXPECT_TRUE(ModulesStay());
  other.Close();
}

uint64_t Probes() {
  uint64_t probes = 0;
  for (const CounterShard& shard : CurrentTable()->header()->counters) probes += shard.memory_probes;
  return probes;
}

// A destructor may take seconds. What was loaded with the program cannot be what goes.
TEST_F(ModuleTable, WhileALibraryIsBeingClosedCapturesCostWhatTheyDid) {
  NoteLastingModules();
  constexpr uint64_t kCaptures = 100;
  static StackTrace trace;
  Plugin plugin(HOLDFAST_PLUGIN_1);
  CaptureCaller(&trace);
  TagInTrace(plugin);
  BeginUnload();
  uint64_t before = Probes();
  for (uint64_t i = 0; i < kCaptures; ++i) CaptureCaller(&trace);
  EXPECT_FALSE(trace.truncated);
  EXPECT_EQ(Probes(), before);
  for (uint64_t i = 0; i < kCaptures; ++i) plugin.call(CaptureCaller, &trace);
  EXPECT_FALSE(trace.truncated);
  EXPECT_LE(Probes(), before + kCaptures) << "one look whether it still is that plugin";
  EndUnload();
  before = Probes();
  for (uint64_t i = 0; i < kCaptures; ++i) CaptureCaller(&trace);
  EXPECT_EQ(Probes(), before) << "nor afterwards";
  plugin.Close();
}

// Code without unwind tables, and behind its frame pointer a word that leads into the plugin.
int DepthByGuess(const Plugin& plugin) {
  alignas(16) uintptr_t frame[2] = {};
  const auto* code = reinterpret_cast<const uint8_t*>(plugin.call);
  for (int i = 4; i < 100 && frame[1] == 0; ++i) {
#if defined(__aarch64__)
    uint32_t before;
    std::memcpy(&before, code + i - 4, sizeof before);
    const bool calls = i % 4 == 0 && (before & 0xfffffc1f) == 0xd63f0000;  // blr
#else
    const bool calls = code[i - 2] == 0xff && (code[i - 1] >> 3 & 7) == 2;
#endif
    if (calls) frame[1] = reinterpret_cast<uintptr_t>(code + i);
  }
  EXPECT_NE(frame[1], 0u) << "no call through a register in there";
  static StackTrace trace;
  StackBounds bounds{};
  static auto* no_module = static_cast<uint8_t*>(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  CaptureStack({reinterpret_cast<uintptr_t>(no_module) + 8, reinterpret_cast<uintptr_t>(frame),
                reinterpret_cast<uintptr_t>(frame)},
               &bounds, &trace);
  return trace.depth;
}

TEST_F(ModuleTable, WhileALibraryIsBeingClosedNoGuessLeadsIntoOne) {
  NoteLastingModules();
  Plugin plugin(HOLDFAST_PLUGIN_1);
  EXPECT_GE(DepthByGuess(plugin), 2);
  BeginUnload();
  EXPECT_EQ(DepthByGuess(plugin), 1);
  EndUnload();
  EXPECT_GE(DepthByGuess(plugin), 2);
  plugin.Close();
}

TEST_F(ModuleTable, AnUnloadWaitsForWalksThatReadAndForNoOther) {
  std::atomic<bool> begun{false};
  std::thread closing;
  {
    ModuleReading reading;
    ASSERT_TRUE(reading.Begin());
    closing = std::thread([&] {
      BeginUnload();
      begun = true;
    });
    while (ModulesStay()) std::this_thread::yield();
    ModuleReading late;
    EXPECT_FALSE(late.Begin());
    EXPECT_FALSE(begun);
  }
  closing.join();
  EndUnload();
  EXPECT_TRUE(ModulesStay());
}

TEST_F(ModuleTable, AFullTableIsCountedOnceForEachModule) {
  SharedTable* small = UseAnonymousTable(sizeof(TableHeader) / 4096 * 4096 + 4096);
  small->header()->used = small->header()->backed.load();
  ForgetModules();
  Sight(reinterpret_cast<void*>(&Sight));
  Sight(reinterpret_cast<void*>(&Sight));
  EXPECT_EQ(small->header()->losses[static_cast<int>(Loss::kModuleTableFull)], 1u);
  EXPECT_EQ(small->header()->modules, 0u);
}

TEST_F(ModuleTable, AForkedChildRecordsAnew) {
  static StackTrace trace;
  CaptureCaller(&trace);
  const size_t before = ReadModules().size();
  UseAnonymousTable();  // what a forked child does
  ForgetModules();
  CaptureCaller(&trace);
  EXPECT_EQ(ReadModules().size(), before);
  UseAnonymousTable();
  CaptureCaller(&trace);
  EXPECT_EQ(ReadModules().size(), 0u) << "known rows do not look for modules: forgetting is needed";
}

}  // namespace
}  // namespace holdfast
