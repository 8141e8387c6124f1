// The functions of libmicrohttpd that we use. The library is loaded when a server starts, because it depends on a TLS
// library that would slow down every start of the tool. Packages link it into the tool without TLS, and load the
// system's library if TLS is needed.
#ifndef HOLDFAST_REPORT_HTTP_MICROHTTPD_H_
#define HOLDFAST_REPORT_HTTP_MICROHTTPD_H_

#include <microhttpd.h>

#include "absl/status/statusor.h"

namespace holdfast {

struct Microhttpd {
  decltype(&MHD_start_daemon) start_daemon;
  decltype(&MHD_stop_daemon) stop_daemon;
  decltype(&MHD_create_response_from_buffer) create_response_from_buffer;
  decltype(&MHD_add_response_header) add_response_header;
  decltype(&MHD_queue_response) queue_response;
  decltype(&MHD_destroy_response) destroy_response;
  decltype(&MHD_lookup_connection_value) lookup_connection_value;
  decltype(&MHD_get_connection_info) get_connection_info;
  decltype(&MHD_is_feature_supported) is_feature_supported;

  // Loads the library once; it remains loaded. The first call decides whether it must support TLS.
  static absl::StatusOr<const Microhttpd*> Load(bool with_tls = false);
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_MICROHTTPD_H_
