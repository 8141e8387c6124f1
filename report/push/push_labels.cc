#include "report/push/push_labels.h"

#include <map>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/live/live_process.h"
#include "report/live/place_of_process.h"

namespace holdfast {
namespace {

constexpr size_t kLongestName = 1024, kLongestValue = 2048;  // by the server's defaults

bool IsLabelName(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && name.size() <= kLongestName && kLetters.find(name[0]) != std::string_view::npos &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") ==
             std::string_view::npos;
}

std::string LabelValue(std::string_view text) {
  std::string value = RepairUtf8(text);
  if (value.size() > kLongestValue) value.resize(ValidUtf8Prefix(std::string_view(value).substr(0, kLongestValue)));
  return value;
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
  if (!IsLabelName(name)) return wrong("its name is not made of letters, digits and '_'");
  if (name.starts_with("__")) return wrong("names that begin with \"__\" are the server's");
  if (value.empty() || value.size() > kLongestValue || ValidUtf8Prefix(value) != value.size()) {
    return wrong("its value is empty, longer than 2,048 bytes, or not UTF-8");
  }
  return PushLabel(name, value);
}

std::vector<PushLabel> LabelsOf(const ProcessTable& process, const Snapshot& snapshot,
                                const std::vector<PushLabel>& more) {
  const PlaceOfProcess place = process.pid.has_value() ? PlaceOf(*process.pid) : PlaceOfProcess();
  const std::string& program = snapshot.process.program;
  std::map<std::string, std::string> labels;
  const auto add = [&](const char* name, std::string_view value) {
    if (!value.empty()) labels[name] = LabelValue(value);
  };
  add("service_name", !place.service.empty() ? place.service : !program.empty() ? program : "unknown");
  add("program", program);
  add("host", snapshot.process.host);
  add("pid", fmt::format("{}", PidOf(process)));
  if (!place.version.empty()) {
    add("version", place.version);
  } else {
    for (const ModuleInfo& module : snapshot.modules) {
      if (module.path == snapshot.process.executable) add("build_id", module.build_id);
    }
  }
  add("container", place.container);
  add("pod", place.pod);
  add("namespace", place.name_space);
  add("node", place.node);
  for (const auto& [name, value] : more) labels[name] = LabelValue(value);
  return {labels.begin(), labels.end()};
}

}  // namespace holdfast
