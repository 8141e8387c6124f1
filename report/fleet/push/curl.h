// The functions of libcurl that we use. The library is loaded only when something is pushed, because it depends on TLS,
// LDAP and more, which would slow down every start of the tool. Both of Debian's builds work (OpenSSL's and GnuTLS's).
#ifndef HOLDFAST_REPORT_FLEET_PUSH_CURL_H_
#define HOLDFAST_REPORT_FLEET_PUSH_CURL_H_

#define CURL_DISABLE_TYPECHECK  // its macros do not work with function pointers
#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace holdfast {

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) init;
  decltype(&curl_easy_cleanup) cleanup;
  decltype(&curl_easy_reset) reset;
  decltype(&curl_easy_setopt) set;
  decltype(&curl_easy_perform) perform;
  decltype(&curl_easy_getinfo) get;
  decltype(&curl_easy_strerror) error_text;
  decltype(&curl_slist_append) append;
  decltype(&curl_slist_free_all) free_list;

  // Loads the library once; it remains loaded.
  static absl::StatusOr<const Curl*> Load();
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_CURL_H_
