// Fills the parts of the page into its template: a self-contained file, or a page that a server feeds with data.
#ifndef HOLDFAST_REPORT_PAGE_FILLED_PAGE_H_
#define HOLDFAST_REPORT_PAGE_FILLED_PAGE_H_

#include <string>
#include <string_view>

namespace holdfast {

// The parts to fill in, already escaped as markup.
struct PageParts {
  std::string_view title, data, files;
  std::string_view feed = {};  // for a live page: the path on the server that provides its data
};

// Returns "" if the tool has no template.
std::string FilledPage(const PageParts& parts);
// Returns the Content-Security-Policy in the page, to send it as a header as well.
std::string_view PolicyOf(std::string_view page);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PAGE_FILLED_PAGE_H_
