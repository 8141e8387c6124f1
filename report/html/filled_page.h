// The page with its parts in it: a file that opens alone, or one that a server feeds.
#ifndef HOLDFAST_REPORT_HTML_FILLED_PAGE_H_
#define HOLDFAST_REPORT_HTML_FILLED_PAGE_H_

#include <string>
#include <string_view>

namespace holdfast {

// What is filled in; all of it is markup by now.
struct PageParts {
  std::string_view title, data, files;
  std::string_view feed = {};  // of a page that is fed as it goes: where, a path of the server
};

// "" without a template.
std::string FilledPage(const PageParts& parts);
// The policy that such a page states for itself, for the header of the answer.
std::string_view PolicyOf(std::string_view page);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTML_FILLED_PAGE_H_
