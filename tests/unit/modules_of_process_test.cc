#include "report/observe/outside/modules_of_process.h"

#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/fake_target.h"

namespace holdfast {
namespace {

constexpr size_t kPageBytes = 4096;

// Whether the page at `address` is in this process's page table (bit 63, Documentation/admin-guide/mm/pagemap.rst).
bool IsPresent(const void* address) {
  const int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  uint64_t entry = 0;
  const auto at = static_cast<off_t>(reinterpret_cast<uintptr_t>(address) / kPageBytes * sizeof entry);
  EXPECT_EQ(pread(file, &entry, sizeof entry, at), static_cast<ssize_t>(sizeof entry));
  close(file);
  return (entry >> 63) != 0;
}

// Code without a file follows the second of two data files. Only the second is read.
TEST(ModulesOfProcessTest, NoPageOfADataFileIsReadThatCannotHaveMovedItsCode) {
  const testing::TablesFolder folder;
  const std::string path = folder.File("data");
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(file, kPageBytes), 0);
  auto* space = static_cast<char*>(mmap(nullptr, 4 * kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(space, MAP_FAILED);
  for (const size_t at : {size_t{0}, 2 * kPageBytes})
    ASSERT_NE(mmap(space + at, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0), MAP_FAILED);
  ASSERT_EQ(mprotect(space + 3 * kPageBytes, kPageBytes, PROT_READ | PROT_EXEC), 0);
  close(file);

  std::vector<ModuleInfo> modules;
  AddModulesOf(getpid(), ProcessMemory(getpid()), &modules);
  EXPECT_THAT(modules, ::testing::Not(::testing::IsEmpty()));
  EXPECT_FALSE(IsPresent(space));
  EXPECT_TRUE(IsPresent(space + 2 * kPageBytes));
  munmap(space, 4 * kPageBytes);
}

// With pages of 64 KiB the first segment may begin 4 KiB into its first page, which the kernel maps from the file's start.
TEST(ModulesOfProcessTest, AModuleBeginsBeforeItsFirstSegmentWherePagesAreLarge) {
  constexpr uint64_t kAddress = 0x41000, kOffset = 0x1000;
  struct {
    Elf64_Ehdr head{};
    Elf64_Phdr code{};
  } file;
  memcpy(file.head.e_ident, ELFMAG, SELFMAG);
  file.head.e_ident[EI_CLASS] = ELFCLASS64;
  file.head.e_phoff = sizeof file.head;
  file.head.e_phentsize = sizeof file.code;
  file.head.e_phnum = 1;
  file.code = {.p_type = PT_LOAD,
               .p_flags = PF_R | PF_X,
               .p_offset = kOffset,
               .p_vaddr = kAddress,
               .p_paddr = kAddress,
               .p_filesz = kPageBytes,
               .p_memsz = kPageBytes,
               .p_align = 65536};
  const auto start = reinterpret_cast<uint64_t>(&file);

  std::vector<ModuleInfo> modules;
  AddModulesAt({{start, "/lib/module.so"}}, ProcessMemory(getpid()), &modules);
  ASSERT_THAT(modules, ::testing::SizeIs(1));
  EXPECT_EQ(modules[0].bias, start + kOffset - kAddress);
}

}  // namespace
}  // namespace holdfast
