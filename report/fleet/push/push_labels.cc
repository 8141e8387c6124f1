#include "report/fleet/push/push_labels.h"

#include <unistd.h>

#include <map>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/fleet/live/live_process.h"

namespace holdfast {
namespace {

constexpr size_t kLongestName = 1024, kLongestValue = 2048;  // the server's defaults

bool IsLabelName(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && name.size() <= kLongestName && kLetters.find(name[0]) != std::string_view::npos &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
             std::string_view::npos;
}

std::string PushLabelValue(std::string_view text) {
  std::string value = RepairUtf8(text);
  if (value.size() > kLongestValue) value.resize(ValidUtf8Prefix(std::string_view(value).substr(0, kLongestValue)));
  return value;
}

struct Labelled {
  std::string_view program, host, build_id;
  uint32_t pid = 0;
  PlaceOfProcess place;
};

std::vector<PushLabel> Labels(const Labelled& process, const std::vector<PushLabel>& more) {
  const PlaceOfProcess& place = process.place;
  std::map<std::string, std::string> labels;
  const auto add = [&](const char* name, std::string_view value) {
    if (!value.empty()) labels[name] = PushLabelValue(value);
  };
  add("service_name", process.program.empty() ? "unknown" : process.program);
  add("service_name", place.service);
  add("program", process.program);
  add("host", process.host);
  add("pid", fmt::format("{}", process.pid));
  add(place.version.empty() ? "build_id" : "version", place.version.empty() ? process.build_id : place.version);
  add("container", place.container);
  add("pod", place.pod);
  add("namespace", place.name_space);
  add("node", place.node);
  for (const auto& [name, value] : more) labels[name] = PushLabelValue(value);
  return {labels.begin(), labels.end()};
}

}  // namespace

absl::StatusOr<PushLabel> ParsePushLabel(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("--label {}: {}. A label is NAME=VALUE, such as team=payments.", Printable(text), why));
  };
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return wrong("it has no '='");
  const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  if (!IsLabelName(name)) return wrong("its name may contain only letters, digits and '_'");
  if (name.starts_with("__")) return wrong("names that begin with \"__\" are reserved by the server");
  if (value.empty() || value.size() > kLongestValue || ValidUtf8Prefix(value) != value.size()) {
    return wrong("its value is empty, longer than 2,048 bytes, or not UTF-8");
  }
  return PushLabel(name, value);
}

std::vector<PushLabel> LabelsOf(const ProcessTable& process, const PlaceOfProcess& place, const ProcessState& state,
                                const std::vector<PushLabel>& more) {
  std::string build_id;
  for (const ModuleInfo& module : state.waits.modules) {
    if (module.path == state.table->process.executable) build_id = module.build_id;
  }
  return Labels({.program = state.table->process.program,
                 .host = state.table->process.host,
                 .build_id = build_id,
                 .pid = static_cast<uint32_t>(PidOf(process)),
                 .place = place},
                more);
}

std::vector<PushLabel> LabelsOfEnded(const std::string& program, const std::string& host, uint32_t pid,
                                     std::string_view build_id, const std::vector<PushLabel>& more) {
  return Labels({.program = program, .host = host, .build_id = build_id, .pid = pid, .place = PlaceOf(getpid())}, more);
}

}  // namespace holdfast
