// Where a process runs, as fleets name it: container and pod, from its control group and its environment.
//
//   container   the 64 (or 32) hexadecimal digits that Docker, containerd, CRI-O and podman put into its control group's path
//   pod, namespace, node, service   POD_NAME, POD_NAMESPACE, NODE_NAME, OTEL_SERVICE_NAME of its environment; in a pod without
//               POD_NAME its HOSTNAME
//   version     service.version of its OTEL_RESOURCE_ATTRIBUTES
#ifndef HOLDFAST_REPORT_LIVE_PLACE_OF_PROCESS_H_
#define HOLDFAST_REPORT_LIVE_PLACE_OF_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace holdfast {

struct PlaceOfProcess {
  std::string container, pod, name_space, node, service, version;  // "" = not known
};

PlaceOfProcess PlaceOf(pid_t pid);
// By the text of /proc/PID/cgroup and /proc/PID/environ.
PlaceOfProcess PlaceIn(std::string_view control_groups, std::string_view environment);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIVE_PLACE_OF_PROCESS_H_
