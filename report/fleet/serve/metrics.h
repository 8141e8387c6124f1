// /metrics: some lines for each process, in OpenMetrics or in Prometheus' older text format. No label contains a stack,
// a function or a lock, so the number of series does not depend on the program.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_METRICS_H_
#define HOLDFAST_REPORT_FLEET_SERVE_METRICS_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/daemon/find_tables.h"
#include "report/fleet/serve/growth_watch.h"
#include "report/http/http_message.h"

namespace holdfast {

enum class MetricLabels {
  kOfProcess,  // program and pid
  // None: /targets already gives these labels when one process is scraped. Repeating them would yield
  // exported_program …
  kOfTarget,
};
// `accept`: the request's Accept field, which selects the format. `growths`: per process, see GrowthWatch::Of.
HttpResponse Metrics(const std::vector<ProcessTable>& processes, const std::vector<std::vector<WatchedGrowth>>& growths,
                     std::string_view accept, MetricLabels which);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_METRICS_H_
