// A server's knowledge of one process, once the spool is empty. The next increase is computed from it.
// It is stored in the spool, so that a new pusher continues where the last one stopped.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_REPORTED_PROCESS_H_
#define HOLDFAST_REPORT_FLEET_PUSH_REPORTED_PROCESS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/fleet/live/profile_delta.h"
#include "report/fleet/push/push_labels.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ReportedProcess {
  std::string process;  // ProcessId: of this process only
  std::string program = {};
  uint32_t pid = 0;  // as in the names of its files
  std::vector<PushLabel> labels = {};
  std::array<CumulativeValues, kProfileKinds> kinds = {};
  uint64_t last_entry = 0;  // the last entry in the spool that these values include
};

std::string EncodeReported(const ReportedProcess& reported);
std::optional<ReportedProcess> DecodeReported(std::string_view bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_REPORTED_PROCESS_H_
