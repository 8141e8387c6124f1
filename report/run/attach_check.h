// Whether the library can be loaded into a running process: the dry run of `holdfast attach`, which `holdfast doctor PID
// --attach` prints. Stops nothing and changes nothing.
#ifndef HOLDFAST_REPORT_RUN_ATTACH_CHECK_H_
#define HOLDFAST_REPORT_RUN_ATTACH_CHECK_H_

#include <sys/types.h>

#include <string>

#include "report/run/findings.h"
#include "report/run/seccomp_filter.h"

namespace holdfast {

// Whether a running process can be attached to on this processor: a call of its own code is borrowed.
#if defined(__x86_64__)
inline constexpr bool kHasAttach = true;
#else
inline constexpr bool kHasAttach = false;
#endif

struct AttachCheck {
  Findings findings;
  std::string refused;         // the first reason against it; "": it can be done
  bool has_library = false;    // loaded already, at the start or by an earlier attach
  bool is_preloaded = false;   // at the start
  bool is_profiled = false;    // or perhaps, without a table
  std::string loaded_library;  // the name by which dlopen finds it then
  // The process may see other files than we do: "/proc/4242/root", else "". The file of the library is then handed over.
  std::string root;
  std::string tables;           // the folder of tables, as the process names it
  bool starts_exporter = true;  // it may, if ours ends: it sees the tool, and no filter is in the way
};

// What the seccomp filters of the process do. Only root can read them, and only by a stop of each thread.
struct FilterAnswer {
  bool is_known = false;
  bool is_left_open = false;  // there are filters, and root may read them
  std::string forbidden;  // why these filters, or the lack of knowledge about them, forbid to attach; "": they do not
  FilterCounts counts;    // the answer is about these
  uint32_t stops = 0, lost_calls = 0;
};
// Call before this process gives up root's rights. `may_stop`: false leaves the answer open where it needs a stop.
FilterAnswer ReadFilterAnswer(pid_t pid, bool may_stop, bool detaches = false);

// `library`: our own. `tables`: where the table will be, as the process names it; "": the default folder.
AttachCheck CheckAttach(pid_t pid, const std::string& library, const std::string& tables, const FilterAnswer& filters);
// The checks that a detach needs: nothing is loaded or allocated.
AttachCheck CheckDetach(pid_t pid, const std::string& library, const FilterAnswer& filters);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_ATTACH_CHECK_H_
