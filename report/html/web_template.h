// The page that `holdfast html` and `holdfast serve` fill in: built from report/web/ and linked into the tool; empty when the tool was
// built without it (-DHOLDFAST_WEB=OFF, or no node at hand).
#ifndef HOLDFAST_REPORT_HTML_WEB_TEMPLATE_H_
#define HOLDFAST_REPORT_HTML_WEB_TEMPLATE_H_

#include <string_view>

namespace holdfast {

std::string_view WebTemplate();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTML_WEB_TEMPLATE_H_
