#include "report/fleet/push/curl.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "report/base/load_library.h"

namespace holdfast {
namespace {

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<Curl> LoadOnce() {
  const absl::StatusOr<void*> loaded = LoadLibrary(
      {"libcurl.so.4", "libcurl-gnutls.so.4"}, "Debian 13 and Ubuntu 24.04: apt install libcurl4t64; before: libcurl4");
  if (!loaded.ok()) return loaded.status();
  void* const library = *loaded;
  Curl curl;
  if (!Find(library, "curl_global_init", &curl.global_init) || !Find(library, "curl_easy_init", &curl.init) ||
      !Find(library, "curl_easy_cleanup", &curl.cleanup) || !Find(library, "curl_easy_reset", &curl.reset) ||
      !Find(library, "curl_easy_setopt", &curl.set) || !Find(library, "curl_easy_perform", &curl.perform) ||
      !Find(library, "curl_easy_getinfo", &curl.get) || !Find(library, "curl_easy_strerror", &curl.error_text) ||
      !Find(library, "curl_slist_append", &curl.append) || !Find(library, "curl_slist_free_all", &curl.free_list)) {
    return absl::UnavailableError("libcurl.so.4 is not a known version of the library.");
  }
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return absl::UnavailableError("libcurl cannot be initialized.");
  return curl;
}

}  // namespace

absl::StatusOr<const Curl*> Curl::Load() {
  static const absl::StatusOr<Curl> loaded = LoadOnce();
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace holdfast
