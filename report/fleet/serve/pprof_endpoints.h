// /debug/pprof/ of one process, with the answers of Go's net/http/pprof, and delta_* with those of godeltaprof.
//
//   heap, allocs, mutex, block, map, threads, exceptions
//                                   the profile; with seconds=N the changes during that time; with debug=1 as text
//   resident                        the same, if enabled: run --resident yes, or set PID resident=on
//   delta_heap, delta_mutex, delta_block   the changes since the last request, even if another server answered it
//   cmdline, symbol                 for `go tool pprof`
// Errors are identical to Go's: text, with X-Go-Pprof: 1, which makes pprof print them. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_PPROF_ENDPOINTS_H_
#define HOLDFAST_REPORT_FLEET_SERVE_PPROF_ENDPOINTS_H_

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "report/fleet/live/live_observers.h"
#include "report/fleet/live/live_process.h"
#include "report/fleet/live/profile_delta.h"
#include "report/http/http_message.h"

namespace holdfast {

// Returns an error in the form of net/http/pprof.
HttpResponse PprofError(int status, std::string_view text);

class PprofEndpoints {
 public:
  // `ticker` must outlive this object.
  explicit PprofEndpoints(ThreadTicker* ticker) : observers_(ticker) {}

  // `name`: the path after /debug/pprof/.
  HttpResponse Answer(const ProcessTable& process, std::string_view name, const HttpRequest& request);

 private:
  HttpResponse Index(const ProcessTable& process);
  // `file`: index into kFileKinds.
  HttpResponse Profiles(const ProcessTable& process, int file, bool allocs, const HttpRequest& request);
  HttpResponse Change(const ProcessTable& process, int file, bool allocs, std::string_view seconds,
                      const HttpRequest& request);
  HttpResponse Increase(const ProcessTable& process, ProfileKind kind);
  HttpResponse CommandLine(const ProcessTable& process);
  HttpResponse Symbol(const ProcessTable& process, const HttpRequest& request);

  Names names_;
  LiveObservers observers_;
  // The last report of delta_*, by ProcessId. Some exited processes are kept; kMaxReported in all.
  static constexpr size_t kMaxReported = 4096;
  struct Reported {
    uint64_t turn = 0;  // the time of the last request, as a counter
    std::array<CumulativeValues, kProfileKinds> kinds;
  };
  std::mutex mutex_;  // guards what follows
  uint64_t turns_ = 0;
  std::map<std::string, Reported> reported_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_PPROF_ENDPOINTS_H_
