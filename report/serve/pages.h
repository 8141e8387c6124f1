// The small pages of the server, which list what there is to see.
#ifndef HOLDFAST_REPORT_SERVE_PAGES_H_
#define HOLDFAST_REPORT_SERVE_PAGES_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "report/http/http_message.h"
#include "report/processes/find_tables.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// One per ProfileKind, and one for resident memory at the end.
using SampleCounts = std::array<size_t, kProfileKinds + 1>;
// Like Go's index: profiles with their number of samples. `name`: of the process.
std::string PprofIndexPage(std::string_view name, const SampleCounts& samples);

// Lists the processes, each with links to its data. `live`: there are live pages.
std::string ProcessesPage(const std::vector<ProcessTable>& processes, bool live);

// Wraps a page as a response with a Content-Security-Policy: no scripts, nothing from elsewhere, no frames.
HttpResponse PageResponse(std::string page);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_PAGES_H_
