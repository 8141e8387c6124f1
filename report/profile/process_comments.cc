#include "report/profile/process_comments.h"

#include "fmt/format.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"

namespace holdfast {

void AddProcessComments(Profile* profile) {
  const auto add = [profile](std::string_view key, const std::string& value) {
    if (!value.empty()) profile->AddComment(fmt::format("{}: {}", key, value));
  };
  const auto number = [](uint64_t value) { return value == 0 ? std::string() : fmt::format("{}", value); };
  const record::Process& process = profile->process();
  add("kind", process.kind);
  add("process", process.id);
  add("program", process.program);
  add("executable", process.executable);
  add("command", process.command);
  add("pid", number(process.pid));
  add("forked from pid", number(process.parent_pid));
  add("version", process.version);
  if (process.started_ns != 0) add("started", FormatWallTime(process.started_ns));
  if (process.elapsed_ns != 0) add("elapsed", fmt::format("{:.3f}s", static_cast<double>(process.elapsed_ns) / 1e9));
  if (!profile->records().sampling.has_value() || profile->records().sampling->interval.empty()) return;
  const std::vector<record::Interval>& intervals = profile->records().sampling->interval;
  const auto text = [](const record::Interval& interval) { return fmt::format("{} {}", interval.mean, interval.unit); };
  add("interval", text(intervals.back()));
  for (const record::Interval& interval : intervals) {
    if (intervals.size() > 1) add(fmt::format("interval since {}", FormatWallTime(interval.since_ns)), text(interval));
  }
}

}  // namespace holdfast
