// `holdfast holders`: what keeps a process's memory alive, by retained size.
//
//   server (pid 4242): 98.3MiB in 1024311 blocks of glibc's heap
//     retained       %   blocks  holder, and the blocks that it retains
//      64.2MiB   65.3%   812000  session_map (server)
//      60.1MiB   61.2%   800000    Session::Log ← handle: Entry
//
// Exit codes: 0, 2 (wrong usage), 3 (the process or the core file cannot be read).
#ifndef HOLDFAST_REPORT_SHOW_HOLDERS_VIEW_H_
#define HOLDFAST_REPORT_SHOW_HOLDERS_VIEW_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "report/holders/holder_scan.h"
#include "report/show/observed_process.h"

namespace holdfast {

struct HoldersOptions {
  std::string of_process;  // a PID, or a core file
  std::vector<std::string> tables;
  std::string function;     // --of
  std::string address;      // --address
  std::string format;       // text, json or csv
  std::string scan_memory;  // a size; "" = half of the free memory
  bool stop = false;        // --stop: works on a copy, made while the process was stopped
  size_t depth = 6, rows = 15;
  double least_percent = 0.5;
  size_t width = 0;  // of the terminal; 0 = unlimited
};

// The whole tree of holders, for a profile: blocks are labelled as RunHolders labels them.
HolderNode WholeHolderTree(ObservedProcess* process, HolderScan* scan, ScanBudget* budget);

int RunHolders(const HoldersOptions& options, std::ostream& out, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_HOLDERS_VIEW_H_
