#include "report/fleet/serve/targets.h"

#include "fmt/format.h"
#include "report/base/json_text.h"
#include "report/fleet/live/live_process.h"
#include "report/fleet/live/place_of_process.h"

namespace holdfast {

HttpResponse Targets(const std::vector<ProcessTable>& processes, const std::string& host) {
  JsonText json;
  json.Open('[');
  for (const ProcessTable& process : processes) {
    const pid_t pid = PidOf(process);
    const PlaceOfProcess place = process.pid.has_value() ? PlaceOf(*process.pid) : PlaceOfProcess();
    json.Open('{').Key("targets").Open('[').String(host).Close(']').Key("labels").Open('{');
    json.Key("__metrics_path__").String(fmt::format("/p/{}/metrics", pid));
    json.Key("__profile_path_prefix__").String(fmt::format("/p/{}", pid));
    json.Key("program").String(process.table.program());
    json.Key("pid").String(fmt::format("{}", pid));
    json.Key("service_name").String(place.service.empty() ? process.table.program() : place.service);
    const auto add = [&](const char* name, const std::string& value) {
      if (!value.empty()) json.Key(name).String(value);
    };
    add("container", place.container);
    add("pod", place.pod);
    add("namespace", place.name_space);
    add("node", place.node);
    json.Close('}').Close('}');
  }
  json.Close(']');
  return {.content_type = "application/json",
          .fields = {{"X-Content-Type-Options", "nosniff"}},
          .body = json.text() + "\n"};
}

}  // namespace holdfast
