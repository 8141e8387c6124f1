#include "report/fleet/live/place_of_process.h"

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"

namespace holdfast {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

bool IsId(std::string_view text) {
  return (text.size() == 64 || text.size() == 32) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// "/kubepods.slice/kubepods-pod1f….slice/cri-containerd-4f….scope" → "4f…": the last part that is an id.
std::string ContainerIn(std::string_view control_groups) {
  std::string found;
  for (const std::string_view part : Split(control_groups, "/\n:.")) {
    const size_t dash = part.rfind('-');
    const std::string_view id = dash == std::string_view::npos ? part : part.substr(dash + 1);
    if (IsId(id)) found = std::string(id);
  }
  return found;
}

}  // namespace

PlaceOfProcess PlaceIn(std::string_view control_groups, std::string_view environment) {
  const auto variable = [&](std::string_view name) -> std::string {
    for (const std::string_view one : Split(environment, std::string_view("\0", 1))) {
      if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
        return std::string(one.substr(name.size() + 1));
      }
    }
    return {};
  };
  PlaceOfProcess place;
  place.container = ContainerIn(control_groups);
  place.pod = variable("POD_NAME");
  if (place.pod.empty() && !variable("KUBERNETES_SERVICE_HOST").empty()) place.pod = variable("HOSTNAME");
  place.name_space = variable("POD_NAMESPACE");
  place.node = variable("NODE_NAME");
  place.service = variable("OTEL_SERVICE_NAME");
  const std::string attributes = variable("OTEL_RESOURCE_ATTRIBUTES");
  for (const std::string_view attribute : Split(attributes, ",")) {
    constexpr std::string_view kVersion = "service.version=";
    if (attribute.starts_with(kVersion)) place.version = std::string(attribute.substr(kVersion.size()));
  }
  return place;
}

PlaceOfProcess PlaceOf(pid_t pid) {
  return PlaceIn(ReadWhole(fmt::format("/proc/{}/cgroup", pid), kMaxBytes),
                 ReadWhole(fmt::format("/proc/{}/environ", pid), kMaxBytes));
}

}  // namespace holdfast
