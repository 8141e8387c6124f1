#include "report/cmd/project_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/pattern.h"
#include "report/base/say.h"

namespace holdfast {
namespace {

constexpr size_t kMaxBytes = 64 << 10;

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

bool ReadOwn(const std::string& path, std::string* text) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  if (info.st_uid != geteuid() && info.st_uid != 0) return false;
  text->resize(kMaxBytes);
  const ssize_t got = pread(file.get(), text->data(), text->size(), 0);
  text->resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  return true;
}

}  // namespace

void AddProjectPatterns(const std::string& folder, std::vector<std::string>* plumbing) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(folder, error);
  std::string text, path;
  while (!error) {
    path = (at / ".holdfast").string();
    if (ReadOwn(path, &text)) break;
    if (!at.has_relative_path()) return;
    at = at.parent_path();
  }
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::string_view pattern = line.starts_with("plumbing ") ? Trimmed(line.substr(9)) : std::string_view();
    const auto compiled = Pattern::Compile(fmt::format("{}:{}", path, number), pattern);
    if (pattern.empty()) {
      Say(fmt::format("{}:{}: ignored \"{}\". Write plumbing REGEX.", path, number, line));
    } else if (!compiled.ok()) {
      Say(std::string(compiled.status().message()));
    } else {
      plumbing->emplace_back(pattern);
    }
  }
}

}  // namespace holdfast
