// The small pages of the server: what there is to look at.
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

// Of each ProfileKind, and at the end of what is resident.
using SampleCounts = std::array<size_t, kProfileKinds + 1>;
// As Go's index: profiles with their number of samples. `name` of the process.
std::string PprofIndexPage(std::string_view name, const SampleCounts& samples);

// The processes, each with what is to be had of it. `live`: there are live pages to go to.
std::string ProcessesPage(const std::vector<ProcessTable>& processes, bool live);

// A page as the answer, by a Content-Security-Policy of no script, nothing from elsewhere, in no frame.
HttpResponse PageResponse(std::string page);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_PAGES_H_
