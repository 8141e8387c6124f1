// What of the memory map is libc's and not the program's.
#include "report/observe/memory/libc_mappings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "report/base/holdfast_library.h"
#include "report/observe/memory/arenas.h"
#include "report/observe/outside/modules_of_process.h"
#include "tests/unit/made_pagemap.h"

namespace holdfast {
namespace {

constexpr char kMap[] =
    "00400000-00401000 r-xp 00000000 08:01 12 /usr/bin/server\n"
    "01000000-01100000 rw-p 00000000 00:00 0 [heap]\n"
    "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \n"
    "7f0000200000-7f0004000000 ---p 00000000 00:00 0 \n"
    "7f0008000000-7f0008100000 rw-p 00000000 00:00 0 \n";

TEST(LibcMappings, AreWhatTheProgramHasNotMapped) {
  const std::vector<MemoryMapping> mappings = ParseMappings(kMap);
  ASSERT_EQ(mappings.size(), 5u);
  // The second is read twice while it was cut; the last reaches beyond the heap.
  const std::vector<OwnRange> own = {{0x1010000, 0x1020000}, {0x1018000, 0x1020000}, {0x10ff000, 0x1200000}};
  const std::vector<LibcMapping> found = LibcMappingsOf(mappings, own, {0x7f0000000000}, false);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, MappingKind::kBrk);
  EXPECT_EQ(found[0].bytes, 0x100000u - 0x10000 - 0x1000);
  EXPECT_EQ(found[1].kind, MappingKind::kArena);
  EXPECT_EQ(found[1].bytes, 0x200000u);
  EXPECT_EQ(found[1].mappings, 1u);
}

TEST(LibcMappings, TheHeapIsNamedAfterTheCLibrary) {
  const auto name_with = [](const char* library) {
    const std::string line = std::string("7f0010000000-7f0010001000 r-xp 00000000 08:01 13 ") + library + "\n";
    return std::string_view(LibcMappingsOf(ParseMappings(kMap + line), {}, {}, false).at(0).name);
  };
  EXPECT_EQ(name_with("/usr/lib/x86_64-linux-gnu/libc.so.6"), "[glibc heap]");
  EXPECT_EQ(name_with("/usr/lib64/libc-2.17.so"), "[glibc heap]");
  EXPECT_EQ(name_with("/lib/ld-musl-x86_64.so.1"), "[musl heap]");
  EXPECT_EQ(name_with("/usr/lib/x86_64-linux-musl/libc.so"), "[musl heap]");
  EXPECT_EQ(name_with("/usr/lib/x86_64-linux-musl/libc.so (deleted)"), "[musl heap]");
}

// tcmalloc takes its memory there, musl's and glibc's malloc are not called.
TEST(LibcMappings, TheHeapIsNotTheCLibrarysIfTheExecutableReplacesMalloc) {
  for (const char* library : {"/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/ld-musl-x86_64.so.1"}) {
    const std::string line = std::string("7f0010000000-7f0010001000 r-xp 00000000 08:01 13 ") + library + "\n";
    EXPECT_STREQ(LibcMappingsOf(ParseMappings(kMap + line), {}, {}, true).at(0).name, "[heap]") << library;
  }
}

// A linker maps the libraries that it links, and linker scripts such as glibc's libc.so.
TEST(LibcMappings, AFileThatIsMappedAsDataIsNoCLibrary) {
  constexpr char kGlibc[] = "/usr/lib/x86_64-linux-gnu/libc.so.6\n", kMusl[] = "/lib/ld-musl-x86_64.so.1\n";
  const std::string code = "7f0010000000-7f0010001000 r-xp 00000000 08:01 13 ",
                    data = "7f0020000000-7f0020001000 r--p 00000000 08:01 14 ";
  const auto uses_musl = [](const std::string& lines) { return UsesMusl(ParseMappings(lines)); };
  EXPECT_FALSE(uses_musl(code + kGlibc + data + "/usr/lib/x86_64-linux-gnu/libc.so\n"));
  EXPECT_FALSE(uses_musl(code + kGlibc + data + kMusl));
  EXPECT_FALSE(uses_musl(data + kMusl));
  EXPECT_FALSE(uses_musl(code + kMusl + code + kGlibc));
  EXPECT_TRUE(uses_musl(code + kMusl + data + kGlibc));
}

// This process has glibc, and has mapped a library of this name.
TEST(ModulesOfProcess, HaveCode) {
  char folder[] = "/tmp/modules_of_process.XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/libc.so";
  std::string head(kPage, '\0');
  std::ifstream("/proc/self/exe", std::ios::binary).read(head.data(), kPage);
  std::ofstream(path, std::ios::binary) << head;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const data = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file, 0);
  ASSERT_NE(data, MAP_FAILED);
  std::vector<ModuleInfo> modules;
  AddModulesOf(getpid(), ProcessMemory(getpid()), &modules);
  EXPECT_GE(modules.size(), 2u);
  for (const ModuleInfo& module : modules) EXPECT_NE(module.path, path);
  EXPECT_FALSE(UsesMusl(modules));
  munmap(data, kPage);
  close(file);
  std::filesystem::remove_all(folder);
}

