// `holdfast push`: looks for processes, collects at each interval what is new in them, and sends it.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_PUSHER_H_
#define HOLDFAST_REPORT_FLEET_PUSH_PUSHER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "report/base/signals.h"
#include "report/fleet/live/live_process.h"
#include "report/fleet/push/push_client.h"
#include "report/fleet/push/push_entry.h"
#include "report/fleet/push/push_labels.h"

namespace holdfast {

struct PushOptions {
  ServerOptions server;
  PushProtocol protocol = PushProtocol::kPush;
  ProcessChoice choice;
  std::vector<PushLabel> labels;
  std::chrono::nanoseconds every = std::chrono::seconds(15);
  std::optional<uint64_t> max_disk_bytes;
  std::chrono::nanoseconds since_start_within = std::chrono::minutes(1);  // older processes count from now on
  bool once = false;                                                      // push the current state, then stop
  // Started by an exporter, which holds the other end of our standard input: stop after the exporter has exited.
  bool follow = false;
  // Called every ten minutes with the folders of tables.
  std::function<void(const std::set<std::string>&)> sweep;
  std::chrono::milliseconds linger{10'000};  // at the end, how long to wait for a server that accepts nothing
};

// Runs until it is asked to stop or, if processes were named, until they have exited. Returns Unavailable if entries
// still wait on disk.
absl::Status Push(const PushOptions& options, HeldSignals& signals);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_PUSHER_H_
