#include "report/show/leaks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/growth/distinct_stacks.h"
#include "report/analysis/growth/leak_finder.h"
#include "report/analysis/growth/rate_unit.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"
#include "report/show/check_formats.h"
#include "report/show/node_cells.h"
#include "report/show/unreachable_view.h"

namespace holdfast {
namespace {

// `leaks PID` also searches for unreachable blocks if the estimate is below both.
constexpr double kMaxSearchSeconds = 5;  // of CPU
constexpr uint64_t kMaxSearchBytes = 256 << 20;
constexpr std::string_view kGrows = "grows", kUnreachable = "unreachable";
constexpr int kCannotTell = 4;  // exit status
constexpr auto kLook = std::chrono::milliseconds(500);

std::string SignedSize(double bytes) {
  const double bounded = std::clamp(std::round(bytes), -9e18, 9e18);
  return (bounded > 0 ? "+" : "") + FormatSize(static_cast<int64_t>(bounded));
}

// The result of a search for unreachable blocks of a running process.
struct PointerSearch {
  std::optional<UnreachableReport> report;  // nothing: not searched
  std::string text;                         // the answer, or why not
};

PointerSearch SearchPointers(pid_t pid, const Suppressions& suppressions) {
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, {});
  if (!process.ok()) return {{}, fmt::format("not searched: {}", std::string(process.status().message()))};
  const ScanEstimate estimate = EstimateScan(process->get());
  if (estimate.cpu_seconds >= kMaxSearchSeconds || estimate.bytes >= kMaxSearchBytes) {
    return {{},
            fmt::format("not searched, because that takes about {} of CPU and {}: holdfast leaks --unreachable {}",
                        FormatRoughTimeNs(static_cast<int64_t>(estimate.cpu_seconds * 1e9)),
                        FormatSize(static_cast<int64_t>(estimate.bytes)), pid)};
  }
  absl::StatusOr<UnreachableReport> report = FindUnreachableOf(process->get(), suppressions, {});
  if (!report.ok()) return {{}, fmt::format("not searched: {}", std::string(report.status().message()))};
  std::string text = report->Sentence();
  if (report->StopDecides()) text += fmt::format("; uncertain: holdfast leaks --unreachable --stop {} decides", pid);
  if (report->KnowsLittle()) {
    text += fmt::format("; {} may hold blocks of an allocator that is not understood",
                        FormatSize(static_cast<int64_t>(report->found.unknown_bytes)));
  }
  return {*std::move(report), std::move(text)};
}

TextTable ColumnsOnly(const LeaksAnswer& answer, const RateUnit& rate, bool all, bool with_findings) {
  TextTable table;
  table.columns = {{"kind", ""},
                   {"slope", fmt::format("bytes/{}", rate.symbol), Column::kRight, 8},
                   {"slope_error", "±", Column::kRight, 0, 1, kRoomy},
                   {"object_slope", fmt::format("objects/{}", rate.symbol), Column::kRight, 0, 1, kWide},
                   {"object_slope_error", ""},
                   {"in_use", "in use"},
                   {"objects_in_use", "objects", Column::kRight, 0, 1, kWide},
                   {"age_half_ns", answer.knows_ages ? "half" : "", Column::kRight, 0, 1, kRoomy},
                   {"age_oldest_ns", answer.knows_ages ? "oldest" : "", Column::kRight, 0, 1, kRoomy},
                   {"class", "class", Column::kLeft, 9, 2, all ? 0 : kWide},
                   {"program", answer.heap_processes > 1 ? "program" : "", Column::kLeft, 0, 2},
                   {"process", ""},
                   {"", with_findings ? "finding" : "", Column::kLeft, 0, 2},
                   {"", "function ← callers", Column::kLeft, 0, 2, 0, false, true},
                   {"stack", ""},
                   {"finding", ""}};
  return table;
}

// "6 snapshots and 40 earlier moments,"
std::string EvidenceText(const LeaksAnswer::Process& process) {
  const std::string snapshots = fmt::format("{} snapshot{}", process.snapshots, process.snapshots == 1 ? "" : "s");
  if (process.is_by_births) return snapshots + " and the ages of live blocks,";
  if (process.is_freed_at_end) {
    return fmt::format("{}{} moments before the program freed its memory at the end,",
                       process.snapshots == 0 ? "" : snapshots + " and ", process.course_points);
  }
  if (process.course_points > 0) return fmt::format("{} and {} earlier moments,", snapshots, process.course_points);
  return snapshots;
}

// "1GB in use will be reached in 3h"
std::string LimitText(const LeaksAnswer::Process& process, double limit, const std::string& as_given) {
  const std::string size = FormatLike(static_cast<int64_t>(limit), "bytes", as_given);
  const auto now = static_cast<double>(process.in_use);
  if (now >= limit) return size + " has already been reached";
  // Leaks will continue; other growth may not.
  const double slope = process.leak_slope > 0               ? process.leak_slope
                       : IsLeak(process.total.growth_class) ? process.total.slope
                                                            : 0;
  if (slope <= 0) return size + " will not be reached: nothing grows steadily";
  return fmt::format("{} in use will be reached in {}", size, HoursText((limit - now) / slope));
}

void AddProcess(const LeaksAnswer::Process& process, const RateUnit& rate, std::vector<HeaderLine>* header) {
  header->push_back(fmt::format("program  {}{}: {} over {}", process.program,
                                process.kind == "heap" ? "" : fmt::format(", {} profiles", process.kind),
                                EvidenceText(process), HoursText(process.hours)));
  // With births as the course, only single stacks have one.
  const Growth& total = process.total;
  const std::string course =
      fmt::format(", {} ± {} {} ({})", SignedSize(total.slope / rate.an_hour),
                  FormatSize(static_cast<int64_t>(std::min(9e18, total.half_width / rate.an_hour))), rate.words,
                  GrowthClassName(total.growth_class));
  header->push_back(fmt::format("in use   {}{}", FormatSize(process.in_use), process.is_by_births ? "" : course));
  if (process.kind == kResidentKind)
    header->push_back("note     resident profiles: shows all memory in use, resident or not (inuse_space)");
  header->emplace_back("answer   " + TextOf(process.answer, process.hours), HeaderLine::kAnswer);
  if (process.memory.has_value()) {
    for (const std::string& line : TextsOf(*process.memory)) header->push_back("memory   " + line);
    if (const std::string text = UnexplainedText(*process.memory); !text.empty())
      header->emplace_back("answer   " + text, HeaderLine::kAnswer);
  }
  if (!process.older_blocks.empty()) header->push_back("older    " + process.older_blocks);
  if (!process.how_to_name.empty()) header->emplace_back("names    " + process.how_to_name, HeaderLine::kWarning);
}

// "3 more of this program, other (level) (of 5 processes this grows most; --all shows each)"
std::string OthersText(const LeaksAnswer::Others& others) {
  std::vector<std::string> parts;
  if (others.of_same_program > 0) parts.push_back(fmt::format("{} more of this program", others.of_same_program));
  for (const auto& [program, grows] : others.programs)
    parts.push_back(fmt::format("{} ({})", Printable(program), GrowsName(grows)));
  if (others.more_programs > 0) parts.push_back(fmt::format("{} more", others.more_programs));
  return fmt::format("{} (of {} process{} this {}; --all shows each)", fmt::join(parts, ", "), others.processes,
                     others.processes == 1 ? "" : "es", others.chosen_grow ? "grows most" : "holds most");
}

// Empty in CSV, null in JSON: programs add up this column, so it must have one unit.
Cell ForPeople(std::string shown) { return Cell::Real(std::move(shown), std::numeric_limits<double>::quiet_NaN()); }

Cell AliveAgeCell(int64_t ns) { return ns < 0 ? ForPeople("") : Cell::Number(OlderText(ns), ns); }

// Shows threads in the column of bytes, with the word "threads", for people; programs find their number in the column
// of objects.
TableRow LeakRow(const LeaksAnswer::Stack& stack, const std::string& shown, const RateUnit& rate) {
  const Growth &bytes = stack.entry.bytes, &objects = stack.entry.objects;
  const double objects_slope = objects.slope / rate.an_hour, objects_error = objects.half_width / rate.an_hour;
  const bool threads = stack.is_of_threads;
  const std::string finding(stack.grows ? kGrows : "");
  return {{Cell::Text(stack.kind),
           threads ? ForPeople(fmt::format("{:+.4g} threads", objects_slope))
                   : Cell::Real(SignedSize(bytes.slope / rate.an_hour), bytes.slope),
           threads ? ForPeople(fmt::format("±{:.4g}", objects_error))
                   : Cell::Real("±" + FormatSize(static_cast<int64_t>(std::min(9e18, bytes.half_width / rate.an_hour))),
                                bytes.half_width),
           Cell::Real(fmt::format("{:.4g}", objects_slope), objects.slope), Cell::Real("", objects.half_width),
           threads ? ForPeople(fmt::format("{} threads", stack.entry.objects_now))
                   : Cell::Number(FormatSize(stack.entry.bytes_now), stack.entry.bytes_now),
           Cell::Number(fmt::format("{}", stack.entry.objects_now), stack.entry.objects_now),
           AliveAgeCell(threads ? -1 : stack.ages.half_ns()), AliveAgeCell(threads ? -1 : stack.ages.oldest_ns()),
           Cell::Text(GrowthClassName((threads ? objects : bytes).growth_class)), Cell::Text(stack.program),
           Cell::Text(stack.process), Cell::Text(finding), Cell::Text(shown, ""),
           Cell::Text(fmt::format("{}", fmt::join(stack.frames, ";"))), Cell::Text(finding)},
          stack.grows ? 1.0 : 0.005};
}

TableRow UnreachableBlocksRow(const UnreachableRow& row, const std::string& program, const std::string& process) {
  std::vector<std::string> frames;
  for (const ObservedProcess::Call& call : row.stack) frames.push_back(call.function);
  const std::string finding(row.is_certain ? kUnreachable : "uncertain");
  return {{Cell::Text("heap"), ForPeople(""), ForPeople(""), ForPeople(""), ForPeople(""),
           Cell::Number(FormatSize(row.WholeBytes()), row.WholeBytes()),
           Cell::Number(fmt::format("{}", row.WholeBlocks()), row.WholeBlocks()), AliveAgeCell(-1), AliveAgeCell(-1),
           Cell::Text(""), Cell::Text(program), Cell::Text(process), Cell::Text(finding), Cell::Text(row.label),
           Cell::Text(fmt::format("{}", fmt::join(frames, ";"))), Cell::Text(finding)},
          1.0};
}

// Adds a row for each stack with unreachable blocks. Returns how many are suppressed.
size_t AddUnreachable(const UnreachableReport& report, const LeaksAnswer& answer, const LeaksOptions& options,
                      TextTable* table) {
  size_t suppressed = 0, rows = answer.all_stacks;
  for (const UnreachableRow& row : report.rows) {
    if (row.is_suppressed) {
      ++suppressed;
      continue;
    }
    if (!row.is_certain && !options.all) continue;
    if (options.view.node_count != 0 && ++rows > options.view.node_count) continue;
    table->rows.push_back(UnreachableBlocksRow(row, report.process, answer.first_process));
  }
  return suppressed;
}

// Adds the lines below those of the processes: how many stacks leak, and what is not shown.
void AddSums(const LeaksAnswer& answer, size_t suppressed, std::vector<HeaderLine>* header) {
  if (answer.others.has_value()) header->push_back("others   " + OthersText(*answer.others));
  if (answer.too_short > 0) {
    header->push_back(fmt::format("skipped  {} process{} with fewer than {} snapshots", answer.too_short,
                                  answer.too_short == 1 ? "" : "es", kMinSnapshots));
  }
  if (suppressed > 0)
    header->push_back(fmt::format("skipped  {} leak{} by suppressions", suppressed, suppressed == 1 ? "" : "s"));
  const size_t leaks = answer.leaks;
  header->push_back(
      leaks == 0
          ? std::string("leaks    no stack grows ") + (answer.worst == Grows::kUndecided ? "surely" : "all the time")
          : fmt::format("leaks    {} stack{} grow{} {}", leaks, leaks == 1 ? "" : "s", leaks == 1 ? "s" : "",
                        answer.worst == Grows::kSteps ? "in steps" : "all the time"));
  if (answer.knows_ages)
    header->push_back("ages     half: the median age of the bytes in use; oldest: the age of the oldest block");
  if (answer.lists_all) header->push_back("rows     all memory in use at the end, because the run was exact and short");
  if (answer.lists_freed)
    header->push_back("rows     all memory in use before the program freed it at its end, because the run was exact");
}

// `search`: null for files.
TextTable LeaksTable(const LeaksAnswer& answer, const PointerSearch* search, const LeaksOptions& options,
                     double limit) {
  const RateUnit rate = RateUnitFor(answer.shortest_hours);
  TextTable table = ColumnsOnly(answer, rate, options.all, search != nullptr);
  for (const LeaksAnswer::Process& process : answer.processes) {
    AddProcess(process, rate, &table.header);
    if (limit > 0) table.header.push_back("limit    " + LimitText(process, limit, options.limit));
  }
  for (const LeaksAnswer::Threads& threads : answer.threads) {
    table.header.push_back(
        threads.grows
            ? fmt::format("threads  {} of {} alive, {:+.4g} {}: threads are created and never exit", threads.alive,
                          threads.program, threads.total.slope / rate.an_hour, rate.words)
            : fmt::format("threads  {} of {} alive, more than before: cannot tell whether their number goes on rising",
                          threads.alive, threads.program));
  }
  std::vector<std::vector<std::string>> stacks;
  for (const LeaksAnswer::Stack& stack : answer.stacks) stacks.push_back(stack.frames);
  const std::vector<std::string> texts =
      DistinctStacks(stacks, options.shown_frames, options.view.full_names ? nullptr : ShortName);
  for (size_t i = 0; i < texts.size(); ++i) table.rows.push_back(LeakRow(answer.stacks[i], texts[i], rate));
  size_t suppressed = answer.suppressed;
  if (search != nullptr) {
    table.header.push_back("pointers " + search->text);
    if (search->report.has_value()) suppressed += AddUnreachable(*search->report, answer, options, &table);
  }
  AddSums(answer, suppressed, &table.header);
  table.members = {{"answer", fmt::format("\"{}\"", GrowsName(answer.worst))},
                   {"leaks", fmt::format("{}", answer.leaks)},
                   {"suppressed", fmt::format("{}", suppressed)}};
  if (search != nullptr) {
    const auto& report = search->report;
    const char* const name = !report.has_value()              ? "not searched"
                             : report->ExitCode() == kFinding ? "yes"
                             : report->ExitCode() == kFine    ? "no"
                                                              : "cannot tell";
    table.members.emplace_back("unreachable", fmt::format("\"{}\"", name));
    if (report.has_value()) table.members.emplace_back("unreachable_bytes", fmt::format("{}", report->bytes));
  }
  return table;
}

// One outcome for each finding, or one for a process without findings.
std::vector<Outcome> OutcomesOf(const LeaksAnswer& answer, const TextTable& table) {
  constexpr size_t kSlopeCell = 1, kInUseCell = 5, kObjectsCell = 6, kFindingCell = 12, kStackCell = 13;
  std::vector<Outcome> outcomes;
  for (const TableRow& row : table.rows) {
    const std::string& finding = row.cells[kFindingCell].text;
    if (finding != kGrows && finding != kUnreachable) continue;
    outcomes.push_back(
        {.name = fmt::format("{}: {}", finding, row.cells[kStackCell].shown),
         .value = finding == kGrows
                      ? fmt::format("{} {}", row.cells[kSlopeCell].shown, table.columns[kSlopeCell].title)
                      : fmt::format("{} in {} blocks", row.cells[kInUseCell].shown, row.cells[kObjectsCell].shown),
         .limit = "0",
         .failed = true});
  }
  if (!outcomes.empty()) return outcomes;
  Outcome& whole = outcomes.emplace_back(Outcome{.name = "leaks", .value = "none found", .limit = "0"});
  whole.failed = IsLeak(answer.worst) || answer.worst == Grows::kUndecided;
  if (whole.failed && !answer.processes.empty())
    whole.why = TextOf(answer.processes[0].answer, answer.processes[0].hours);
  return outcomes;
}

void PrintLeaks(const LeaksAnswer& answer, const PointerSearch* search, const LeaksOptions& options, double limit,
                const Style& style, std::ostream& out) {
  TextTable table = LeaksTable(answer, search, options, limit);
  if (options.view.format == "junit" || options.view.format == "markdown") {
    const std::vector<Outcome> outcomes = OutcomesOf(answer, table);
    out << (options.view.format == "junit" ? CheckJunit(outcomes) : CheckMarkdown(outcomes));
    return;
  }
  if (table.rows.empty() && style.format == Format::kTable) table.columns.clear();
  Print(table, style, out);
}

}  // namespace

