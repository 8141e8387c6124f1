// The table of a FakeTarget as the commands find it.
#ifndef HOLDFAST_TESTS_UNIT_PROCESS_TABLE_H_
#define HOLDFAST_TESTS_UNIT_PROCESS_TABLE_H_

#include <filesystem>

#include "report/daemon/find_tables.h"
#include "tests/unit/fake_target.h"

namespace holdfast::testing {

inline ProcessTable TableOf(const TablesFolder& folder, const FakeTarget& target) {
  const auto file = std::filesystem::path(target.path()).filename();
  return {.folder = folder.path(),
          .root = "",
          .table = TableFile::Open(*OpenFolder(folder.path()), file).value(),
          .pid = target.pid()};
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_UNIT_PROCESS_TABLE_H_
