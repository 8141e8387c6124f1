// The labels of a process. Pyroscope distinguishes series by them.
//
//   service_name   from the option, the program's OTEL_SERVICE_NAME, or the program's name
//   program, host, pid
//   version        service.version in the program's OTEL_RESOURCE_ATTRIBUTES; else build_id, of the main program
//   container, pod, namespace, node   if known: report/fleet/live/place_of_process.h
//   additional labels of the user
#ifndef HOLDFAST_REPORT_FLEET_PUSH_PUSH_LABELS_H_
#define HOLDFAST_REPORT_FLEET_PUSH_PUSH_LABELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/daemon/find_tables.h"
#include "report/fleet/live/place_of_process.h"
#include "report/observe/process_state.h"

namespace holdfast {

using PushLabel = std::pair<std::string, std::string>;  // name, value

// Pyroscope makes a series for each combination of process labels and sample labels (`wait`, `lock`, the program's
// own). It rejects a profile if a series has more than 30 labels. Three of these are the server's: the profile's name,
// `__delta__`, and one that /ingest adds.
inline constexpr size_t kMaxServerLabels = 30, kServersOwnLabels = 3;
inline constexpr size_t kMaxUserLabels = 16;
// Returns how many labels a sample may have if the process has `of_process`.
constexpr size_t SampleLabelsBeside(size_t of_process) {
  constexpr size_t kMax = kMaxServerLabels - kServersOwnLabels;
  return of_process < kMax ? kMax - of_process : 0;
}

// "team=payments" → a label. An error has a complete message.
absl::StatusOr<PushLabel> ParsePushLabel(std::string_view text);

// Returns labels sorted by name, each once, with values that the server accepts (UTF-8, at most 2,048 bytes). `more`
// overrides ours. `place`: stored while the process ran, because it cannot be determined after exit.
std::vector<PushLabel> LabelsOf(const ProcessTable& process, const PlaceOfProcess& place, const ProcessState& state,
                                const std::vector<PushLabel>& more);

// The same for an exited process with an unknown environment: uses our own environment instead.
std::vector<PushLabel> LabelsOfEnded(const std::string& program, const std::string& host, uint32_t pid,
                                     std::string_view build_id, const std::vector<PushLabel>& more);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_PUSH_LABELS_H_
