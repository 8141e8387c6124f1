#include "report/http/http_message.h"

#include <optional>

#include "report/base/split.h"

namespace holdfast {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> Unescape(std::string_view text, bool plus_is_blank) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      plain += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      plain += text[i] == '+' && plus_is_blank ? ' ' : text[i];
    }
  }
  return plain;
}

}  // namespace

std::string_view HttpRequest::Parameter(std::string_view name) const {
  for (const auto& [key, value] : parameters) {
    if (key == name) return value;
  }
  return {};
}

bool ParseTarget(std::string_view target, HttpRequest* request) {
  const size_t question = target.find('?');
  std::optional<std::string> path = Unescape(target.substr(0, question), false);
  if (!path.has_value() || path->empty() || (*path)[0] != '/') return false;
  request->path = *std::move(path);
  if (question == std::string_view::npos) return true;
  request->raw_query = target.substr(question + 1);
  for (const std::string_view pair : Split(request->raw_query, "&")) {
    if (pair.empty() || pair.find(';') != std::string_view::npos) continue;
    const size_t equals = pair.find('=');
    std::optional<std::string> key = Unescape(pair.substr(0, equals), true);
    std::optional<std::string> value =
        Unescape(equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (key.has_value() && value.has_value()) request->parameters.emplace_back(*std::move(key), *std::move(value));
  }
  return true;
}

}  // namespace holdfast
