#include "report/show/unreachable_view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/json_text.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

// The unreachable blocks in rows: by stack if the table has the stacks, otherwise by class and size.
class UnreachableRows {
 public:
  UnreachableRows(ObservedProcess* process, const Unreachable& found, const Suppressions& suppressions)
      : process_(*process), names_(&process->space(), process->Names()), found_(found), suppressions_(suppressions) {}

  // If the answer is not settled, no block is named.
  std::vector<UnreachableRow> Make() {
    if (!found_.settled) return {};
    for (const UnreachableBlock& block : found_.blocks) Add(block);
    std::vector<UnreachableRow> rows;
    for (auto& [label, row] : rows_) {
      row.is_certain = found_.hidden_registers == 0 || row.direct > found_.hidden_registers;
      row.is_suppressed = IsSuppressed(row);
      rows.push_back(std::move(row));
    }
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.label < b.label; });
    return rows;
  }

 private:
  void Add(const UnreachableBlock& block) {
    const LiveBlock* recorded = process_.RecordedIn(block.range);
    std::string label;
    if (recorded != nullptr) label = process_.SiteOf(*recorded);
    if (label.empty() && process_.has_table() && !process_.is_exact()) return;  // estimated from the sampled ones
    const auto bytes = static_cast<double>(block.range.end - block.range.start);
    if (label.empty()) label = LabelWithoutStack(block.range);
    UnreachableRow& row = rows_[label];
    if (row.found == 0) {
      row.label = label;
      if (recorded != nullptr) row.stack = process_.CallsOf(*recorded);
    }
    ++row.found;
    row.direct += block.direct ? 1 : 0;
    if (recorded == nullptr) {
      row.bytes += bytes;
      row.blocks += 1;
      return;
    }
    const double p = SampleProbability(recorded->bytes, recorded->interval),
                 size = static_cast<double>(recorded->bytes);
    row.bytes += size / p;
    row.blocks += 1 / p;
    row.variance += size * size * (1 - p) / (p * p);
  }
  bool IsSuppressed(const UnreachableRow& row) const {
    std::vector<SuppressibleCall> calls;
    for (const ObservedProcess::Call& call : row.stack) calls.push_back({call.function, call.mangled, call.path});
    return !suppressions_.empty() && suppressions_.MatchesStack(calls, row.direct > 0);
  }
  std::string LabelWithoutStack(const MemoryRange& block) {
    uint64_t word = 0;
    if (process_.space().Read(block.start, &word, sizeof word)) {
      if (const uint16_t number = names_.ClassOf(word); number != 0) return ShortName(names_.ClassName(number));
    }
    return fmt::format("blocks of up to {}", FormatSize(static_cast<int64_t>(std::bit_ceil(block.end - block.start))));
  }

  ObservedProcess& process_;
  HolderNames names_;
  const Unreachable& found_;
  const Suppressions& suppressions_;
  std::map<std::string, UnreachableRow> rows_;
};

// The recorded blocks at one time, by address.
class RecordedAt {
 public:
  explicit RecordedAt(const std::vector<LiveBlock>& recorded) {
    for (const LiveBlock& block : recorded) blocks_.emplace_back(block.address, block.row);
  }
  // Returns whether the block that begins in a range is the same as `now`; null: there is none.
  bool IsSame(const MemoryRange& range, const LiveBlock* now) const {
    const auto first = std::lower_bound(blocks_.begin(), blocks_.end(), std::pair(range.start, Offset{0}));
    const bool was_there = first != blocks_.end() && first->first < range.end;
    return was_there ? now != nullptr && std::pair(now->address, now->row) == *first : now == nullptr;
  }

 private:
  std::vector<std::pair<uint64_t, Offset>> blocks_;
};

