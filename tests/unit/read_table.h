// Reads tables that tests have made, as ReadSnapshot does.
#ifndef HOLDFAST_TESTS_UNIT_READ_TABLE_H_
#define HOLDFAST_TESTS_UNIT_READ_TABLE_H_

#include <gmock/gmock.h>

#include <string>

#include "report/observe/table/snapshot.h"
#include "tests/unit/made_table.h"

namespace holdfast::testing {

inline absl::StatusOr<TableSnapshot> Read(MadeTable& table) { return ReadSnapshot(table.bytes(), table.size(), 77); }

inline void ExpectCorrupt(MadeTable& table, const std::string& what) {
  const absl::StatusOr<TableSnapshot> snapshot = Read(table);
  EXPECT_EQ(snapshot.status().code(), absl::StatusCode::kDataLoss) << snapshot.status();
  EXPECT_THAT(std::string(snapshot.status().message()), ::testing::HasSubstr(what));
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_READ_TABLE_H_
