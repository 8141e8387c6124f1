// The search for the object at an address that replaces _dl_find_object where libc lacks it: same answers, at rest and
// while other threads load and unload.
#include "sampler/capture/find_object.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "sampler/capture/module_reading.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// The first and the last byte of each segment, and one in the middle.
std::vector<uintptr_t> AddressesInObjects() {
  std::vector<uintptr_t> addresses;
  const auto add = [](dl_phdr_info* object, size_t, void* list) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const auto& header = object->dlpi_phdr[i];
      if (header.p_type != PT_LOAD || header.p_memsz == 0) continue;
      const uintptr_t start = object->dlpi_addr + header.p_vaddr;
      for (const uintptr_t offset : {uintptr_t{0}, header.p_memsz / 2, header.p_memsz - 1})
        static_cast<std::vector<uintptr_t>*>(list)->push_back(start + offset);
    }
    return 0;
  };
  dl_iterate_phdr(add, &addresses);
  return addresses;
}

void ExpectSameAnswers() {
  const std::vector<uintptr_t> addresses = AddressesInObjects();
  ASSERT_GT(addresses.size(), 20u);
  for (const uintptr_t address : addresses) {
    void* const at = reinterpret_cast<void*>(address);
    dl_find_object libcs, ours;
    ASSERT_EQ(_dl_find_object(at, &libcs), 0) << at;
    ASSERT_EQ(SearchForObject(at, &ours), 0) << at;
    EXPECT_EQ(ours.dlfo_link_map, libcs.dlfo_link_map) << at;
    EXPECT_EQ(ours.dlfo_eh_frame, libcs.dlfo_eh_frame) << at;
    EXPECT_GE(at, ours.dlfo_map_start);
    EXPECT_LT(at, ours.dlfo_map_end);
  }
  const auto heap = std::make_unique<char[]>(100);
  int on_stack = 0;
  dl_find_object found;
  for (const void* at : {static_cast<const void*>(heap.get()), static_cast<const void*>(&on_stack),
                         static_cast<const void*>(nullptr), reinterpret_cast<const void*>(~uintptr_t{0})})
    EXPECT_NE(SearchForObject(const_cast<void*>(at), &found), 0) << at;
}

// Where nothing is found, no object is in the range that comes back.
void ExpectGapsWithoutObjects() {
  const std::vector<uintptr_t> addresses = AddressesInObjects();
  const auto heap = std::make_unique<char[]>(100);
  int on_stack = 0;
  for (void* at : {static_cast<void*>(heap.get()), static_cast<void*>(&on_stack), reinterpret_cast<void*>(4096)}) {
    dl_find_object found;
    ASSERT_NE(SearchForObject(at, &found), 0);
    EXPECT_LE(found.dlfo_map_start, at);
    EXPECT_GT(found.dlfo_map_end, at);
    for (const uintptr_t address : addresses) {
      void* const object = reinterpret_cast<void*>(address);
      EXPECT_TRUE(object < found.dlfo_map_start || object >= found.dlfo_map_end) << object;
    }
  }
}

