#include "report/page/html_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "report/base/utf8.h"
#include "report/profile/profile.h"

namespace holdfast {
namespace {

constexpr int64_t kAround = 6;
constexpr int64_t kMaxFileBytes = 4 << 20;
constexpr std::array<std::string_view, 22> kEndings = {".c",   ".cc",  ".cpp", ".cxx", ".c++", ".h",  ".hh", ".hpp",
                                                       ".hxx", ".h++", ".inc", ".ipp", ".tcc", ".rs", ".go", ".s",
                                                       ".S",   ".d",   ".zig", ".m",   ".mm",  ".cu"};

bool IsSource(const std::string& file) {
  struct stat status;
  return IsSourceName(file) && stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_size <= kMaxFileBytes;
}

}  // namespace

bool IsSourceName(const std::string& file) {
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return file.ends_with(ending); }) ||
         file.find("/include/c++/") != std::string::npos;
}

SourceText ReadSource(const std::string& file, const std::set<int64_t>& lines) {
  SourceText source{.file = file, .chunks = {}};
  if (lines.empty() || !IsSource(file)) return source;
  std::ifstream in(file, std::ios::binary);
  std::string text;
  int64_t number = 0, last = -1;
  auto wanted = lines.begin();
  while (std::getline(in, text)) {
    ++number;
    while (wanted != lines.end() && *wanted + kAround < number) ++wanted;
    if (wanted == lines.end()) break;
    if (number < *wanted - kAround) continue;
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.size() > 400) text.resize(400);
    text = RepairUtf8(text);
    if (last == number - 1) {
      source.chunks.back().second += "\n" + text;
    } else {
      source.chunks.emplace_back(number, text);
    }
    source.bytes += text.size() + 1;
    last = number;
  }
  return source;
}

}  // namespace holdfast