// Drops blocks that were allocated or freed during the scans; and, if free blocks may look used, all that are not recorded.
void KeepKnown(const ObservedProcess& process, const RecordedAt& before, Unreachable* found) {
  std::erase_if(found->blocks, [&](const UnreachableBlock& block) {
    const LiveBlock* recorded = process.RecordedIn(block.range);
    return !before.IsSame(block.range, recorded) || (recorded == nullptr && !found->knows_free);
  });
}

std::string HowScanned(const UnreachableReport& report) {
  if (report.is_core) return "a core file";
  if (report.stopped_ns > 0) return fmt::format("one copy, stopped for {}", FormatRoughTimeNs(report.stopped_ns));
  return fmt::format("{} scan{}, {}", report.found.scans, report.found.scans == 1 ? "" : "s",
                     report.found.settled ? "settled" : "not settled");
}

std::string CsvOf(const UnreachableReport& report) {
  std::string text = "allocated_by,bytes,error,blocks,direct,certain,suppressed\n";
  for (const UnreachableRow& row : report.rows) {
    std::string quoted;
    for (const char c : row.label) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    text += fmt::format("\"{}\",{},{},{},{},{},{}\n", quoted, row.WholeBytes(), row.ErrorBytes(), row.WholeBlocks(),
                        row.direct, row.is_certain ? "yes" : "no", row.is_suppressed ? "yes" : "no");
  }
  return text;
}

}  // namespace

int64_t UnreachableRow::WholeBytes() const { return static_cast<int64_t>(std::llround(bytes)); }
int64_t UnreachableRow::WholeBlocks() const { return static_cast<int64_t>(std::llround(blocks)); }
int64_t UnreachableRow::ErrorBytes() const { return static_cast<int64_t>(1.96 * std::sqrt(variance)); }

bool UnreachableReport::FoundNoBlocks() const { return found.source == BlockSource::kNone || found.all_blocks == 0; }

bool UnreachableReport::Understands() const {
  return found.is_complete && !FoundNoBlocks() && (found.knows_free || has_table);
}

bool UnreachableReport::KnowsLittle() const { return found.unknown_bytes > 4 * found.heap_bytes + (uint64_t{1} << 20); }

int UnreachableReport::ExitCode() const {
  bool any_uncertain = !found.settled && !found.blocks.empty();
  bool any_suppressed = false;
  uint64_t in_rows = 0, direct = 0;
  double found_bytes = 0, suppressed_bytes = 0;
  for (const UnreachableRow& row : rows) {
    in_rows += row.direct;
    any_suppressed = any_suppressed || row.is_suppressed;
    if (row.is_suppressed) suppressed_bytes += row.bytes + static_cast<double>(row.ErrorBytes());
    if (row.is_suppressed) continue;
    if (row.is_certain && limits.missing_bytes == 0) return kFinding;
    any_uncertain = true;
  }
  // Blocks that were not sampled are in no row. They may be of a suppressed stack.
  for (const UnreachableBlock& block : found.blocks) {
    direct += block.direct ? 1 : 0;
    found_bytes += static_cast<double>(block.range.end - block.range.start);
  }
  const uint64_t others = direct - std::min(direct, in_rows);
  const bool may_be_suppressed = any_suppressed && found_bytes <= suppressed_bytes;
  if (found.settled && others > found.hidden_registers && has_suppressions) {
    any_uncertain = any_uncertain || !may_be_suppressed;
  } else if (found.settled && others > found.hidden_registers && Understands() && limits.missing_bytes == 0) {
    return kFinding;
  } else if (others > 0 && !may_be_suppressed) {
    any_uncertain = true;
  }
  if (any_uncertain || !Understands() || KnowsLittle() || limits.missing_bytes > 0) return kUnreachableUnknown;
  return kFine;
}

std::string UnreachableReport::Limits() const {
  std::string text;
  if (KnowsLittle()) {
    text += fmt::format(
        "  {} of memory may hold blocks of an allocator that is not understood: searched for pointers, but not checked\n",
        FormatSize(static_cast<int64_t>(found.unknown_bytes)));
  }
  return text + limits.Lines("pointers in it are not found");
}

