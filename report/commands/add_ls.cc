
#include <array>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/commands/commands.h"
#include "report/export/profile_builder.h"
#include "report/processes/find_tables.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

using Line = std::array<std::string, 10>;

// "3d04h", "2h05m", "3m20s", "12s".
std::string Age(int64_t ns) {
  const int64_t seconds = ns > 0 ? ns / 1'000'000'000 : 0;
  if (seconds >= 86400) return fmt::format("{}d{:02}h", seconds / 86400, seconds / 3600 % 24);
  if (seconds >= 3600) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}s", seconds);
}

std::string OrOff(uint64_t interval, std::string (*format)(int64_t)) {
  return interval == 0 ? "off" : format(static_cast<int64_t>(interval));
}

int64_t InUse(const Snapshot& snapshot) {
  double bytes = 0;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile == ProfileKind::kHeap) bytes += row.sums[kAllocSpace] - row.sums[kFreeSpace];
  }
  return static_cast<int64_t>(bytes / (1 << kAmountFractionBits));
}

// Each line aligned to its column; the last one as it is. Numbers to the right.
void PrintProcesses(const std::vector<Line>& lines) {
  std::array<size_t, std::tuple_size_v<Line>> widths{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const Line& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      const bool last = i + 1 == line.size();
      const bool right = i != 1 && i < 7;
      text += right  ? fmt::format("{:>{}}", line[i], widths[i])
              : last ? line[i]
                     : fmt::format("{:<{}}", line[i], widths[i]);
      text += last ? "\n" : "  ";
    }
    std::cout << text;
  }
}

int RunLs(const std::vector<std::string>& folders) {
  const FoundTables found = FindTables(folders);
  const int64_t now_ns = NowNs();
  std::vector<Line> lines = {
      {"PID", "STATE", "AGE", "HEAP", "LOCK", "IN-USE", "TABLE", "EXPORTER", "PROGRAM", "PROFILES"}};
  std::string dead_out;
  bool corrupt = false;
  for (const ProcessTable& table : found.tables) {
    const absl::StatusOr<Snapshot> snapshot = table.table.TakeSnapshot();
    if (absl::IsAborted(snapshot.status())) {
      Say(fmt::format(
          "{}/{}: {}, and is not read with root's rights. Its exporter writes its profiles; holdfast dump {} asks for them now.",
          table.folder, table.table.name(), std::string(snapshot.status().message()), table.table.owner().pid));
      continue;
    }
    if (!snapshot.ok()) {
      corrupt = true;
      Say(fmt::format("{}/{}: not a whole table ({}). It can be removed.", table.folder, table.table.name(),
                      std::string(snapshot.status().message())));
      continue;
    }
    const bool served = ExporterServes(table.folder.c_str(), table.table.out().c_str(), table.table.OutIdHere());
    if (table.liveness == Liveness::kDead && !served) dead_out = table.out();
    lines.push_back({fmt::format("{}", table.pid.value_or(static_cast<pid_t>(table.table.owner().pid))),
                     ProcessStateOf(table), Age(now_ns - table.table.owner().start_monotonic_ns),
                     OrOff(snapshot->heap_intervals.back().interval, FormatSize),
                     OrOff(snapshot->lock_intervals.back().interval, FormatTimeNs), FormatSize(InUse(*snapshot)),
                     FormatSize(static_cast<int64_t>(snapshot->table_bytes)), served ? "yes" : "none",
                     Printable(table.table.program()), Printable(table.out())});
  }
  if (lines.size() > 1) PrintProcesses(lines);
  corrupt = corrupt || !found.unreadable.empty();
  for (const std::string& line : DescribeUnreadable(found.unreadable)) Say(line);
  if (lines.size() == 1 && !corrupt)
    Say("nothing of this user is profiled. Start something by: holdfast run -- PROGRAM");
  if (!dead_out.empty()) {
    Say(fmt::format("tables of ended programs that no exporter serves wait for: holdfast collect {}",
                    ShellQuoted(dead_out)));
  }
  return Finished(corrupt ? kCouldNot : kFine);
}

}  // namespace

void AddLsCommand(CLI::App& app, Invocation* invocation) {
  auto folders = std::make_shared<std::vector<std::string>>();
  CLI::App* ls = app.add_subcommand("ls", "The profiled processes of this user, and tables that outlived theirs");
  ls->footer(
      "One line for each table: the process and whether it runs, is stopped, or has ended; the intervals in force (heap:\n"
      "mean bytes, lock: mean time waited between samples); what its heap holds by estimate; what its table takes; whether\n"
      "an exporter writes its profiles, and into which folder.\n"
      "\n"
      "  holdfast ls\n"
      "  holdfast dump PID         a snapshot of one of them, now");
  ls->add_option("--tables", *folders, "Folder of table files to look into [default: all that are in use]")
      ->allow_extra_args(false);
  ls->callback([folders, invocation] { invocation->exit_code = RunLs(*folders); });
}

}  // namespace holdfast
