// What of the memory map is libc's and not the program's.
#include "report/memory/libc_mappings.h"

#include <gtest/gtest.h>

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
  const std::vector<AddressRange> own = {{0x1010000, 0x1020000}, {0x1018000, 0x1020000}, {0x10ff000, 0x1200000}};
  const std::vector<LibcMapping> found = LibcMappingsOf(mappings, own, {0x7f0000000000});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, MappingKind::kBrk);
  EXPECT_EQ(found[0].bytes, 0x100000u - 0x10000 - 0x1000);
  EXPECT_EQ(found[1].kind, MappingKind::kArena);
  EXPECT_EQ(found[1].bytes, 0x200000u);
  EXPECT_EQ(found[1].mappings, 1u);
}

TEST(LibcMappings, AreNoneWhereTheProgramHasMappedItAll) {
  EXPECT_TRUE(LibcMappingsOf(ParseMappings(kMap), {{0x900000, 0x7f0000200000}}, {0x7f0000000000}).empty());
  EXPECT_TRUE(LibcMappingsOf({}, {}, {}).empty());
}

}  // namespace
}  // namespace holdfast
