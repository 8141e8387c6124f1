// /targets: Prometheus' HTTP service discovery, one entry per process. Alloy's discovery.http reads it, too.
//
//   [{"targets": ["127.0.0.1:6060"], "labels": {"__metrics_path__": "/p/4242/metrics", "__profile_path_prefix__": "/p/4242",
//     "program": "redis-server", "pid": "4242", "container": "…", "pod": "…", "namespace": "…"}}]
#ifndef HOLDFAST_REPORT_FLEET_SERVE_TARGETS_H_
#define HOLDFAST_REPORT_FLEET_SERVE_TARGETS_H_

#include <string>
#include <vector>

#include "report/daemon/find_tables.h"
#include "report/http/http_message.h"

namespace holdfast {

// `host`: the address under which the client reaches us.
HttpResponse Targets(const std::vector<ProcessTable>& processes, const std::string& host);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_TARGETS_H_
