// Handles leftovers in the folder of tables: of processes killed while making a table, of killed exporters, and of
// folders that could not be written.
#ifndef HOLDFAST_REPORT_DAEMON_SWEEP_TABLES_H_
#define HOLDFAST_REPORT_DAEMON_SWEEP_TABLES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Removes leftovers of this user's dead processes in `tables`: at once, unfinished tables and locks of killed
// exporters; after a day, uncollected tables (if their folder is served again, they are exported first). Returns the
// number of removed files.
int SweepOldTables(const std::string& tables);

// The tables that one exporter could not export and leaves for `holdfast collect`: the newest, at most 16 MiB, and at
// most half of what all tables of the user may use (sampler/contract/table_share.h). Tables left by other folders'
// exporters count as well.
class LeftTables {
 public:
  void Add(const FileDescriptor& folder, const std::string& name, uint64_t bytes);

 private:
  std::deque<std::pair<std::string, uint64_t>> tables_;  // name, bytes; oldest first
  uint64_t bytes_ = 0;
};

// Returns why a program of this user finds no space for a table in `tables`, and what to do about it; "": there is
// space.
std::string WhyNoTable(const std::string& tables);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_SWEEP_TABLES_H_
