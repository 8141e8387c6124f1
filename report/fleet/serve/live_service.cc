#include "report/fleet/serve/live_service.h"

#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/fleet/serve/live_page.h"
#include "report/fleet/serve/metrics.h"
#include "report/fleet/serve/pages.h"
#include "report/fleet/serve/targets.h"

namespace holdfast {
namespace {

constexpr std::string_view kPprof = "/debug/pprof/", kProcessPrefix = "/p/";

HttpResponse NotFound() {
  return {.status = 404, .fields = {{"X-Content-Type-Options", "nosniff"}}, .body = "404 page not found\n"};
}

// Redirects to the same path with a '/' appended, as Go's server does.
HttpResponse MovedTo(const std::string& path) {
  return {.status = 301, .fields = {{"Location", path}}, .body = fmt::format("Moved Permanently: {}\n", path)};
}

// "/p/4242/debug/pprof/heap" → 4242 and "/debug/pprof/heap".
std::optional<std::pair<pid_t, std::string_view>> SplitProcess(std::string_view path) {
  if (!path.starts_with(kProcessPrefix)) return std::nullopt;
  path.remove_prefix(kProcessPrefix.size());
  const size_t end = path.find('/');
  pid_t pid = 0;
  if (path.empty() || path[0] < '0' || path[0] > '9') return std::nullopt;
  if (!absl::SimpleAtoi(std::string(path.substr(0, end)), &pid) || pid <= 0) return std::nullopt;
  return std::pair(pid, end == std::string_view::npos ? std::string_view() : path.substr(end));
}

}  // namespace

bool LiveService::TakesPost(std::string_view path) {
  if (const auto of_process = SplitProcess(path)) path = of_process->second;
  return path == "/debug/pprof/symbol" || path == "/holders";
}

HttpResponse LiveService::Answer(const HttpRequest& request) {
  const std::string_view path = request.path;
  if (path == "/") {
    const std::vector<ProcessTable> all = LiveProcesses(choice_);
    return all.size() == 1 && HasLivePage()
               ? LivePage(all[0])
               : PageResponse(ProcessesPage(all, HasLivePage(), request.Parameter("sort")));
  }
  if (path == kListScriptPath) return ListScript();
  if (path == "/metrics") {
    const std::vector<ProcessTable> all = LiveProcesses(choice_);
    return Metrics(all, growth_.Of(all), request.accept, MetricLabels::kOfProcess);
  }
  if (path == "/targets") return Targets(LiveProcesses(choice_), request.host.empty() ? address_ : request.host);
  if (path == "/debug/pprof") return MovedTo("/debug/pprof/");
  if (path.starts_with(kPprof)) return AnswerOfTheOne(path.substr(kPprof.size()), request);
  if (const auto of_process = SplitProcess(path)) return AnswerOf(of_process->first, of_process->second, request);
  return NotFound();
}

HttpResponse LiveService::AnswerOf(pid_t pid, std::string_view path, const HttpRequest& request) {
  absl::StatusOr<ProcessTable> process = LiveProcess(choice_, pid);
  if (!process.ok()) return PprofError(404, std::string(process.status().message()));
  if (path.empty() && HasLivePage()) return MovedTo(fmt::format("/p/{}/", pid));
  if (path == "/" && HasLivePage()) return LivePage(*process);
  if (path == "/live" && HasLivePage()) return LiveData(*process, request, feeds_);
  if (path == "/holders" && HasLivePage()) return holders_.Answer(*process, request);
  if (path == "/debug/pprof" || path == "/" || path.empty()) return MovedTo(fmt::format("/p/{}/debug/pprof/", pid));
  if (path.starts_with(kPprof)) return pprof_.Answer(*process, path.substr(kPprof.size()), request);
  if (path == "/metrics") {
    std::vector<ProcessTable> one;
    one.push_back(*std::move(process));
    return Metrics(one, {growth_.OfOne(one[0])}, request.accept, MetricLabels::kOfTarget);
  }
  return NotFound();
}

HttpResponse LiveService::AnswerOfTheOne(std::string_view name, const HttpRequest& request) {
  const std::string_view pid_text = request.Parameter("pid"), program = request.Parameter("program");
  if (!pid_text.empty()) {
    const absl::StatusOr<pid_t> pid = ParsePid(std::string(pid_text));
    if (!pid.ok()) return PprofError(400, std::string(pid.status().message()));
    const absl::StatusOr<ProcessTable> process = LiveProcess(choice_, *pid);
    if (!process.ok()) return PprofError(404, std::string(process.status().message()));
    return pprof_.Answer(*process, name, request);
  }
  const std::vector<ProcessTable> all = LiveProcesses(choice_);
  std::vector<const ProcessTable*> meant;
  for (const ProcessTable& process : all) {
    if (program.empty() || process.table.program() == program) meant.push_back(&process);
  }
  if (meant.size() == 1) return pprof_.Answer(*meant[0], name, request);
  if (name.empty()) return PageResponse(ProcessesPage(all, HasLivePage()));
  if (meant.empty()) {
    return PprofError(404, program.empty()
                               ? "no process of this user is profiled"
                               : fmt::format("program {}: no process of it is profiled", Printable(program)));
  }
  std::string text = "several processes are profiled: add pid=PID or program=NAME, or ask /p/PID/debug/pprof/";
  for (const ProcessTable* process : meant) {
    text += fmt::format("\n{} {}", PidOf(*process), Printable(process->table.program()));
  }
  return PprofError(400, text);
}

}  // namespace holdfast
