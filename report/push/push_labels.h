// The labels of a process, as Pyroscope keeps its series apart by them.
//
//   service_name   as the option says, OTEL_SERVICE_NAME of the program, or its name
//   program, host, pid
//   version        service.version of its OTEL_RESOURCE_ATTRIBUTES; without it build_id, of its main program
//   container, pod, namespace, node   where they are known: report/live/place_of_process.h
//   what the user adds
#ifndef HOLDFAST_REPORT_PUSH_PUSH_LABELS_H_
#define HOLDFAST_REPORT_PUSH_PUSH_LABELS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/live/place_of_process.h"
#include "report/processes/find_tables.h"
#include "report/table/snapshot.h"

namespace holdfast {

using PushLabel = std::pair<std::string, std::string>;  // name, value

// Pyroscope makes a series of the labels of a process and those of a sample (`wait`, `lock`, the program's own), and refuses a
// profile where one has more than 30. Three are not ours: the profile's name, `__delta__`, and what /ingest adds.
inline constexpr size_t kMostServerLabels = 30, kServersOwnLabels = 3;
inline constexpr size_t kMostUserLabels = 16;
// How many labels a sample may have beside so many of its process.
constexpr size_t SampleLabelsBeside(size_t of_process) {
  constexpr size_t kMost = kMostServerLabels - kServersOwnLabels;
  return of_process < kMost ? kMost - of_process : 0;
}

// "team=payments" → a label. The message of an error is complete.
absl::StatusOr<PushLabel> ParsePushLabel(std::string_view text);

// Sorted by name, each once; values as the server takes them (UTF-8, at most 2,048 bytes). `more` wins over ours. `place`: as it
// was while the process ran; afterwards nobody knows.
std::vector<PushLabel> LabelsOf(const ProcessTable& process, const PlaceOfProcess& place, const Snapshot& snapshot,
                                const std::vector<PushLabel>& more);

// The same of one that has ended, and whose environment nobody saw: ours is taken for it.
std::vector<PushLabel> LabelsOfEnded(const std::string& program, const std::string& host, uint32_t pid,
                                     std::string_view build_id, const std::vector<PushLabel>& more);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_PUSH_LABELS_H_