// Returns the process to search for unreachable blocks: if one process is named, and nothing but its memory is asked for.
static std::optional<pid_t> ProcessToSearch(const LeaksOptions& options) {
  if (options.view.files.size() != 1 || options.follow || HasFilter(options.view.stacks)) return std::nullopt;
  if (!options.kind.empty() && options.kind != "heap") return std::nullopt;
  return AsProcess(options.view.files[0]);
}

// Nothing new comes if all that is followed are processes that have exited.
static bool NamesOnlyEndedProcesses(const std::vector<std::string>& files) {
  return std::ranges::all_of(files, [](const std::string& file) {
    const std::optional<pid_t> pid = AsProcess(file);
    return pid.has_value() && access(fmt::format("/proc/{}", *pid).c_str(), F_OK) != 0;
  });
}

int RunLeaks(const LeaksOptions& options, std::ostream& out, std::ostream& err) {
  ViewOptions view = options.view;
  if (view.format == "markdown" || view.format == "junit") view.format = "table";
  const auto style = StyleOf(view);
  if (!style.ok()) return Failed(style.status(), err);
  LeakFinder finder({.files = options.view.files,
                     .stacks = options.view.stacks,
                     .depth = options.depth,
                     .kind = options.kind,
                     .suppressions = options.suppressions,
                     .all = options.all,
                     .max_stacks = options.view.node_count});
  if (const auto prepared = finder.Prepare(); !prepared.ok()) return Failed(prepared, err);
  double limit = 0;
  if (!options.limit.empty()) {
    const auto parsed = ParseByteSize(options.limit);
    if (!parsed.ok())
      return Failed(absl::InvalidArgumentError("--limit " + std::string(parsed.status().message()) + "."), err);
    limit = static_cast<double>(*parsed);
  }
  std::string last;
  bool is_waiting = false;
  while (true) {
    const bool has_ended = NamesOnlyEndedProcesses(options.view.files);
    if (const auto read = finder.Read(err); !read.ok() && options.follow && absl::IsNotFound(read) && !has_ended) {
      if (!std::exchange(is_waiting, true))
        err << fmt::format("holdfast: waiting for the first profiles of {}.\n", Printable(options.view.files[0]));
    } else if (!read.ok()) {
      const auto pid = ProcessToSearch(options);
      if (!pid.has_value() || !absl::IsNotFound(read)) return Failed(read, err);
      return Failed(absl::NotFoundError(fmt::format("{} Without profiles: holdfast leaks --unreachable {}.",
                                                    std::string(read.message()), *pid)),
                    err);
    }
    if (const std::string incomplete = finder.WhyIncomplete(); !incomplete.empty() && !options.follow) {
      err << fmt::format("holdfast: cannot tell what grows: {}.\n", Printable(incomplete));
      return kCannotTell;
    }
    if (!finder.empty()) {
      std::ostringstream text;
      std::optional<PointerSearch> search;
      if (const auto pid = ProcessToSearch(options); pid.has_value())
        search = SearchPointers(*pid, finder.suppressions());
      const LeaksAnswer answer = finder.Answer();
      PrintLeaks(answer, search.has_value() ? &*search : nullptr, options, limit, *style, text);
      if (text.str() != last) {
        if (options.follow && style->color) out << "\x1b[H\x1b[2J";
        if (options.follow && !style->color && !last.empty()) out << "\n";
        out << text.str() << std::flush;
        last = text.str();
      }
      const bool is_unreachable =
          search.has_value() && search->report.has_value() && search->report->ExitCode() == kFinding;
      if (options.follow && has_ended) err << "holdfast: the process has exited.\n";
      if (!options.follow || has_ended)
        return IsLeak(answer.worst) || is_unreachable ? 1 : answer.worst == Grows::kUndecided ? kCannotTell : 0;
      if (!out) return 3;  // the reader is gone
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace holdfast