bool UnreachableReport::StopDecides() const {
  return !is_core && stopped_ns == 0 && Understands() && !KnowsLittle() && ExitCode() == kUnreachableUnknown;
}

std::string UnreachableReport::Sentence() const {
  if (FoundNoBlocks() && limits.missing_bytes > 0) {
    return fmt::format("cannot tell: no heap is found, and {} of memory are missing in the core file",
                       FormatSize(static_cast<int64_t>(limits.missing_bytes)));
  }
  if (!found.is_complete) {
    return fmt::format(
        "cannot tell: the program changes its heap faster than it can be read. holdfast leaks --unreachable --stop {} stops it for a moment",
        pid);
  }
  if (FoundNoBlocks()) {
    return "cannot tell: the allocator is not understood. Holdfast knows every block if the program is started with holdfast run --exact";
  }
  if (!Understands()) {
    return "cannot tell: the caches of this glibc's threads are not understood, so free blocks look used. Start the program with holdfast run";
  }
  if (found.blocks.empty()) {
    return fmt::format("every one of {} blocks ({}) has a pointer to it ({})", found.all_blocks,
                       FormatSize(static_cast<int64_t>(found.all_bytes)), HowScanned(*this));
  }
  return fmt::format("no pointer found to {} in {} blocks, of {} in {} ({})", FormatSize(static_cast<int64_t>(bytes)),
                     found.blocks.size(), FormatSize(static_cast<int64_t>(found.all_bytes)), found.all_blocks,
                     HowScanned(*this));
}

std::string UnreachableText(const UnreachableReport& report, size_t most_rows) {
  std::string text = fmt::format("{}: {}\n", report.process, report.Sentence());
  if (report.FoundNoBlocks() || !report.found.is_complete) return text;
  if (!report.Understands()) return text + report.Limits();
  if (report.found.blocks.empty()) return text + report.Limits();
  if (!report.found.settled) {
    return text +
           fmt::format(
               "  not settled: the program moves pointers faster than they can be read. holdfast leaks --unreachable --stop {} stops it for a moment\n",
               report.pid);
  }
  const auto print = [&](bool certain) {
    size_t shown = 0, more = 0;
    for (const UnreachableRow& row : report.rows) {
      if (row.is_suppressed || row.is_certain != certain) continue;
      if (shown == most_rows && most_rows != 0) {
        ++more;
        continue;
      }
      if (shown++ == 0) {
        if (!certain) {
          text += fmt::format(
              "  uncertain: registers of sleeping threads may hold them. holdfast leaks --unreachable --stop {} reads these, too\n",
              report.pid);
        }
        text += fmt::format("  {:>9}  {:>9}  {:>8}  {}\n", "bytes", "blocks", "direct", "allocated by");
      }
      const int64_t error = row.ErrorBytes();
      text += fmt::format("  {:>9}  {:>9}  {:>8}  {}{}\n", FormatSize(row.WholeBytes()), row.WholeBlocks(), row.direct,
                          row.label, error == 0 ? "" : fmt::format(" ± {}", FormatSize(error)));
    }
    if (more > 0) text += fmt::format("  and {} more: see --format json\n", more);
  };
  print(true);
  print(false);
  text += report.Limits();
  const auto suppressed =
      std::count_if(report.rows.begin(), report.rows.end(), [](const auto& row) { return row.is_suppressed; });
  if (suppressed > 0) text += fmt::format("  {} suppressed\n", suppressed);
  if (report.rows.empty()) text += "  none of these blocks was sampled; holdfast run --exact records all stacks\n";
  return text;
}

