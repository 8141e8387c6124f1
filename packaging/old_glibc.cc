// What the packaged tool calls and glibc 2.17 lacks. It is linked against stubs of that version
// (scripts/support/old-glibc), so that it starts with every glibc from 2.17 on. A newer glibc's own function is used where
// it makes a difference.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace {

template <typename Function>
Function Newer(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Before glibc 2.34 the program itself brings the code that runs its constructors, and passes it to __libc_start_main.
using InitFunction = void (*)(int, char**, char**);
extern "C" {
extern InitFunction __preinit_array_start[] __attribute__((visibility("hidden")));
extern InitFunction __preinit_array_end[] __attribute__((visibility("hidden")));
extern InitFunction __init_array_start[] __attribute__((visibility("hidden")));
extern InitFunction __init_array_end[] __attribute__((visibility("hidden")));
void _init();
}

void RunConstructors(int count, char** arguments, char** environment) {
  for (InitFunction* at = __preinit_array_start; at != __preinit_array_end; ++at) (*at)(count, arguments, environment);
  _init();
  for (InitFunction* at = __init_array_start; at != __init_array_end; ++at) (*at)(count, arguments, environment);
}

struct Search {
  uintptr_t address;
  dl_find_object* result;
};

int LookInto(dl_phdr_info* object, size_t, void* given) {
  auto* search = static_cast<Search*>(given);
  uintptr_t start = UINTPTR_MAX, end = 0, tables = 0;
  bool contains = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    const uintptr_t from = object->dlpi_addr + header.p_vaddr, to = from + header.p_memsz;
    if (header.p_type == PT_GNU_EH_FRAME) tables = from;
    if (header.p_type != PT_LOAD) continue;
    start = from < start ? from : start;
    end = to > end ? to : end;
    contains |= search->address >= from && search->address < to;
  }
  if (!contains) return 0;
  memset(search->result, 0, sizeof *search->result);
  search->result->dlfo_map_start = reinterpret_cast<void*>(start);
  search->result->dlfo_map_end = reinterpret_cast<void*>(end);
  search->result->dlfo_eh_frame = reinterpret_cast<void*>(tables);
  return 1;
}

// Destructors of a thread's objects, newest first.
struct AtThreadEnd {
  void (*destructor)(void*);
  void* object;
  AtThreadEnd* next;
};

void RunAtThreadEnd(void* first) {
  for (auto* entry = static_cast<AtThreadEnd*>(first); entry != nullptr;) {
    AtThreadEnd* const next = entry->next;
    entry->destructor(entry->object);
    free(entry);
    entry = next;
  }
}

pthread_key_t end_key;
// The main thread ends with the process.
void RunAtProcessEnd() {
  while (void* first = pthread_getspecific(end_key)) {
    pthread_setspecific(end_key, nullptr);
    RunAtThreadEnd(first);
  }
}
void MakeEndKey() {
  if (pthread_key_create(&end_key, RunAtThreadEnd) != 0) abort();
  atexit(RunAtProcessEnd);
}

}  // namespace

extern "C" {

// Called by libstdc++ for thread_local objects.
int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* module) {
  static const auto newer = Newer<int (*)(void (*)(void*), void*, void*)>("__cxa_thread_atexit_impl");
  if (newer != nullptr) return newer(destructor, object, module);
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, MakeEndKey);
  auto* entry = static_cast<AtThreadEnd*>(malloc(sizeof(AtThreadEnd)));
  if (entry == nullptr) return -1;
  *entry = {destructor, object, static_cast<AtThreadEnd*>(pthread_getspecific(end_key))};
  return pthread_setspecific(end_key, entry);
}

// False: reference counts are always atomic.
char __libc_single_threaded = 0;

// The linker leads the start code's call here (--wrap). The program's destructors run when the loader ends it.
int __real___libc_start_main(int (*)(int, char**, char**), int, char**, void (*)(int, char**, char**), void (*)(),
                             void (*)(), void*);
int __wrap___libc_start_main(int (*main)(int, char**, char**), int count, char** arguments,
                             void (*)(int, char**, char**), void (*)(), void (*loaders_end)(), void* stack_end) {
  return __real___libc_start_main(main, count, arguments, RunConstructors, nullptr, loaders_end, stack_end);
}

// Of the unwinder in libgcc, which has no other way once it was compiled with this one. Uses the tables' address alone.
int _dl_find_object(void* address, dl_find_object* result) {
  static const auto newer = Newer<int (*)(void*, dl_find_object*)>("_dl_find_object");
  if (newer != nullptr) return newer(address, result);
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(LookInto, &search) == 1 && result->dlfo_eh_frame != nullptr ? 0 : -1;
}

int fstatat(int folder, const char* path, struct stat* result, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, result, flags));
}
int stat(const char* path, struct stat* result) { return fstatat(AT_FDCWD, path, result, 0); }
int lstat(const char* path, struct stat* result) { return fstatat(AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW); }
int fstat(int file, struct stat* result) { return static_cast<int>(syscall(SYS_fstat, file, result)); }
int fstat64(int file, struct stat64* result) { return static_cast<int>(syscall(SYS_fstat, file, result)); }
int stat64(const char* path, struct stat64* result) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, 0));
}
int lstat64(const char* path, struct stat64* result) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW));
}

ssize_t getrandom(void* to, size_t bytes, unsigned flags) { return syscall(SYS_getrandom, to, bytes, flags); }
int memfd_create(const char* name, unsigned flags) { return static_cast<int>(syscall(SYS_memfd_create, name, flags)); }
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

void closefrom(int first) {
  if (syscall(SYS_close_range, first < 0 ? 0 : first, ~0u, 0) == 0) return;
  // Linux before 5.9.
  DIR* open_files = opendir("/proc/self/fd");
  if (open_files == nullptr) return;
  while (const dirent* entry = readdir(open_files)) {
    const int file = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && file >= first && file != dirfd(open_files)) close(file);
  }
  closedir(open_files);
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  static const auto newer =
      Newer<int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>("pthread_cond_clockwait");
  if (newer != nullptr) return newer(condition, mutex, clock, until);
  constexpr long kSecond = 1'000'000'000;
  timespec now{}, real_now{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real_now);
  timespec moment = {until->tv_sec - now.tv_sec + real_now.tv_sec, until->tv_nsec - now.tv_nsec + real_now.tv_nsec};
  while (moment.tv_nsec < 0) moment.tv_nsec += kSecond, --moment.tv_sec;
  while (moment.tv_nsec >= kSecond) moment.tv_nsec -= kSecond, ++moment.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &moment);
}

}  // extern "C"
