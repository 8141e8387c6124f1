// What to install or to fetch so that unnamed code gets its names, in one sentence for people:
//
//   62.40% lies in code without names, of libsqlite3.so.0.8.6. To name it: apt install libsqlite3-0-dbgsym, or set
//   DEBUGINFOD_URLS=https://debuginfod.debian.net; then holdfast symbolize holdfast.sqlite3.4242
//
// In order: a debug file that is here already; the package that dpkg knows the file by, and the distribution's server; for
// files of no package, the debug file of whoever built them. Any thread.
#ifndef HOLDFAST_REPORT_MISSING_NAMES_HOW_TO_NAME_H_
#define HOLDFAST_REPORT_MISSING_NAMES_HOW_TO_NAME_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/missing_names/unnamed_code.h"

namespace holdfast {

// The package that `path` is of, as dpkg's lists have it; "" where none is. `root`: "" or another system's.
std::string PackageOfFile(std::string_view path, const std::string& root = "");

// The debuginfod server of the distribution: of the one that /etc/os-release names.
std::string DebuginfodServer(const std::string& root = "");

// The sentence, "" where nothing is missing. `files`: what the command is to name, as the user gave it.
std::string HowToName(const UnnamedCode& code, const std::vector<std::string>& files, const std::string& root = "");

// The same for locks that are known by their address only, of all processes together: `locks` are the names of all of them, as they are shown. Those of
// globals (server!0x4a080) get names from debug files, those of the heap from a finer heap profile. `said`: what HowToName said
// above it, so that no command is said twice.
struct NamesOfLocks {
  const Profile* profile;
  std::vector<std::string> locks;
};
std::string HowToNameLocks(const std::vector<NamesOfLocks>& processes, const std::vector<std::string>& files,
                           std::string_view said, const std::string& root = "");
inline std::string HowToNameLocks(const Profile& profile, const std::vector<std::string>& locks,
                                  const std::vector<std::string>& files, std::string_view said,
                                  const std::string& root = "") {
  return HowToNameLocks({{&profile, locks}}, files, said, root);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MISSING_NAMES_HOW_TO_NAME_H_
