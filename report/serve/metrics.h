// /metrics: some lines for each process, in OpenMetrics or in Prometheus' older text format. No label has a stack, a
// function or a lock in it: what a series costs its server does not depend on the program.
#ifndef HOLDFAST_REPORT_SERVE_METRICS_H_
#define HOLDFAST_REPORT_SERVE_METRICS_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/http/http_message.h"
#include "report/processes/find_tables.h"
#include "report/serve/growth_watch.h"

namespace holdfast {

enum class MetricLabels {
  kOfProcess,  // program and pid
  kOfTarget,  // none: /targets gives them to who scrapes one process, and the same ones here would become exported_program …
};
// `accept`: the field of the request by which the format is chosen. `growths`: by process, see GrowthWatch::Of.
HttpResponse Metrics(const std::vector<ProcessTable>& processes, const std::vector<std::vector<WatchedGrowth>>& growths,
                     std::string_view accept, MetricLabels which);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_METRICS_H_
