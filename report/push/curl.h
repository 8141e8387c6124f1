// The functions of libcurl that are used. The library is loaded when somebody pushes: it brings TLS, LDAP and more with it,
// which every start of the tool would pay for. Either of Debian's builds does (OpenSSL's or GnuTLS's).
#ifndef HOLDFAST_REPORT_PUSH_CURL_H_
#define HOLDFAST_REPORT_PUSH_CURL_H_

#define CURL_DISABLE_TYPECHECK  // its macros do not work through pointers
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

  // Once; it stays loaded.
  static absl::StatusOr<const Curl*> Load();
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_CURL_H_
