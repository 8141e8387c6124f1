// The place of a process, in the terms of a fleet: container and pod, from its control group and its environment.
//
//   container   the 64 (or 32) hexadecimal digits that Docker, containerd, CRI-O and podman put into the path of the
//               control group
//   pod, namespace, node, service   POD_NAME, POD_NAMESPACE, NODE_NAME, OTEL_SERVICE_NAME in the environment; in a pod
//               without POD_NAME its HOSTNAME
//   version     service.version in OTEL_RESOURCE_ATTRIBUTES
#ifndef HOLDFAST_REPORT_FLEET_LIVE_PLACE_OF_PROCESS_H_
#define HOLDFAST_REPORT_FLEET_LIVE_PLACE_OF_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

namespace holdfast {

struct PlaceOfProcess {
  std::string container, pod, name_space, node, service, version;  // "" = unknown
};

PlaceOfProcess PlaceOf(pid_t pid);
// Parses the text of /proc/PID/cgroup and /proc/PID/environ.
PlaceOfProcess PlaceIn(std::string_view control_groups, std::string_view environment);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_PLACE_OF_PROCESS_H_
