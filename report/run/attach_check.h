// Whether the library can be loaded into a running process: the dry run of `holdfast attach`, which `holdfast doctor PID
// --attach` prints. Stops nothing and changes nothing.
#ifndef HOLDFAST_REPORT_RUN_ATTACH_CHECK_H_
#define HOLDFAST_REPORT_RUN_ATTACH_CHECK_H_

#include <sys/types.h>

#include <string>

#include "report/run/findings.h"

namespace holdfast {

struct AttachCheck {
  Findings findings;
  std::string refused;         // the first reason against it; "": it can be done
  bool has_library = false;    // loaded already, at the start or by an earlier attach
  std::string loaded_library;  // its path then
};

// `library`: our own. `tables`: where the table will be; "": the default folder.
AttachCheck CheckAttach(pid_t pid, const std::string& library, const std::string& tables);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_ATTACH_CHECK_H_
