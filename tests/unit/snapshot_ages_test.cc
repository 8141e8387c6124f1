// Ages in a table, as ReadSnapshot reads them.
#include <gmock/gmock.h>

#include <bit>

#include "report/observe/table/snapshot.h"
#include "sampler/contract/age_buckets.h"
#include "tests/unit/made_table.h"
#include "tests/unit/read_table.h"

namespace holdfast {
namespace {

using testing::ExpectCorrupt;
using ::testing::HasSubstr;
using testing::MadeTable;
using testing::Read;

Offset AddCell(MadeTable* table, Offset row, uint8_t bucket, FreedBy freed_by, uint64_t blocks) {
  const Offset at = table->Allocate(sizeof(AgeCell));
  auto& cell = table->At<AgeCell>(at);
  cell.next = table->At<Row>(row).ages;
  cell.bucket = bucket;
  cell.freed_by = freed_by;
  cell.objects = blocks << kCountFractionBits;
  cell.bytes = (blocks * 100) << kAmountFractionBits;
  cell.ages_ns = std::bit_cast<uint64_t>(2000.0 * static_cast<double>(blocks));
  table->At<Row>(row).ages = at;
  return at;
}

TEST(ReadSnapshot, AgesEqualTheTablesAlsoForTheRowBesideAThreadsOwn) {
  MadeTable table;
  const Offset stack = table.AddStack({0x10});
  const Offset row = table.AddHeapRow(stack, 3, 300, 0), own = table.AddHeapRow(stack, 0, 0, 0);
  AddCell(&table, row, 4, FreedBy::kTemporary, 3);
  const Offset beside = table.Allocate(sizeof(Row));
  table.At<Row>(beside).owner = kAgedOwner;
  table.At<Row>(beside).sums[kAllocObjects] = uint64_t{7} << kCountFractionBits;
  table.At<Row>(own).owner = 1;
  for (auto& sum : table.At<Row>(own).sums) sum = 0;
  table.At<Row>(own).ages = beside;
  AddCell(&table, beside, 5, FreedBy::kOtherThread, 256);
  const auto snapshot = Read(table);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->rows.size(), 3u);
  ASSERT_EQ(snapshot->ages.size(), 2u);
  for (const AgesInfo& info : snapshot->ages) {
    const bool is_besides = info.bucket == 5;
    EXPECT_EQ(info.freed_by, is_besides ? FreedBy::kOtherThread : FreedBy::kTemporary);
    EXPECT_EQ(info.objects, is_besides ? 256 : 3);
    EXPECT_EQ(info.bytes, info.objects * 100);
    EXPECT_EQ(info.ages_ns, info.objects * 2000);
  }
}

TEST(ReadSnapshot, HostileAgesAreErrors) {
  MadeTable circle, outside, no_bucket, nobody, no_owner, itself;
  const auto row_of = [](MadeTable& table) { return table.AddHeapRow(table.AddStack({0x10}), 1, 100, 0); };
  const Offset first = AddCell(&circle, row_of(circle), 1, FreedBy::kSameThread, 1);
  circle.At<AgeCell>(first).next = first;
  ExpectCorrupt(circle, "bad counts of ages");
  outside.At<Row>(row_of(outside)).ages = 1u << 30;
  ExpectCorrupt(outside, "bad counts of ages");
  AddCell(&no_bucket, row_of(no_bucket), kAgeBuckets, FreedBy::kSameThread, 1);
  ExpectCorrupt(no_bucket, "bad counts of ages");
  AddCell(&nobody, row_of(nobody), 1, static_cast<FreedBy>(3), 1);
  ExpectCorrupt(nobody, "bad counts of ages");
  const Offset own = row_of(no_owner);
  no_owner.At<Row>(own).owner = 1;
  no_owner.At<Row>(own).ages = row_of(no_owner);
  ExpectCorrupt(no_owner, "bad row of aged blocks");
  const Offset loop = row_of(itself);
  itself.At<Row>(loop).owner = 1;
  itself.At<Row>(loop).ages = loop;
  ExpectCorrupt(itself, "bad row of aged blocks");
}

}  // namespace
}  // namespace holdfast
