// What is left in the folder of tables: by who was killed while making one, by exporters that were killed, by folders that
// could take nothing.
#ifndef HOLDFAST_REPORT_EXPORTER_SWEEP_TABLES_H_
#define HOLDFAST_REPORT_EXPORTER_SWEEP_TABLES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Removes what dead processes of this user left in `tables`: at once the files of tables that were never finished and the locks
// of exporters that were killed; after a day tables that nobody collected (those of a folder that is served again are exported
// first). How many.
int SweepOldTables(const std::string& tables);

// The tables that one exporter could make no profiles of and leaves for `holdfast collect`: the newest, at most 16 MiB and at most
// half of what all tables of the user may take (sampler/contract/table_share.h). Those that other folders' exporters left count.
class LeftTables {
 public:
  void Add(const FileDescriptor& folder, const std::string& name, uint64_t bytes);

 private:
  std::deque<std::pair<std::string, uint64_t>> tables_;  // name, bytes; oldest first
  uint64_t bytes_ = 0;
};

// Why a program of this user finds no room for a table in `tables`, and what to do about it; "": it finds some.
std::string WhyNoTable(const std::string& tables);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_SWEEP_TABLES_H_
