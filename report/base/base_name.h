// Returns the last part of a path, by which people know the file.
#ifndef HOLDFAST_REPORT_BASE_BASE_NAME_H_
#define HOLDFAST_REPORT_BASE_BASE_NAME_H_

#include <string_view>

namespace holdfast {

inline std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_BASE_NAME_H_