TEST(ModulesOfProcess, OfGlibcAndAFileOfMuslAreGlibcs) {
  ModuleInfo musl{}, glibc{};
  musl.path = "/opt/musl/lib/libc.so";
  glibc.path = "/usr/lib/x86_64-linux-gnu/libc.so.6";
  EXPECT_TRUE(UsesMusl(std::vector<ModuleInfo>{musl}));
  EXPECT_FALSE(UsesMusl(std::vector<ModuleInfo>{musl, glibc}));
}

// A container has the library as a file in memory; profiles have the last part of its path.
TEST(HoldfastLibrary, IsRecognizedByItsFile) {
  for (const char* path :
       {"/lib/holdfast/libholdfast.so", "/lib/holdfast/libholdfast.so (deleted)", "libholdfast.so",
        "/memfd:libholdfast.so (deleted)", "/memfd:libholdfast.so", "memfd:libholdfast.so (deleted)"})
    EXPECT_TRUE(IsHoldfastLibrary(path)) << path;
  for (const char* path : {"", "/usr/lib/libc.so.6", "/lib/libholdfast.so/other.so", "/memfd:other (deleted)"})
    EXPECT_FALSE(IsHoldfastLibrary(path)) << path;
  EXPECT_TRUE(
      MapsHoldfastLibrary(std::string(kMap) + "7f00-7f01 r-xp 00000000 00:01 9 /memfd:libholdfast.so (deleted)"));
  EXPECT_FALSE(MapsHoldfastLibrary(kMap));
}

TEST(LibcMappings, ThereAreNoneIfTheProgramMappedEverything) {
  EXPECT_TRUE(LibcMappingsOf(ParseMappings(kMap), {{0x900000, 0x7f0000200000}}, {0x7f0000000000}, false).empty());
  EXPECT_TRUE(LibcMappingsOf({}, {}, {}, false).empty());
}

// Also where the kernel does not tell in one question where pages are: a page that is not there is not read, which would make it.
TEST(Arenas, AreLookedForInPagesThatAreThere) {
  constexpr uint64_t kArena = uint64_t{64} << 20, kHead = 0x30;
  void* const reserved =
      mmap(nullptr, 2 * kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(reserved, MAP_FAILED);
  const uint64_t start = (reinterpret_cast<uint64_t>(reserved) + kArena - 1) / kArena * kArena;
  *reinterpret_cast<uint64_t*>(start) = start + kHead;
  const auto find = [&](uint64_t entry) {
    MadePagemap pagemap;
    pagemap.Set(start, entry, 1);
    PageTable pages = pagemap.Pages();
    MemoryMapping mapping{};
    mapping.start = start;
    mapping.end = start + kPage;
    mapping.writable = true;
    std::vector<MemoryMapping> mappings = {mapping};
    return FindArenas(ProcessMemory(getpid()), &pages, ArenasSay::kWhere, &mappings);
  };
  EXPECT_EQ(find(MadePagemap::kHere), std::set<uint64_t>{start});
  EXPECT_EQ(find(MadePagemap::kSwapped), std::set<uint64_t>{start});
  EXPECT_TRUE(find(0).empty());
  munmap(reserved, 2 * kArena);
}

}  // namespace
}  // namespace holdfast