std::string UnreachableJson(const UnreachableReport& report) {
  JsonText json;
  json.Open('{').Key("pid").Number(report.pid).Key("process").String(report.process);
  json.Key("understood").Bool(report.Understands()).Key("settled").Bool(report.found.settled);
  json.Key("scans").Number(report.found.scans).Key("stopped_ns").Number(report.stopped_ns);
  json.Key("blocks").Number(static_cast<int64_t>(report.found.blocks.size()));
  json.Key("bytes").Number(static_cast<int64_t>(report.bytes));
  json.Key("all_blocks").Number(static_cast<int64_t>(report.found.all_blocks));
  json.Key("all_bytes").Number(static_cast<int64_t>(report.found.all_bytes));
  json.Key("unknown_bytes").Number(static_cast<int64_t>(report.found.unknown_bytes));
  json.Key("missing_bytes").Number(static_cast<int64_t>(report.limits.missing_bytes)).Key("unreachable").Open('[');
  for (const UnreachableRow& row : report.rows) {
    json.Open('{').Key("allocated_by").String(row.label).Key("bytes").Number(row.WholeBytes());
    json.Key("error").Number(row.ErrorBytes()).Key("blocks").Number(row.WholeBlocks());
    json.Key("found").Number(static_cast<int64_t>(row.found)).Key("direct").Number(static_cast<int64_t>(row.direct));
    json.Key("certain").Bool(row.is_certain).Key("suppressed").Bool(row.is_suppressed).Key("stack").Open('[');
    for (const ObservedProcess::Call& call : row.stack) json.String(call.function);
    json.Close(']').Close('}');
  }
  return json.Close(']').Close('}').text() + "\n";
}

std::vector<Outcome> UnreachableOutcomes(const UnreachableReport& report) {
  const Outcome whole{.name = fmt::format("unreachable memory of {}", report.process), .value = "0", .limit = "0"};
  std::vector<Outcome> outcomes;
  for (const UnreachableRow& row : report.rows) {
    if (!row.IsFinding()) continue;
    Outcome& outcome = outcomes.emplace_back(whole);
    outcome.name = fmt::format("unreachable: {}", row.label);
    outcome.value = fmt::format("{} in {} block{}", FormatSize(row.WholeBytes()), row.WholeBlocks(),
                                row.WholeBlocks() == 1 ? "" : "s");
    if (row.ErrorBytes() != 0) outcome.value += fmt::format(" ± {}", FormatSize(row.ErrorBytes()));
    outcome.failed = true;
  }
  if (!outcomes.empty()) return outcomes;
  outcomes.push_back(whole);
  if (const int code = report.ExitCode(); code != kFine) {
    outcomes[0].failed = true;
    outcomes[0].why = report.StopDecides()
                          ? fmt::format("cannot tell: {}. holdfast leaks --unreachable --stop {} decides",
                                        report.Sentence(), report.pid)
                      : code == kFinding || !report.Understands() ? report.Sentence()
                                                                  : fmt::format("cannot tell: {}", report.Sentence());
  }
  return outcomes;
}

