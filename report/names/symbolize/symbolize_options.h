// Code shared by `symbolize` and `bundle`: where to search for debug files, and the summary line.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_SYMBOLIZE_OPTIONS_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_SYMBOLIZE_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "report/names/elf/debug_file_finder.h"
#include "report/names/symbolize/profile_symbolizer.h"

namespace holdfast {

void AddDebugDirOption(CLI::App* command, std::vector<std::string>* debug_dirs);

// Returns `debug_dirs`, then the system's folders; adds debuginfod if $DEBUGINFOD_URLS is set.
DebugFileFinder::Options DebugFileOptions(const std::vector<std::string>& debug_dirs);

// "1204 of 1210 addresses named, 1100 with lines; no names: app (No such file or directory); no lines: libc.so.6, …"
std::string SummaryOf(const SymbolizeReport& report);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_SYMBOLIZE_OPTIONS_H_
