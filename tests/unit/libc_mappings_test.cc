// What of the memory map is libc's and not the program's.
#include "report/observe/memory/libc_mappings.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "report/observe/memory/arenas.h"
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
  const std::vector<LibcMapping> found = LibcMappingsOf(mappings, own, {0x7f0000000000});
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
    return std::string_view(LibcMappingsOf(ParseMappings(kMap + line), {}, {}).at(0).name);
  };
  EXPECT_EQ(name_with("/usr/lib/x86_64-linux-gnu/libc.so.6"), "[glibc heap]");
  EXPECT_EQ(name_with("/usr/lib64/libc-2.17.so"), "[glibc heap]");
  EXPECT_EQ(name_with("/lib/ld-musl-x86_64.so.1"), "[musl heap]");
  EXPECT_EQ(name_with("/usr/lib/x86_64-linux-musl/libc.so"), "[musl heap]");
  EXPECT_EQ(name_with("/usr/lib/x86_64-linux-musl/libc.so (deleted)"), "[musl heap]");
}

TEST(LibcMappings, ThereAreNoneIfTheProgramMappedEverything) {
  EXPECT_TRUE(LibcMappingsOf(ParseMappings(kMap), {{0x900000, 0x7f0000200000}}, {0x7f0000000000}).empty());
  EXPECT_TRUE(LibcMappingsOf({}, {}, {}).empty());
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
