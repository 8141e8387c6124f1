#include "report/fleet/push/push_client.h"

#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/load_library.h"
#include "report/base/printable.h"

namespace holdfast {
namespace {

constexpr size_t kMaxAnswer = 256 << 10;  // room for an error per profile of the largest request
constexpr long kConnectTimeoutS = 10;

size_t TakeBody(char* bytes, size_t size, size_t count, void* to) {
  auto* text = static_cast<std::string*>(to);
  text->append(bytes, std::min(size * count, kMaxAnswer - std::min(kMaxAnswer, text->size())));
  return size * count;
}

bool IsField(const std::string& line, std::string_view name, std::string* value) {
  if (line.size() <= name.size() || strncasecmp(line.c_str(), name.data(), name.size()) != 0) return false;
  *value = line.substr(name.size());
  return true;
}

size_t TakeHeader(char* bytes, size_t size, size_t count, void* to) {
  auto* reply = static_cast<Reply*>(to);
  std::string value;
  const std::string line(bytes, size * count);
  if (IsField(line, "retry-after:", &value)) {
    int seconds = 0;  // ignores a date, which is also allowed
    if (absl::SimpleAtoi(value, &seconds) && seconds >= 0) reply->retry_after_s = seconds;
  } else if (IsField(line, "date:", &value)) {
    tm time = {};
    if (strptime(value.c_str(), " %a, %d %b %Y %H:%M:%S GMT", &time) != nullptr) reply->date_s = timegm(&time);
  }
  return size * count;
}

int IsAskedToStop(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(stop)->load() ? 1 : 0;
}

absl::StatusOr<std::string> FirstLineOf(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    return absl::NotFoundError(fmt::format("{}: cannot be read ({}).", Printable(path), strerror(errno)));
  }
  const std::string text = ReadWhole(fmt::format("/proc/self/fd/{}", file.get()), 64 << 10);
  std::string line = text.substr(0, text.find_first_of("\r\n"));
  if (line.empty()) return absl::InvalidArgumentError(fmt::format("{}: its first line is empty.", Printable(path)));
  return line;
}

}  // namespace

absl::StatusOr<std::string> CheckedUrl(std::string_view url) {
  const auto wrong = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}. Give a URL such as http://localhost:4040 or https://HOST.", Printable(url), why));
  };
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return wrong("no URL");
  if (url.substr(0, scheme) != "http" && url.substr(0, scheme) != "https") return wrong("neither http nor https");
  if (url.substr(0, scheme) == "https" && IsLinkedStatically()) {
    return absl::UnimplementedError(
        "https is not possible: this tool is linked statically, for systems without glibc, and has no TLS. Use http, or the tool of another package.");
  }
  const std::string_view rest = url.substr(scheme + 3);
  const std::string_view host = rest.substr(0, rest.find('/'));
  if (host.find('@') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        "the URL contains a password, which the process list shows to everybody. Use --user-file instead.");
  }
  if (host.empty() || host[0] == ':') return wrong("it has no host");
  if (rest.find_first_of("?# ") != std::string_view::npos) return wrong("it has a query, a fragment or a blank");
  while (url.ends_with('/')) url.remove_suffix(1);
  return std::string(url);
}

absl::StatusOr<std::unique_ptr<PushClient>> PushClient::Make(const ServerOptions& options) {
  const absl::StatusOr<const Curl*> curl = Curl::Load();
  if (!curl.ok()) return curl.status();
  ServerOptions checked = options;
  absl::StatusOr<std::string> url = CheckedUrl(options.url);
  if (!url.ok()) return url.status();
  checked.url = *std::move(url);
  for (const std::string* path : {&options.token_file, &options.user_file}) {
    if (path->empty()) continue;
    if (const auto line = FirstLineOf(*path); !line.ok()) return line.status();
  }
  std::unique_ptr<PushClient> client(new PushClient(*curl, checked));
  client->handle_ = (*curl)->init();
  if (client->handle_ == nullptr) return absl::UnavailableError("libcurl cannot be initialized.");
  return client;
}

PushClient::~PushClient() {
  if (handle_ != nullptr) curl_->cleanup(handle_);
}

Reply PushClient::Post(const PushRequest& request, const std::atomic<bool>& stop) {
  Reply reply;
  curl_->reset(handle_);  // keeps the connection
  const auto set = [this](CURLoption option, auto value) { curl_->set(handle_, option, value); };
  set(CURLOPT_URL, (options_.url + request.path).c_str());
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, request.body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
  set(CURLOPT_TIMEOUT, static_cast<long>(options_.timeout_s));
  set(CURLOPT_USERAGENT, "holdfast");
  set(CURLOPT_WRITEFUNCTION, TakeBody);
  set(CURLOPT_WRITEDATA, &reply.text);
  set(CURLOPT_HEADERFUNCTION, TakeHeader);
  set(CURLOPT_HEADERDATA, &reply);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, IsAskedToStop);
  set(CURLOPT_XFERINFODATA, const_cast<std::atomic<bool>*>(&stop));
  char error[CURL_ERROR_SIZE] = "";
  set(CURLOPT_ERRORBUFFER, error);
  for (const auto& [option, value] : {std::pair(CURLOPT_CAINFO, &options_.ca_file),
                                      {CURLOPT_SSLCERT, &options_.certificate},
                                      {CURLOPT_SSLKEY, &options_.key},
                                      {CURLOPT_PROXY, &options_.proxy}}) {
    if (!value->empty()) set(option, value->c_str());
  }
  std::string user;
  curl_slist* headers = nullptr;
  const auto add = [&](const std::string& line) { headers = curl_->append(headers, line.c_str()); };
  add("Content-Type: " + request.content_type);
  if (request.is_gzip) add("Content-Encoding: gzip");
  add("Expect:");  // do not wait for a 100
  if (!options_.tenant.empty()) add("X-Scope-OrgID: " + options_.tenant);
  absl::Status secret;
  if (!options_.token_file.empty()) {
    const absl::StatusOr<std::string> token = FirstLineOf(options_.token_file);
    if (token.ok()) add("Authorization: Bearer " + *token);
    secret = token.status();
  } else if (!options_.user_file.empty()) {
    const absl::StatusOr<std::string> line = FirstLineOf(options_.user_file);
    if (line.ok()) user = *line;
    secret = line.status();
  }
  if (!user.empty()) {
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    set(CURLOPT_USERPWD, user.c_str());
  }
  set(CURLOPT_HTTPHEADER, headers);
  if (!secret.ok()) {
    reply.text = std::string(secret.message());
  } else if (const CURLcode result = curl_->perform(handle_); result != CURLE_OK) {
    curl_off_t sent = 0;
    curl_->get(handle_, CURLINFO_SIZE_UPLOAD_T, &sent);
    reply = {.text = *error != '\0' ? error : curl_->error_text(result), .left_us = sent > 0};
  } else {
    long status = 0;
    curl_->get(handle_, CURLINFO_RESPONSE_CODE, &status);
    reply.status = static_cast<int>(status);
  }
  curl_->free_list(headers);
  return reply;
}

}  // namespace holdfast