absl::StatusOr<UnreachableReport> FindUnreachableOf(ObservedProcess* process, const Suppressions& suppressions,
                                                    const ScanChoice& choice) {
  const auto failed = [&](const absl::Status& status) {
    return absl::Status(status.code(), fmt::format("{}: {}", process->name(), std::string(status.message())));
  };
  const auto limited = [&](absl::StatusOr<HeapBlocksInput> input) {
    if (input.ok()) input->most_bytes = choice.most_bytes;
    return input;
  };
  UnreachableReport report{.pid = process->pid(),
                           .process = process->name(),
                           .has_table = process->has_table(),
                           .is_core = process->is_core(),
                           .has_suppressions = !suppressions.empty()};
  absl::StatusOr<Unreachable> found;
  if (choice.stop && !process->is_core()) {
    absl::StatusOr<StoppedCopy> copy = CopyStopped(process, choice.most_bytes, false, choice.rights);
    if (!copy.ok()) return failed(copy.status());
    report.stopped_ns = copy->space->stopped_ns();
    found = FindUnreachable(
        copy->space.get(), [&] { return limited(copy->input); }, nullptr);
    if (!found.ok()) return failed(found.status());
    KeepKnown(*process, RecordedAt(process->recorded()), &*found);
  } else {
    // Only blocks that are live before the first and after the last scan are reported.
    if (absl::StatusOr<HeapBlocksInput> first = process->Prepare(false); !first.ok()) return failed(first.status());
    const RecordedAt before(process->recorded());
    std::function<std::optional<uint64_t>()> asleep;
    if (!process->is_core()) asleep = [&] { return process->running()->SwitchesWhileAsleep(); };
    found = FindUnreachable(
        &process->space(), [&] { return limited(process->Prepare(false)); }, asleep);
    if (!found.ok()) return failed(found.status());
    if (absl::StatusOr<HeapBlocksInput> last = process->Prepare(false); !last.ok()) return failed(last.status());
    KeepKnown(*process, before, &*found);
  }
  report.found = *std::move(found);
  report.limits = {process->space().missing_bytes(), process->space().unclear_bytes(), report.found.unknown_stacks};
  // Memory that a forked child inherited belongs to the parent, which reports it.
  if (process->is_forked()) {
    std::erase_if(report.found.blocks,
                  [&](const UnreachableBlock& block) { return process->RecordedIn(block.range) == nullptr; });
  }
  for (const UnreachableBlock& block : report.found.blocks) report.bytes += block.range.end - block.range.start;
  report.rows = UnreachableRows(process, report.found, suppressions).Make();
  return report;
}

ScanEstimate EstimateScan(ObservedProcess* process) {
  ProcessAddressSpace* const space = process->running();
  if (space == nullptr || !space->Refresh().ok()) return {};
  uint64_t populated = 0;
  for (const MemoryMapping& mapping : space->mappings()) {
    if (MayHoldPointers(mapping)) populated += space->PopulatedBytes({mapping.start, mapping.end});
  }
  // For each GiB: the first scan takes at most 1.5 s of CPU, each further one 0.5 s, and the maps 32 MiB. If all threads
  // sleep, one scan is enough; otherwise usually about six more follow.
  const double gib = static_cast<double>(populated) / static_cast<double>(uint64_t{1} << 30);
  const int further = space->SwitchesWhileAsleep().has_value() ? 0 : 6;
  ScanEstimate estimate{.cpu_seconds = gib * (1.5 + 0.5 * further), .bytes = populated / 32};
  // A recorded block takes at least 16 bytes in the table, and 110 here: twice in a list, and in a set.
  estimate.bytes += process->table_bytes() * 7;
  return estimate;
}

int RunUnreachable(const UnreachableOptions& options, std::ostream& out, std::ostream& err) {
  Suppressions suppressions;
  for (const std::string& file : options.suppressions) {
    if (absl::Status status = suppressions.AddFile(file); !status.ok()) return Failed(status, err);
  }
  const absl::StatusOr<ScanBudget> budget = BudgetFor(options.scan_memory);
  if (!budget.ok()) return Failed(budget.status(), err);
  const TracingRights rights(options.stop);
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(options.of_process, options.tables);
  if (!process.ok()) return Failed(process.status(), err);
  if (options.stop && (*process)->is_core()) {
    return Failed(absl::InvalidArgumentError(fmt::format("{}: --stop needs a running process", (*process)->name())),
                  err);
  }
  const absl::StatusOr<UnreachableReport> report = FindUnreachableOf(
      process->get(), suppressions, {.stop = options.stop, .most_bytes = budget->most_bytes, .rights = &rights});
  if (!report.ok()) return Failed(report.status(), err);
  out << (options.format == "json"       ? UnreachableJson(*report)
          : options.format == "csv"      ? CsvOf(*report)
          : options.format == "markdown" ? CheckMarkdown(UnreachableOutcomes(*report))
          : options.format == "junit"    ? CheckJunit(UnreachableOutcomes(*report))
                                         : UnreachableText(*report, options.rows));
  return report->ExitCode();
}

}  // namespace holdfast
