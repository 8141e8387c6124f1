#include "report/http/microhttpd.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "report/base/load_library.h"

namespace holdfast {
namespace {

#ifdef HOLDFAST_STATIC_MICROHTTPD  // in packages: scripts/static-libraries
constexpr Microhttpd kLinkedIn = {.start_daemon = MHD_start_daemon,
                                  .stop_daemon = MHD_stop_daemon,
                                  .create_response_from_buffer = MHD_create_response_from_buffer,
                                  .add_response_header = MHD_add_response_header,
                                  .queue_response = MHD_queue_response,
                                  .destroy_response = MHD_destroy_response,
                                  .lookup_connection_value = MHD_lookup_connection_value,
                                  .get_connection_info = MHD_get_connection_info,
                                  .is_feature_supported = MHD_is_feature_supported};
#endif

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<Microhttpd> LoadOnce(bool with_tls) {
#ifdef HOLDFAST_STATIC_MICROHTTPD
  if (!with_tls) return kLinkedIn;
#endif
  const absl::StatusOr<void*> loaded =
      LoadLibrary({"libmicrohttpd.so.12"}, "Debian and Ubuntu: apt install libmicrohttpd12");
  if (!loaded.ok()) return loaded.status();
  void* const library = *loaded;
  Microhttpd http;
  if (!Find(library, "MHD_start_daemon", &http.start_daemon) || !Find(library, "MHD_stop_daemon", &http.stop_daemon) ||
      !Find(library, "MHD_create_response_from_buffer", &http.create_response_from_buffer) ||
      !Find(library, "MHD_add_response_header", &http.add_response_header) ||
      !Find(library, "MHD_queue_response", &http.queue_response) ||
      !Find(library, "MHD_destroy_response", &http.destroy_response) ||
      !Find(library, "MHD_lookup_connection_value", &http.lookup_connection_value) ||
      !Find(library, "MHD_get_connection_info", &http.get_connection_info) ||
      !Find(library, "MHD_is_feature_supported", &http.is_feature_supported)) {
    return absl::UnavailableError("libmicrohttpd.so.12 is not a known version of the library.");
  }
  return http;
}

}  // namespace

absl::StatusOr<const Microhttpd*> Microhttpd::Load(bool with_tls) {
  static const absl::StatusOr<Microhttpd> loaded = LoadOnce(with_tls);
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

}  // namespace holdfast
