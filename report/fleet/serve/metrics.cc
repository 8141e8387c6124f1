#include "report/fleet/serve/metrics.h"

#include <sys/resource.h>

#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/variance.h"
#include "report/base/utf8.h"
#include "report/builder/profile_builder.h"
#include "report/fleet/live/live_process.h"
#include "report/observe/observe.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

std::string MetricLabelValue(std::string_view text) {
  std::string safe;
  for (const char c : RepairUtf8(text)) {
    if (c == '\\' || c == '"') {
      safe += '\\';
      safe += c;
    } else if (c == '\n') {
      safe += "\\n";
    } else {
      safe += c;
    }
  }
  return safe;
}

// One metric family. Its lines must be contiguous, whatever the number of processes.
struct Family {
  const char *name, *unit, *help;
  bool counter;
  std::string lines = {};

  void Add(const std::string& labels, double value) {
    fmt::format_to(std::back_inserter(lines), "{}{}{{{}}} {}\n", name, counter ? "_total" : "", labels, value);
  }
  void Add(const std::string& labels, uint64_t value) {
    fmt::format_to(std::back_inserter(lines), "{}{}{{{}}} {}\n", name, counter ? "_total" : "", labels, value);
  }
  void Write(bool openmetrics, std::string* text) const {
    if (lines.empty()) return;
    const char* suffix = counter && !openmetrics ? "_total" : "";
    const auto out = std::back_inserter(*text);
    fmt::format_to(out, "# HELP {}{} {}\n# TYPE {}{} {}\n", name, suffix, help, name, suffix,
                   counter ? "counter" : "gauge");
    if (openmetrics && *unit != '\0') fmt::format_to(out, "# UNIT {} {}\n", name, unit);
    *text += lines;
  }
};

struct Families {
  Family in_use{"holdfast_heap_inuse_bytes", "bytes", "Estimated heap memory in use.", false};
  Family in_use_error{"holdfast_heap_inuse_error_bytes", "bytes",
                      "The 95 % half-width of the estimated heap memory in use.", false};
  Family highest{"holdfast_heap_inuse_highest_bytes", "bytes",
                 "Estimated peak of heap memory in use; missing at interval 1.", false};
  Family objects{"holdfast_heap_inuse_objects", "", "Estimated heap blocks in use.", false};
  Family allocated{"holdfast_heap_allocated_bytes", "bytes", "Memory allocated since the start.", true};
  Family heap_verdict{"holdfast_heap_growth_verdict", "",
                      "Whether the heap grows: 2 growing, 1 in steps, 0 level, -1 cannot tell.", false};
  Family heap_growth{"holdfast_heap_growth_bytes_per_second", "",
                     "Total growth of the growing stacks; 0 if none grows.", false};
  Family heap_bound{"holdfast_heap_growth_bound_bytes_per_second", "",
                    "Upper bound of the growth of a leak, with 95 % confidence.", false};
  Family map_verdict{"holdfast_mapped_growth_verdict", "", "The same for the program's own mappings.", false};
  Family map_growth{"holdfast_mapped_growth_bytes_per_second", "", "The same for the program's own mappings.", false};
  Family map_bound{"holdfast_mapped_growth_bound_bytes_per_second", "", "The same for the program's own mappings.",
                   false};
  Family waits{"holdfast_lock_waits", "", "Waits, by what was waited for.", true};
  Family wait_seconds{"holdfast_lock_wait_seconds", "seconds", "Time waited, by what was waited for.", true};
  Family mapped{"holdfast_mapped_bytes", "bytes", "Memory in the program's own mappings.", false};
  Family threads{"holdfast_threads_alive", "", "Threads that the program created and that have not exited.", false};
  Family created{"holdfast_threads_created", "", "Threads that the program created.", true};
  Family thrown{"holdfast_exceptions", "", "Exceptions thrown, by estimate.", true};
  Family lost{"holdfast_lost", "", "Events that could not be recorded, by cause.", true};
  Family exporter{"holdfast_exporter_up", "", "Whether an exporter writes the profiles of the process.", false};
  Family own_seconds{"holdfast_own_seconds", "seconds", "Estimated time that sampling took in the process.", true};
  Family own_bytes{"holdfast_own_table_bytes", "bytes", "Memory of the table of the process.", false};
  Family started{"holdfast_process_start_time_seconds", "seconds", "When the process started, since 1970.", false};
  Family server_seconds{"holdfast_serve_cpu_seconds", "seconds", "Processor time of holdfast serve.", true};

  std::vector<const Family*> All() const {
    return {&in_use,       &in_use_error, &highest,     &objects,    &allocated,     &heap_verdict,
            &heap_growth,  &heap_bound,   &map_verdict, &map_growth, &map_bound,     &waits,
            &wait_seconds, &mapped,       &threads,     &created,    &thrown,        &lost,
            &exporter,     &own_seconds,  &own_bytes,   &started,    &server_seconds};
  }
};

void AddHeap(const TableSnapshot& snapshot, const std::string& labels, Families* all) {
  double bytes = 0, objects = 0, variance = 0;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile != ProfileKind::kHeap) continue;
    bytes += row.sums[kAllocSpace] - row.sums[kFreeSpace];
    objects += row.sums[kAllocObjects] - row.sums[kFreeObjects];
    variance += row.sums[kAllocSpaceVariance] - row.sums[kFreeSpaceVariance];
  }
  all->in_use.Add(labels, static_cast<uint64_t>(std::llround(std::max(0.0, bytes))));
  all->in_use_error.Add(labels, static_cast<uint64_t>(std::llround(HalfWidthOf(variance))));
  if (snapshot.highest_bytes > 0)
    all->highest.Add(labels, static_cast<uint64_t>(std::llround(std::min(snapshot.highest_bytes, 9e18))));
  all->objects.Add(labels, static_cast<uint64_t>(std::llround(std::max(0.0, objects))));
  all->allocated.Add(labels, snapshot.totals.alloc_bytes);
}

