// `holdfast push`: looks for processes, tells what is new in them each so often, and sends it.
#ifndef HOLDFAST_REPORT_PUSH_PUSHER_H_
#define HOLDFAST_REPORT_PUSH_PUSHER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "report/base/signals.h"
#include "report/live/live_process.h"
#include "report/push/push_client.h"
#include "report/push/push_entry.h"
#include "report/push/push_labels.h"

namespace holdfast {

struct PushOptions {
  ServerOptions server;
  PushProtocol protocol = PushProtocol::kPush;
  ProcessChoice choice;
  std::vector<PushLabel> labels;
  std::chrono::nanoseconds every = std::chrono::seconds(15);
  std::optional<uint64_t> max_disk_bytes;
  std::chrono::nanoseconds since_start_within = std::chrono::minutes(1);  // of what began earlier: from now on
  bool once = false;                                                      // what there is now
  // Of an exporter, which holds the other end of our standard input: we end when it has ended.
  bool follow = false;
  // Called with the folders of tables, every ten minutes.
  std::function<void(const std::set<std::string>&)> sweep;
  std::chrono::milliseconds linger{10'000};  // at the end, for a server that takes nothing of what still waits
};

// Until it is asked to end, or, where processes were named, until these have. Unavailable: something still waits on disk.
absl::Status Push(const PushOptions& options, HeldSignals& signals);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_PUSHER_H_
