#include "report/page/filled_page.h"

#include <algorithm>

#include "report/page/web_template.h"

namespace holdfast {

std::string FilledPage(const PageParts& parts) {
  const std::string_view page = WebTemplate();
  std::string filled;
  filled.reserve(page.size() + parts.data.size() + parts.files.size() + 1024);
  for (size_t from = 0; from < page.size();) {
    const size_t mark = std::min(page.find("@@", from), page.size());
    filled += page.substr(from, mark - from);
    if (mark == page.size()) break;
    const size_t end = page.find("@@", mark + 2);
    const std::string_view name = page.substr(mark + 2, end - mark - 2);
    if (name == "TITLE") filled += parts.title;
    if (name == "DATA") filled += parts.data;
    if (name == "FILES") filled += parts.files;
    if (name == "CONNECT" && !parts.feed.empty()) filled += "connect-src 'self'; ";
    if (name == "LIVE" && !parts.feed.empty()) filled.append(" data-live=\"").append(parts.feed).append("\"");
    from = end + 2;
  }
  return filled;
}

std::string_view PolicyOf(std::string_view page) {
  constexpr std::string_view kBegin = "\"Content-Security-Policy\" content=\"";
  const size_t begin = page.find(kBegin);
  if (begin == std::string_view::npos) return {};
  page.remove_prefix(begin + kBegin.size());
  return page.substr(0, page.find('"'));
}

}  // namespace holdfast
