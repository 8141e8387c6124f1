#include "report/http/admission.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"

namespace holdfast {
namespace {

constexpr size_t kShortestToken = 16, kLongestToken = 4096;

bool SameSecret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

bool HasToken(std::string_view authorization, const std::string& token) {
  constexpr std::string_view kBearer = "bearer ", kBasic = "basic ";
  const auto begins = [&](std::string_view scheme) {
    return authorization.size() > scheme.size() &&
           absl::AsciiStrToLower(std::string(authorization.substr(0, scheme.size()))) == scheme;
  };
  if (begins(kBearer)) return SameSecret(authorization.substr(kBearer.size()), token);
  if (!begins(kBasic)) return false;
  std::string pair;
  if (!absl::Base64Unescape(std::string(authorization.substr(kBasic.size())), &pair)) return false;
  const size_t colon = pair.find(':');
  return colon != std::string::npos && SameSecret(std::string_view(pair).substr(colon + 1), token);
}

// "box:6060" → "box", "[::1]:6060" → "::1".
std::string NameIn(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? std::string() : std::string(host.substr(1, end - 1));
  }
  return absl::AsciiStrToLower(std::string(host.substr(0, host.find(':'))));
}

bool IsAddress(const std::string& name) {
  in6_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool IsOurs(const AdmissionRules& rules, std::string_view host) {
  const std::string name = NameIn(host);
  return IsAddress(name) || name == "localhost" ||
         std::any_of(rules.hosts.begin(), rules.hosts.end(),
                     [&](const std::string& known) { return absl::AsciiStrToLower(known) == name; });
}

HttpResponse Refused(int status, std::string why) {
  return {.status = status, .fields = {{"X-Content-Type-Options", "nosniff"}}, .body = std::move(why) + "\n"};
}

}  // namespace

std::optional<HttpResponse> Refusal(const AdmissionRules& rules, const HttpRequest& request, const HeaderField& field) {
  const std::string_view host = field("Host");
  if (rules.check_host && !host.empty() && !IsOurs(rules, host)) {
    return Refused(403, fmt::format("{}: not a name of this server. Use its address, or allow the name with --host.",
                                    Printable(host)));
  }
  const std::string_view origin = field("Origin");
  if (!origin.empty() && origin != fmt::format("{}://{}", rules.tls ? "https" : "http", host)) {
    return Refused(403, "requests from pages of other origins are refused");
  }
  const std::string_view site = field("Sec-Fetch-Site");
  if (!site.empty() && site != "same-origin" && site != "none" &&
      !(field("Sec-Fetch-Mode") == "navigate" && field("Sec-Fetch-Dest") == "document")) {
    return Refused(403, "requests from pages of other sites are refused");
  }
  if (!rules.token.empty() && !HasToken(field("Authorization"), rules.token)) {
    HttpResponse response = Refused(401, "a token is needed: Authorization: Bearer TOKEN");
    response.fields.emplace_back("WWW-Authenticate", "Bearer");
    response.fields.emplace_back("WWW-Authenticate", "Basic realm=\"holdfast\"");
    return response;
  }
  const bool posts = request.method == "POST" && rules.takes_post && rules.takes_post(request.path);
  if (!posts && request.method != "GET" && request.method != "HEAD") {
    HttpResponse response = Refused(405, "Method Not Allowed");
    response.fields.emplace_back("Allow", "GET, HEAD");
    return response;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0) {
    return absl::NotFoundError(fmt::format("{}: cannot read the token ({}).", Printable(path), strerror(errno)));
  }
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return absl::PermissionDeniedError(
        fmt::format("{}: other users can read or change this token. Run chmod 600 on it first.", Printable(path)));
  }
  std::string text(kLongestToken + 1, '\0');
  const ssize_t got = read(file.get(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  text.resize(std::min(text.find('\n'), text.size()));
  text = std::string(absl::StripAsciiWhitespace(text));
  if (text.size() < kShortestToken || text.size() > kLongestToken) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: its first line is not a token ({} to {} bytes). Make one with head -c 32 /dev/urandom | base64.",
        Printable(path), kShortestToken, kLongestToken));
  }
  return text;
}

}  // namespace holdfast