// Runs `test` in a forked child; returns its exit code.
template <typename Test>
int InChild(Test test) {
  const pid_t child = fork();
  if (child == 0) {
    test();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void KillForOpening() {
  sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat},
                        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS},
                        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  sock_fprog program = {sizeof code / sizeof *code, code};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

struct Plugin {
  explicit Plugin(const char* path) : handle(dlopen(path, RTLD_NOW)) {
    EXPECT_NE(handle, nullptr) << dlerror();
    link_map* map = nullptr;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    code = map->l_ld;
  }
  void* handle;
  void* code;  // an address in it
};

TEST(FindObject, AnswersAsLibcDoes) { ExpectSameAnswers(); }

TEST(FindObject, FindsWhatIsLoadedLaterAndForgetsWhatIsUnloaded) {
  // A usual one, one with holes between its segments, and one with addresses of its own.
  for (const char* path : {HOLDFAST_PLUGIN_1, HOLDFAST_PLUGIN_3, HOLDFAST_PLUGIN_PLACED}) {
    const Plugin plugin(path);
    ExpectSameAnswers();
    dlclose(plugin.handle);
    dl_find_object found;
    EXPECT_NE(SearchForObject(plugin.code, &found), 0) << path;
  }
}

TEST(FindObject, KnowsTheGapWhereItFindsNothing) {
  ExpectGapsWithoutObjects();
  const Plugin plugin(HOLDFAST_PLUGIN_3);
  ExpectGapsWithoutObjects();
  dlclose(plugin.handle);
}

// A descriptor of ours could be the one that the program is about to replace.
TEST(FindObject, OpensNoFile) {
  const Plugin plugin(HOLDFAST_PLUGIN_1);
  EXPECT_EQ(InChild([] {
              KillForOpening();
              ExpectSameAnswers();
            }),
            0);
  dlclose(plugin.handle);
}

// As below a seccomp filter: memory that may go is not read while it may be going.
TEST(FindObject, WithoutSystemCallsWhatMayBeGoingIsNotFound) {
  const Plugin plugin(HOLDFAST_PLUGIN_1);
  const auto test = [&plugin] {
    TabulateFirstObjects();
    dl_find_object found;
    // Loaded before the table was made; this one is not.
    void* const later = dlopen(HOLDFAST_PLUGIN_3, RTLD_NOW);
    link_map* map = nullptr;
    dlinfo(later, RTLD_DI_LINKMAP, &map);
    no_system_calls = true;
    EXPECT_EQ(SearchForObject(map->l_ld, &found), 0);
    BeginUnload();
    EXPECT_NE(SearchForObject(map->l_ld, &found), 0);
    EXPECT_EQ(SearchForObject(plugin.code, &found), 0);
    EndUnload();
    EXPECT_EQ(SearchForObject(map->l_ld, &found), 0);
  };
  EXPECT_EQ(InChild(test), 0);
  dlclose(plugin.handle);
}

constinit std::atomic<void*> searched_code{nullptr};
constinit std::atomic<long> in_handlers{0}, wrong{0};

// Whether the answer is possible: none, or an object that contains the address.
void SearchOnce(void* address, bool must_be_found) {
  dl_find_object found;
  if (SearchForObject(address, &found) != 0) {
    wrong += must_be_found;
  } else {
    wrong += address < found.dlfo_map_start || address >= found.dlfo_map_end;
  }
}

void SearchInHandler(int) {
  const int kept = errno;
  SearchOnce(searched_code.load(), false);
  SearchOnce(reinterpret_cast<void*>(&SearchInHandler), true);
  ++in_handlers;
  wrong += errno != kept;
}

TEST(FindObject, IsRightWhileOtherThreadsLoadAndUnload) {
  struct sigaction action {};
  action.sa_handler = SearchInHandler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  constexpr int kRounds = 300;
  std::atomic<int> storming{2};
  const auto storm = [&storming](const char* path) {
    for (int i = 0; i < kRounds; ++i) {
      void* handle = dlopen(path, RTLD_NOW);
      if (handle != nullptr) {
        link_map* map = nullptr;
        dlinfo(handle, RTLD_DI_LINKMAP, &map);
        searched_code = map->l_ld;
      }
      // This one is loaded and unloaded again inside dlopen.
      EXPECT_EQ(dlopen(HOLDFAST_PLUGIN_INCOMPLETE, RTLD_NOW), nullptr);
      if (handle != nullptr) dlclose(handle);
    }
    --storming;
  };
  std::thread first(storm, HOLDFAST_PLUGIN_1), second(storm, HOLDFAST_PLUGIN_3);
  while (storming != 0) {
    SearchOnce(searched_code.load(), false);
    SearchOnce(reinterpret_cast<void*>(&ExpectSameAnswers), true);
    SearchOnce(reinterpret_cast<void*>(&dlopen), true);
    pthread_kill(first.native_handle(), SIGUSR1);
    pthread_kill(second.native_handle(), SIGUSR1);
  }
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(in_handlers, 0);
}

// Last: the table stays.
TEST(FindObject, TheTableOfFirstObjectsAnswersAsTheList) {
  TabulateFirstObjects();
  ExpectSameAnswers();
  const Plugin plugin(HOLDFAST_PLUGIN_3);
  ExpectSameAnswers();
  dlclose(plugin.handle);
}

}  // namespace
}  // namespace holdfast
