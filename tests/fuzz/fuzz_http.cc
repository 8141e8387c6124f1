// Any request: its target, and the fields by which a client is let in. A line each: method, target, Host, Origin,
// Authorization, Sec-Fetch-Site.
#include <cstdint>
#include <map>
#include <string>

#include "report/base/split.h"
#include "report/http/admission.h"
#include "report/http/http_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto lines = holdfast::Split(text, "\n");
  lines.resize(6);
  holdfast::HttpRequest request;
  request.method = lines[0];
  const bool read = holdfast::ParseTarget(lines[1], &request);
  if (read && (request.path.empty() || request.path[0] != '/')) __builtin_trap();
  const std::map<std::string, std::string_view> fields = {
      {"Host", lines[2]}, {"Origin", lines[3]}, {"Authorization", lines[4]}, {"Sec-Fetch-Site", lines[5]}};
  const auto field = [&](const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string_view() : found->second;
  };
  holdfast::AdmissionRules rules;
  rules.hosts = {"box.example"};
  rules.takes_post = [](std::string_view path) { return path == "/symbol"; };
  const bool let_in = !holdfast::Refusal(rules, request, field).has_value();
  if (let_in && request.method != "GET" && request.method != "HEAD" && request.method != "POST") __builtin_trap();
  rules.token = "0123456789abcdef";
  // With a token nobody comes in who did not say it, one way or the other.
  if (!holdfast::Refusal(rules, request, field).has_value() && lines[4].size() < rules.token.size()) __builtin_trap();
  return 0;
}
