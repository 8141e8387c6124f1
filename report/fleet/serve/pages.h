// The small pages of the server, which list what there is to see.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_PAGES_H_
#define HOLDFAST_REPORT_FLEET_SERVE_PAGES_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "report/daemon/find_tables.h"
#include "report/http/http_message.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// One per ProfileKind, and one for resident memory at the end.
using SampleCounts = std::array<size_t, kProfileKinds + 1>;
// Like Go's index: profiles with their number of samples. `name`: of the process.
std::string PprofIndexPage(std::string_view name, const SampleCounts& samples);

// Lists the processes with memory, waits and deadlocks, as `holdfast ls` and `holdfast stuck` know them. `live`: there are live
// pages to go to. `sorted_by`: a column (memory, age, pid, program, waits); anything else is memory.
std::string ProcessesPage(const std::vector<ProcessTable>& processes, bool live, std::string_view sorted_by = {});

// The script that keeps the list up to date.
constexpr std::string_view kListScriptPath = "/list.js";
HttpResponse ListScript();

// A page as the answer, by a Content-Security-Policy of no script but the list's, nothing from elsewhere, in no frame.
HttpResponse PageResponse(std::string page);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_PAGES_H_
