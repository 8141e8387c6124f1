
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/split.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/builder/profile_builder.h"
#include "report/builder/without_rights.h"
#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/daemon/find_tables.h"
#include "report/observe/table/in_use_bytes.h"
#include "report/show/node_cells.h"
#include "report/show/pager.h"
#include "report/show/text_table.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

// Formats a duration in whole seconds.
std::string Age(int64_t ns) { return FormatDuration(ns - ns % 1'000'000'000); }

std::string OrOff(uint64_t interval, std::string (*format)(int64_t)) {
  return interval == 0 ? "off" : format(static_cast<int64_t>(interval));
}

// Sums over the records of one table, for one line of the list.
struct TableSums {
  int64_t in_use;
  double highest;
  uint64_t heap_interval, lock_interval, table_bytes;
};

TableSums SumsOf(const TableSnapshot& snapshot) {
  return {.in_use = InUseBytesOf(snapshot),
          .highest = snapshot.highest_bytes,
          .heap_interval = snapshot.heap_intervals.back().interval,
          .lock_interval = snapshot.lock_intervals.back().interval,
          .table_bytes = snapshot.table_bytes};
}

absl::StatusOr<TableSums> ReadSums(const TableFile& table) {
  const std::optional<TableFile::Rights> rights = table.ReadWith();
  if (!rights.has_value()) {
    const absl::StatusOr<TableSnapshot> snapshot = table.TakeSnapshot();
    if (!snapshot.ok()) return snapshot.status();
    return SumsOf(*snapshot);
  }
  void* memory = mmap(nullptr, sizeof(TableSums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return absl::ResourceExhaustedError("out of memory");
  const absl::Status read = RunWithoutRights(rights->user, rights->group, {table.descriptor()}, 0, [&] {
    const absl::StatusOr<TableSnapshot> snapshot = table.TakeSnapshot();
    if (snapshot.ok()) *static_cast<TableSums*>(memory) = SumsOf(*snapshot);
    return snapshot.ok();
  });
  const TableSums sums = *static_cast<TableSums*>(memory);
  munmap(memory, sizeof sums);
  if (!read.ok()) return read;
  return sums;
}

// Returns "" if the table has no peak, as at interval 1: then only the rows of threads know what is in use.
std::string PeakText(const TableSums& sums) {
  if (!(sums.highest > 0)) return "";
  return FormatSize(std::max(sums.in_use, static_cast<int64_t>(std::min(sums.highest, 9e18))));
}

struct LsOptions {
  std::vector<std::string> folders;
  std::string sort = "memory", color = "auto";
  bool pager = true;
};

struct Line {
  TableRow row;
  int64_t in_use = 0, age_ns = 0, pid = 0;
  std::string program;
};

// Sorts the largest first. Equal lines are sorted by start time.
void Sort(const std::string& by, std::vector<Line>* lines) {
  std::stable_sort(lines->begin(), lines->end(), [&](const Line& a, const Line& b) {
    if (by == "program" && a.program != b.program) return a.program < b.program;
    if (by == "pid") return a.pid < b.pid;
    if (by != "age" && a.in_use != b.in_use) return a.in_use > b.in_use;
    return a.age_ns > b.age_ns;
  });
}

// `has_when`: at least one process has conditions for extra snapshots.
TextTable TableOf(const std::string& sorted_by, bool has_when, std::vector<Line> lines) {
  TextTable table;
  const auto title = [&](const char* name, const char* sort) {
    return std::string(name) + (sorted_by == sort ? (sorted_by == "memory" || sorted_by == "age" ? "↓" : "↑") : "");
  };
  table.columns = {{"", title("PID", "pid")},
                   {"", "STATE", Column::kLeft, 0, 2},
                   {"", title("AGE", "age"), Column::kRight, 0, 2, kRoomy},
                   {"", "HEAP", Column::kRight, 0, 2, kWide},
                   {"", "LOCK", Column::kRight, 0, 2, kWide},
                   {"", title("IN-USE", "memory"), Column::kRight, 0, 2},
                   {"", "PEAK", Column::kRight, 0, 2, kWide},
                   {"", "TABLE", Column::kRight, 0, 2, kWide},
                   {"", "EXPORTER", Column::kLeft, 0, 2, kRoomy},
                   {"", title("PROGRAM", "program"), Column::kLeft, 0, 2, 0, true},
                   {"", "PROFILES", Column::kLeft, 0, 2, 0, true}};
  if (has_when) table.columns.push_back({"", "SNAPSHOT-WHEN", Column::kLeft, 0, 2, kWide, true});
  for (Line& line : lines) table.rows.push_back(std::move(line.row));
  return table;
}

// The tables of one user.
struct Listed {
  std::vector<Line> lines;
  std::set<std::pair<std::string, std::string>> dead;  // output folder and place of tables that no exporter serves
  std::vector<std::string> messages;                   // one per unreadable table
  bool has_when = false;
};

Listed ListOwn(const LsOptions& options) {
  Listed listed;
  const FoundTables found = FindTables(options.folders);
  const int64_t now_ns = NowNs();
  for (const ProcessTable& table : found.tables) {
    const absl::StatusOr<TableSums> sums = ReadSums(table.table);
    if (!sums.ok()) {
      listed.messages.push_back(fmt::format("{}/{}: damaged table ({}). Delete it.", table.folder, table.table.name(),
                                            std::string(sums.status().message())));
      continue;
    }
    const Service service = ServiceOf(table.folder.c_str(), table.table.out().c_str(), table.table.OutIdHere());
    const bool served = service == Service::kServed || service == Service::kByRoot;
    if (table.liveness == Liveness::kDead && !served) listed.dead.emplace(table.out(), table.folder);
    Line& line = listed.lines.emplace_back();
    line.in_use = sums->in_use;
    line.age_ns = now_ns - table.table.owner().start_monotonic_ns;
    line.pid = table.pid.value_or(static_cast<pid_t>(table.table.owner().pid));
    line.program = table.table.program();
    const std::string state = ProcessStateOf(table);
    for (const std::string& text :
         {fmt::format("{}", line.pid), state, Age(line.age_ns), OrOff(sums->heap_interval, FormatSize),
          OrOff(sums->lock_interval, FormatTimeNs), FormatSize(line.in_use), PeakText(*sums),
          FormatSize(static_cast<int64_t>(sums->table_bytes)), std::string(served ? "yes" : "none"), line.program,
          std::string(table.out()), table.table.snapshot_when()}) {
      line.row.cells.push_back(Cell::Text(text));
    }
    listed.has_when = listed.has_when || !table.table.snapshot_when().empty();
    // Highlight processes that need attention.
    line.row.heat = table.liveness == Liveness::kDead && !served ? 0.05 : state == "stopped" ? 0.05 : 0.005;
  }
  for (const std::string& line : DescribeUnreadable(found.unreadable)) listed.messages.push_back(line);
  return listed;
}

// Serializes the list, for a child that reads another user's tables: one line per table, cells separated by tabs. Names
// from a program are made printable, so they contain neither tabs nor line ends.
std::string AsText(const Listed& listed) {
  std::string text;
  for (const Line& line : listed.lines) {
    text += fmt::format("L\t{}\t{}\t{}\t{}", line.in_use, line.age_ns, line.pid, line.row.heat);
    for (const Cell& cell : line.row.cells) text += "\t" + Printable(cell.shown);
    text += "\n";
  }
  for (const std::string& message : listed.messages) text += "M\t" + Printable(message) + "\n";
  for (const auto& [out, place] : listed.dead) text += "D\t" + Printable(out) + "\t" + Printable(place) + "\n";
  return text;
}

void AddText(std::string_view text, Listed* listed) {
  constexpr size_t kBefore = 5, kCells = 12, kProgram = 9;
  for (const std::string_view one : Split(text, "\n")) {
    const std::vector<std::string_view> parts = Split(one, "\t");
    if (parts.size() < 2) continue;
    if (parts[0] == "M" && parts.size() == 2) listed->messages.emplace_back(parts[1]);
    if (parts[0] == "D" && parts.size() == 3) listed->dead.emplace(parts[1], parts[2]);
    if (parts[0] != "L" || parts.size() != kBefore + kCells) continue;
    Line& line = listed->lines.emplace_back();
    line.in_use = std::strtoll(std::string(parts[1]).c_str(), nullptr, 10);
    line.age_ns = std::strtoll(std::string(parts[2]).c_str(), nullptr, 10);
    line.pid = std::strtoll(std::string(parts[3]).c_str(), nullptr, 10);
    line.row.heat = std::strtod(std::string(parts[4]).c_str(), nullptr);
    for (size_t i = kBefore; i < parts.size(); ++i) line.row.cells.push_back(Cell::Text(std::string(parts[i])));
    line.program = parts[kBefore + kProgram];
    listed->has_when = listed->has_when || !parts.back().empty();
  }
}

int RunLs(const LsOptions& options) {
  const auto style = StyleFor("table", options.color);
  if (!style.ok()) return Failed(style.status());
  for (const std::string& folder : options.folders) {
    if (std::error_code none; !std::filesystem::is_directory(folder, none)) {
      Say(fmt::format("--tables {}: no such folder.", folder));
      return kCouldNot;
    }
  }
  Listed listed = ListOwn(options);
  for (const uid_t user : OtherUsers(options.folders))
    AddText(AnswerOfUser(user, 0, [&] { return AsText(ListOwn(options)); }), &listed);
  std::vector<Line>& lines = listed.lines;
  const bool has_when = listed.has_when;
  if (!has_when) {
    for (Line& line : lines) line.row.cells.pop_back();
  }
  Sort(options.sort, &lines);
  const bool none = lines.empty();
  int exit_code = kFine;
  if (!none) {
    exit_code = Paged(options.pager, [&](std::ostream& out) {
      Print(TableOf(options.sort, has_when, std::move(lines)), *style, out);
      return kFine;
    });
  }
  for (const std::string& line : listed.messages) Say(line);
  if (none && listed.messages.empty())
    Say("this user has no profiled process. Start one with: holdfast run -- PROGRAM");
  if (!listed.dead.empty()) {
    // Given a folder of tables, collect writes all of them.
    std::set<std::string> folders;
    for (const auto& [out, place] : listed.dead) folders.insert(listed.dead.size() == 1 ? out : place);
    std::string commands;
    for (const std::string& folder : folders)
      commands += (commands.empty() ? "holdfast collect " : "; holdfast collect ") + ShellQuoted(folder);
    Say(fmt::format("exited programs left tables that no exporter serves. Write their profiles with: {}", commands));
  }
  return !listed.messages.empty() ? kCouldNot : exit_code;
}

}  // namespace

void AddLsCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LsOptions>();
  CLI::App* ls = app.add_subcommand(
      "ls", "List the profiled processes of this user (root: of all users), and tables of exited processes");
  ls->footer(
      "Prints one line per table: the process and its state (running, stopped, ended); the current sampling intervals (heap:\n"
      "mean bytes, lock: mean waited time); its estimated heap in use; the size of its table; whether an exporter writes its\n"
      "profiles, and to which folder; and its conditions for extra snapshots, if any. AGE counts from the start, or from the first\n"
      "attach. The largest comes first; an arrow marks the sort column. If the terminal is too narrow, titles end with ….\n"
      "\n"
      "  holdfast ls\n"
      "  holdfast ls --sort program\n"
      "  holdfast dump PID         writes a snapshot of one of them now");
  ls->add_option("--sort", options->sort, "memory or age (largest first), program or pid")
      ->check(OneOf({"memory", "age", "program", "pid"}))
      ->type_name("BY")
      ->capture_default_str();
  ls->add_option("--color", options->color, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
  AddPager(ls, &options->pager);
  ls->add_option("--tables", options->folders, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  ls->callback([options, invocation] { invocation->exit_code = RunLs(*options); });
}

}  // namespace holdfast
