// Explains in one sentence what to install or fetch so that unnamed code gets names:
//
//   62% is in code without names, of libsqlite3.so.0.8.6. To name it: apt install libsqlite3-0-dbgsym, or set
//   DEBUGINFOD_URLS=https://debuginfod.debian.net; then holdfast symbolize holdfast.sqlite3.4242
//
// In order of preference: a debug file that is already installed; the package that dpkg lists for the file, and the
// distribution's server; for files in no package, the debug file of the file's builder. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_HOW_TO_NAME_H_
#define HOLDFAST_REPORT_ANALYSIS_HOW_TO_NAME_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/unnamed_code.h"

namespace holdfast {

// Returns the package that contains `path`, from dpkg's lists; "" if there is none. `root`: "", or the root folder of
// another system.
std::string PackageOfFile(std::string_view path, const std::string& root = "");

// Returns the debuginfod server of the distribution in /etc/os-release.
std::string DebuginfodServer(const std::string& root = "");

// Returns the sentence; "" if no names are missing. `files`: the arguments for the suggested command, as the user gave
// them.
std::string HowToName(const UnnamedCode& code, const std::vector<std::string>& files, const std::string& root = "");

// Returns the sentence for locks that are known only by address, in all processes together. `locks`: the displayed
// names of all locks. Locks in global variables (server!0x4a080) get names from debug files, locks on the heap from a
// finer heap profile. `said`: the result of HowToName printed before, so that no command is repeated.
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

#endif  // HOLDFAST_REPORT_ANALYSIS_HOW_TO_NAME_H_
