#include "report/base/thread_name.h"

#include <cctype>

namespace holdfast {

std::string FoldedThreadName(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && std::isdigit(static_cast<unsigned char>(name[end - 1])) != 0) --end;
  return end == name.size() || end == 0 ? std::string(name) : std::string(name.substr(0, end)) + "*";
}

}  // namespace holdfast
