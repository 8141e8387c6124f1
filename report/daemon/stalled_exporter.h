// Says why an exporter that holds its lock does not respond: it is stopped, held by a debugger, frozen or hung.
#ifndef HOLDFAST_REPORT_DAEMON_STALLED_EXPORTER_H_
#define HOLDFAST_REPORT_DAEMON_STALLED_EXPORTER_H_

#include <string>

#include "sampler/contract/exporter_progress.h"

namespace holdfast {

// Call after progress.IsStalled() was true. Returns "its exporter, process 4242, is stopped; resume it with kill -CONT 4242".
std::string WhyStalled(const ExporterProgress& progress);

// Checks for some milliseconds whether the exporter of a folder is stopped. Returns "" if it is not.
std::string WhyExporterIsStopped(const std::string& tables, const std::string& out, FolderId id);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_STALLED_EXPORTER_H_
