// The page that `holdfast html` and `holdfast serve` fill in. Built from report/page/web/ and linked into the tool. Empty if
// the tool was built without it (-DHOLDFAST_WEB=OFF, or without node).
#ifndef HOLDFAST_REPORT_PAGE_WEB_TEMPLATE_H_
#define HOLDFAST_REPORT_PAGE_WEB_TEMPLATE_H_

#include <string_view>

namespace holdfast {

std::string_view WebTemplate();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PAGE_WEB_TEMPLATE_H_
