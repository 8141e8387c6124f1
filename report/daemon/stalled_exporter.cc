#include "report/daemon/stalled_exporter.h"

#include <poll.h>

#include "fmt/format.h"
#include "report/base/time_budget.h"

namespace holdfast {

std::string WhyStalled(const ExporterProgress& progress) {
  if (progress.pid() == 0) return "its exporter, in another container, does not respond";
  const std::string exporter = fmt::format("its exporter, process {},", progress.pid());
  switch (progress.state()) {
    case 'T':
      return fmt::format("{} is stopped; resume it with kill -CONT {}", exporter, progress.pid());
    case 't':
      return fmt::format("{} is held by a debugger", exporter);
    case 'Z':
    case 'X':
      return fmt::format("{} has exited, but a child of it holds its lock", exporter);
    default:
      return fmt::format("{} does not respond: it is frozen, or waits for a file system that does not answer",
                         exporter);
  }
}

std::string WhyExporterIsStopped(const std::string& tables, const std::string& out, FolderId id) {
  constexpr int kLooks = 50;
  ExporterProgress progress;
  for (int i = 0; i < kLooks; ++i) {
    if (progress.IsStalled(tables.c_str(), out.c_str(), id)) return WhyStalled(progress);
    if (progress.state() != 'T' && progress.state() != 't') break;
    poll(nullptr, 0, static_cast<int>(ExporterProgress::kBetweenLooksNs / kMs));
  }
  return "";
}

}  // namespace holdfast