// Adds families that a process may not have; then it gets no line.
void AddOthers(const ProcessState& state, const std::string& labels, Families* all) {
  double mapped = 0, created = 0, alive = 0, thrown = 0;
  for (const RowInfo& row : state.table->rows) {
    if (row.profile == ProfileKind::kMap) mapped += row.sums[kAllocSpace] - row.sums[kFreeSpace];
    if (row.profile == ProfileKind::kThreads) {
      created += row.sums[kThreadsCreated];
      alive += row.sums[kThreadsCreated] - row.sums[kThreadsEnded];
    }
    if (row.profile == ProfileKind::kExceptions) thrown += row.sums[kThrown];
  }
  const auto add = [&labels](Family* family, double value) {
    if (value > 0) family->Add(labels, static_cast<uint64_t>(std::llround(std::min(value, 9e18))));
  };
  alive -= static_cast<double>(std::count(state.thread_is_gone.begin(), state.thread_is_gone.end(), true));
  add(&all->mapped, mapped);
  add(&all->threads, alive);
  add(&all->created, created);
  add(&all->thrown, thrown);
}

// Returns "" if there is no label.
std::string Joined(const std::string& labels, const std::string& more) {
  return labels.empty() ? more : fmt::format("{},{}", labels, more);
}

int VerdictOf(Grows grows) {
  switch (grows) {
    case Grows::kYes:
      return 2;
    case Grows::kSteps:
      return 1;
    case Grows::kNo:
      return 0;
    case Grows::kUndecided:
      break;
  }
  return -1;
}

void AddGrowth(const WatchedGrowth& growth, const std::string& labels, Families* all) {
  constexpr double kSecondsAnHour = 3600;
  const bool is_heap = growth.kind == "heap";
  (is_heap ? all->heap_verdict : all->map_verdict).Add(labels, static_cast<double>(VerdictOf(growth.answer.grows)));
  (is_heap ? all->heap_growth : all->map_growth).Add(labels, growth.rate.slope / kSecondsAnHour);
  if (std::isfinite(growth.answer.bound))
    (is_heap ? all->heap_bound : all->map_bound).Add(labels, growth.answer.bound / kSecondsAnHour);
}

void AddProcess(const ProcessTable& process, const ProcessState& state, const std::vector<WatchedGrowth>& growths,
                const std::string& labels, Families* all) {
  const TableSnapshot& snapshot = *state.table;
  for (const WatchedGrowth& growth : growths) AddGrowth(growth, labels, all);
  const auto has = [&](ProfileKind kind) { return (snapshot.profiles & KindBit(kind)) != 0; };
  if (has(ProfileKind::kHeap)) AddHeap(snapshot, labels, all);
  AddOthers(state, labels, all);
  for (int kind = 1; kind < kWaitKinds; ++kind) {
    if (snapshot.locks[kind].waits == 0) continue;
    const std::string of_kind = Joined(labels, fmt::format("kind=\"{}\"", kWaitKindNames[kind]));
    all->waits.Add(of_kind, snapshot.locks[kind].waits);
    all->wait_seconds.Add(of_kind, static_cast<double>(snapshot.locks[kind].wait_ns) / 1e9);
  }
  for (int cause = 0; cause < kLosses; ++cause) {
    if (snapshot.losses[cause] == 0) continue;
    all->lost.Add(Joined(labels, fmt::format("cause=\"{}\"", kLossNames[cause])), snapshot.losses[cause]);
  }
  const bool served = ExporterServes(process.folder.c_str(), process.table.out().c_str(), process.table.OutIdHere());
  all->exporter.Add(labels, static_cast<uint64_t>(served));
  all->own_seconds.Add(labels, static_cast<double>(snapshot.totals.sample_ns) / 1e9);
  all->own_bytes.Add(labels, snapshot.table_bytes);
  all->started.Add(labels, static_cast<double>(snapshot.process.start_wall_ns) / 1e9);
}

}  // namespace

HttpResponse Metrics(const std::vector<ProcessTable>& processes, const std::vector<std::vector<WatchedGrowth>>& growths,
                     std::string_view accept, MetricLabels which) {
  const bool openmetrics = accept.find("application/openmetrics-text") != std::string_view::npos;
  Families all;
  for (size_t i = 0; i < processes.size(); ++i) {
    const ProcessTable& process = processes[i];
    const std::string labels =
        which == MetricLabels::kOfTarget
            ? ""
            : fmt::format("program=\"{}\",pid=\"{}\"", MetricLabelValue(process.table.program()), PidOf(process));
    const absl::StatusOr<ProcessState> state = Observe(process.table, {.threads = ThreadsWanted::kIfAnyIsLive});
    if (state.ok()) AddProcess(process, *state, growths[i], labels, &all);  // else it has just exited
  }
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + time.tv_usec / 1e6; };
  all.server_seconds.Add("", seconds(used.ru_utime) + seconds(used.ru_stime));
  HttpResponse response{.content_type = openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                                    : "text/plain; version=0.0.4; charset=utf-8"};
  for (const Family* family : all.All()) family->Write(openmetrics, &response.body);
  if (openmetrics) response.body += "# EOF\n";
  return response;
}

}  // namespace holdfast
