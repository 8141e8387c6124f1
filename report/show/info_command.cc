#include "report/show/info_command.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/observe/memory/account_records.h"
#include "report/observe/memory/account_text.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"
#include "report/profile/unrecorded_blocks.h"

namespace holdfast {
namespace {

// `libfoo.so.1!0x1234`: the name that the symbolizer gives to unnamed code.
bool IsBracketed(std::string_view name) {
  const size_t mark = name.rfind("!0x");
  return mark != std::string_view::npos &&
         name.find_first_not_of("0123456789abcdef", mark + 3) == std::string_view::npos;
}

void PrintTimes(const Profile& profile, std::ostream& out) {
  const absl::Time time = absl::FromUnixNanos(profile.time_nanos);
  const std::string taken =
      profile.time_nanos == 0 ? "unknown" : absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", time, absl::UTCTimeZone());
  out << fmt::format("taken       {}\n", taken);
  const char* const cumulative = WasAttached(profile)
                                     ? "0 (cumulative: since holdfast attach; what came before is in no profile)"
                                     : "0 (cumulative: since the process started)";
  out << fmt::format("duration    {}\n",
                     profile.duration_nanos == 0 ? cumulative : FormatDuration(profile.duration_nanos));
  if (profile.period != 0 || profile.period_type.type != 0) {
    out << fmt::format("period      {} {} of {}\n", profile.period,
                       Printable(profile.strings[profile.period_type.unit]),
                       Printable(profile.strings[profile.period_type.type]));
  }
}

void PrintMetrics(const Profile& profile, std::ostream& out) {
  const size_t preferred = DefaultMetric(profile);
  for (size_t i = 0; i < profile.sample_types.size(); ++i) {
    const std::string_view unit = profile.strings[profile.sample_types[i].unit];
    const int64_t total = profile.Total(i);
    out << fmt::format("metric      {} in {}: {}", Printable(profile.strings[profile.sample_types[i].type]),
                       Printable(unit), total);
    const auto half_width = HalfWidth(profile, i);
    if (half_width) out << fmt::format(" ± {:.0f}", *half_width);
    if (const std::string human = FormatValue(total, unit, "auto"); human != fmt::format("{}", total)) {
      out << " = " << human;
      if (half_width) out << " ± " << FormatValue(static_cast<int64_t>(std::min(9e18, *half_width)), unit, "auto");
    }
    out << (i == preferred ? "  (default)\n" : "\n");
  }
}

void PrintCounts(const Profile& profile, std::ostream& out) {
  size_t synthetic = 0;
  for (const Profile::Function& function : profile.functions) synthetic += IsBracketed(profile.strings[function.name]);
  size_t bare = 0;
  for (const Profile::Location& location : profile.locations) bare += location.lines == 0;
  out << fmt::format("samples     {}\n", profile.samples.size());
  out << fmt::format("locations   {}, {} without a function\n", profile.locations.size(), bare);
  out << fmt::format("functions   {} named, {} unnamed\n", profile.functions.size() - synthetic, synthetic);
  out << fmt::format("mappings    {}\n", profile.mappings.size());
  for (const Profile::Mapping& mapping : profile.mappings) {
    const std::string_view build_id = profile.strings[mapping.build_id];
    out << fmt::format("  0x{:x}-0x{:x} +0x{:x} {} {}\n", mapping.start, mapping.limit, mapping.offset,
                       Printable(profile.strings[mapping.file]),
                       build_id.empty() ? "(no build id)" : Printable(build_id));
  }
}

// Prints the records that the comments do not have.
void PrintRecords(const Profile& profile, std::ostream& out) {
  absl::flat_hash_set<std::string_view> comments;
  for (const std::string_view comment : profile.CommentTexts()) comments.insert(comment);
  const auto print = [&](std::string_view key, const auto& value) {
    const std::string line = fmt::format("{}: {}", key, value);
    if (!comments.contains(line)) out << "  " << Printable(line) << "\n";
  };
  const record::Process& process = profile.process();
  if (!process.executable.empty()) print("executable", process.executable);
  if (!process.profiled.empty()) print("profiled", fmt::format("{}", fmt::join(process.profiled, " ")));
  if (!process.unseen_waits.empty()) print("unseen waits", process.unseen_waits);
  if (process.resident_bytes != 0) print("resident_bytes", process.resident_bytes);
  for (const record::ObjectName& object : process.object) print("object", object.file + " is called " + object.called);
  if (const auto& sampling = profile.records().sampling; sampling.has_value() && sampling->interval.size() > 1) {
    for (const record::Interval& interval : sampling->interval) {
      print(sampling->interval_in_part ? "interval in part" : "interval since " + FormatWallTime(interval.since_ns),
            fmt::format("{} {}", interval.mean, interval.unit));
    }
  }
  for (const record::MissingNames& missing : profile.records().missing_names) {
    if (missing.what == record::NamesMissing::kNames) print("no names", missing.path + ": " + missing.why);
    if (missing.what == record::NamesMissing::kLines) print("no lines", missing.path + ": " + missing.why);
  }
  if (const auto& counters = profile.records().counters; counters.has_value()) {
    if (counters->own_table_steps != 0) print("own table_steps", counters->own_table_steps);
    if (counters->own_memory_probes != 0) print("own memory_probes", counters->own_memory_probes);
  }
  if (const std::string older = OlderBlocksIn(profile); !older.empty()) print(kOlderBlocks, older);
  if (profile.records().account.has_value()) print("memory", "the account of all of it: holdfast memory");
  if (!profile.records().merged.has_value()) return;
  for (const std::string& from : profile.records().merged->from) print("merged from", from);
}

void PrintLocks(const record::Locks& locks, const std::string& file, std::ostream& out) {
  if (locks.samples != 0) out << fmt::format("  lock_samples: {}\n", locks.samples);
  for (const record::LockKind& kind : locks.kind) {
    const auto print = [&](const char* what, int64_t count) {
      if (count != 0) out << fmt::format("  {} {}: {}\n", Printable(kind.kind), what, count);
    };
    print("contentions", kind.contentions);
    print("acquired", kind.acquired);
    print("delay_ns", kind.delay_ns);
    print("gap_ns", kind.gap_ns);
  }
  if (!locks.lock.empty())
    out << fmt::format("  {} single locks: holdfast locks {}\n", locks.lock.size(), Printable(ShellQuoted(file)));
}

void PrintProfile(const std::string& file, const Profile& profile, std::ostream& out) {
  if (const std::string deadlocks = DeadlockText(profile); !deadlocks.empty()) out << deadlocks << "\n";
  out << fmt::format("file        {}\n", Printable(file));
  out << fmt::format("kind        {}\n", Printable(ProfileKindOf(profile)));
  PrintTimes(profile, out);
  PrintMetrics(profile, out);
  PrintCounts(profile, out);
  out << fmt::format("comments    {}\n", profile.comments.size());
  for (const StringId comment : profile.comments) out << "  " << Printable(profile.strings[comment]) << "\n";
  PrintRecords(profile, out);
  if (profile.records().locks.has_value()) PrintLocks(*profile.records().locks, file, out);
}

// Returns the newest file of each process and kind in a folder, or the argument itself.
absl::StatusOr<std::vector<std::string>> FilesToDescribe(const std::string& argument, std::ostream& err) {
  if (!NamesSeveralFiles(argument)) return std::vector{argument};
  const auto set = ReadProfileSet({argument}, {.keep = KeepProfiles::kNone, .after_exit = true});
  if (!set.ok()) return set.status();
  for (const std::string& warning : set->warnings) SayTo(err, warning);
  std::vector<std::string> files;
  for (const ProfileGroup& group : set->groups) files.push_back(group.newest().path);
  return files;
}

}  // namespace

int RunInfo(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  int exit_code = 0;
  bool first = true;
  const auto failed = [&](const absl::Status& status) {
    SayTo(err, std::string(status.message()));
    exit_code = 3;
  };
  for (const std::string& argument : arguments) {
    const auto files = FilesToDescribe(argument, err);
    if (!files.ok()) {
      failed(files.status());
      continue;
    }
    for (const std::string& file : *files) {
      const auto profile = ReadPprofFile(file);
      if (!profile.ok()) {
        failed(profile.status());
        continue;
      }
      if (!std::exchange(first, false)) out << "\n";
      PrintProfile(file, *profile, out);
    }
  }
  return exit_code;
}

}  // namespace holdfast
