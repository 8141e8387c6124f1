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
#include "report/analysis/growth/suppressions.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/json_text.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/holders/copied_image.h"
#include "report/holders/unreachable.h"
#include "report/show/observed_process.h"
#include "report/show/tracing_rights.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

struct UnreachableRow {
  std::string label;
  std::vector<std::string> stack;  // all functions, innermost first
  double bytes = 0, blocks = 0, variance = 0;
  uint64_t found = 0, direct = 0;  // blocks that were found, without weights
  bool is_certain = true;
  bool is_suppressed = false;
};

// The unreachable blocks in rows: by stack if the table has the stacks, otherwise by class and size.
class UnreachableRows {
 public:
  UnreachableRows(ObservedProcess* process, const Unreachable& found, const Suppressions& suppressions)
      : process_(*process), names_(&process->image(), process->Names()), found_(found), suppressions_(suppressions) {}

  // If the answer is not settled, no block is named.
  std::vector<UnreachableRow> Make() {
    if (!found_.settled) return {};
    for (const UnreachableBlock& block : found_.blocks) Add(block);
    std::vector<UnreachableRow> rows;
    for (auto& [label, row] : rows_) {
      row.is_certain = row.direct > found_.hidden_registers;
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
      if (recorded != nullptr) {
        for (const auto& [function, object] : process_.CallsOf(*recorded)) {
          row.stack.push_back(function);
          row.is_suppressed = row.is_suppressed || suppressions_.Matches(function) || suppressions_.Matches(object);
        }
      }
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
  std::string LabelWithoutStack(const MemoryRange& block) {
    uint64_t word = 0;
    if (process_.image().Read(block.start, &word, sizeof word)) {
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

class UnreachableView {
 public:
  UnreachableView(ObservedProcess* process, const Unreachable& found, std::vector<UnreachableRow> rows,
                  const UnreachableOptions& options, int64_t stopped_ns)
      : process_(*process), found_(found), rows_(std::move(rows)), options_(options), stopped_ns_(stopped_ns) {
    for (const UnreachableBlock& block : found.blocks) bytes_ += block.range.end - block.range.start;
  }

  int Print(std::ostream& out) const {
    if (options_.format == "json") {
      PrintJson(out);
    } else if (options_.format == "csv") {
      out << "allocated_by,bytes,error,blocks,direct,certain,suppressed\n";
      for (const UnreachableRow& row : rows_) {
        out << fmt::format("{},{},{},{},{},{},{}\n", CsvQuoted(row.label), Whole(row.bytes), ErrorOf(row),
                           Whole(row.blocks), row.direct, row.is_certain ? "yes" : "no",
                           row.is_suppressed ? "yes" : "no");
      }
    } else {
      PrintText(out);
    }
    return ExitCodeOf();
  }

 private:
  static int64_t Whole(double value) { return static_cast<int64_t>(std::llround(value)); }
  static int64_t ErrorOf(const UnreachableRow& row) { return static_cast<int64_t>(1.96 * std::sqrt(row.variance)); }

  bool FoundNoBlocks() const { return found_.source == BlockSource::kNone || found_.all_blocks == 0; }
  // Most of the memory may be blocks of an allocator that is not understood.
  bool KnowsLittle() const { return found_.unknown_bytes > 4 * found_.heap_bytes + (uint64_t{1} << 20); }
  bool LacksMemory() const { return process_.image().missing_bytes() > 0; }
  bool Understands() const {
    if (FoundNoBlocks()) return false;
    return found_.knows_free || process_.has_table();
  }
  int ExitCodeOf() const {
    bool any_uncertain = !found_.settled && !found_.blocks.empty();
    bool any_suppressed = false;
    uint64_t in_rows = 0, direct = 0;
    double found_bytes = 0, suppressed_bytes = 0;
    for (const UnreachableRow& row : rows_) {
      in_rows += row.direct;
      any_suppressed = any_suppressed || row.is_suppressed;
      if (row.is_suppressed) suppressed_bytes += row.bytes + static_cast<double>(ErrorOf(row));
      if (row.is_suppressed) continue;
      if (row.is_certain && !LacksMemory()) return kFinding;
      any_uncertain = true;
    }
    // Blocks that were not sampled are in no row. They may be of a suppressed stack.
    for (const UnreachableBlock& block : found_.blocks) {
      direct += block.direct ? 1 : 0;
      found_bytes += static_cast<double>(block.range.end - block.range.start);
    }
    const uint64_t others = direct - std::min(direct, in_rows);
    const bool may_be_suppressed = any_suppressed && found_bytes <= suppressed_bytes;
    if (found_.settled && others > found_.hidden_registers && !options_.suppressions.empty()) {
      any_uncertain = any_uncertain || !may_be_suppressed;
    } else if (found_.settled && others > found_.hidden_registers && Understands() && !LacksMemory()) {
      return kFinding;
    } else if (others > 0 && !may_be_suppressed) {
      any_uncertain = true;
    }
    if (any_uncertain || !Understands() || KnowsLittle() || LacksMemory()) return kUnreachableUnknown;
    return kFine;
  }

  std::string HowScanned() const {
    if (process_.is_core()) return "a core file";
    if (stopped_ns_ > 0) return fmt::format("one copy, stopped for {}", FormatRoughTimeNs(stopped_ns_));
    return fmt::format("{} scan{}, {}", found_.scans, found_.scans == 1 ? "" : "s",
                       found_.settled ? "settled" : "not settled");
  }

  static std::string CsvQuoted(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  }
  // Says what the search has not covered.
  void PrintLimits(std::ostream& out) const {
    if (KnowsLittle()) {
      out << fmt::format(
          "  {} of memory may hold blocks of an allocator that is not understood: searched for pointers, but not checked\n",
          FormatSize(static_cast<int64_t>(found_.unknown_bytes)));
    }
    if (LacksMemory()) {
      out << fmt::format("  {} of memory are missing in the core file: pointers in it are not found\n",
                         FormatSize(static_cast<int64_t>(process_.image().missing_bytes())));
    }
  }

  void PrintText(std::ostream& out) const {
    if (FoundNoBlocks()) {
      out << fmt::format(
          "{}: cannot tell: the allocator is not understood. Holdfast knows every block if the program is started with holdfast run --exact\n",
          process_.name());
      return;
    }
    if (!Understands()) {
      out << fmt::format(
          "{}: cannot tell: the caches of this glibc's threads are not understood, so free blocks look used. Start the program with holdfast run\n",
          process_.name());
      return;
    }
    if (found_.blocks.empty()) {
      out << fmt::format("{}: every one of {} blocks ({}) has a pointer to it ({})\n", process_.name(),
                         found_.all_blocks, FormatSize(static_cast<int64_t>(found_.all_bytes)), HowScanned());
      PrintLimits(out);
      return;
    }
    out << fmt::format("{}: no pointer found to {} in {} blocks, of {} in {} ({})\n", process_.name(),
                       FormatSize(static_cast<int64_t>(bytes_)), found_.blocks.size(),
                       FormatSize(static_cast<int64_t>(found_.all_bytes)), found_.all_blocks, HowScanned());
    if (!found_.settled) {
      out << fmt::format(
          "  not settled: the program moves pointers faster than they can be read. holdfast leaks --unreachable --stop {} stops it for a moment\n",
          process_.pid());
      return;
    }
    const auto print = [&](bool certain) {
      size_t shown = 0, more = 0;
      for (const UnreachableRow& row : rows_) {
        if (row.is_suppressed || row.is_certain != certain) continue;
        if (shown == options_.rows && options_.rows != 0) {
          ++more;
          continue;
        }
        if (shown++ == 0) {
          if (!certain) {
            out << fmt::format(
                "  uncertain: registers of sleeping threads may hold them. holdfast leaks --unreachable --stop {} reads these, too\n",
                process_.pid());
          }
          out << fmt::format("  {:>9}  {:>9}  {:>8}  {}\n", "bytes", "blocks", "direct", "allocated by");
        }
        const int64_t error = ErrorOf(row);
        out << fmt::format("  {:>9}  {:>9}  {:>8}  {}{}\n", FormatSize(Whole(row.bytes)), Whole(row.blocks), row.direct,
                           row.label, error == 0 ? "" : fmt::format(" ± {}", FormatSize(error)));
      }
      if (more > 0) out << fmt::format("  and {} more: see --format json\n", more);
    };
    print(true);
    print(false);
    PrintLimits(out);
    const auto suppressed =
        std::count_if(rows_.begin(), rows_.end(), [](const auto& row) { return row.is_suppressed; });
    if (suppressed > 0) out << fmt::format("  {} suppressed\n", suppressed);
    if (rows_.empty()) out << "  none of these blocks was sampled; holdfast run --exact records all stacks\n";
  }

  void PrintJson(std::ostream& out) const {
    JsonText json;
    json.Open('{').Key("pid").Number(process_.pid()).Key("process").String(process_.name());
    json.Key("understood").Bool(Understands()).Key("settled").Bool(found_.settled);
    json.Key("scans").Number(found_.scans).Key("stopped_ns").Number(stopped_ns_);
    json.Key("blocks")
        .Number(static_cast<int64_t>(found_.blocks.size()))
        .Key("bytes")
        .Number(static_cast<int64_t>(bytes_));
    json.Key("all_blocks").Number(static_cast<int64_t>(found_.all_blocks));
    json.Key("all_bytes").Number(static_cast<int64_t>(found_.all_bytes));
    json.Key("unknown_bytes").Number(static_cast<int64_t>(found_.unknown_bytes));
    json.Key("missing_bytes").Number(static_cast<int64_t>(process_.image().missing_bytes()));
    json.Key("unreachable").Open('[');
    for (const UnreachableRow& row : rows_) {
      json.Open('{').Key("allocated_by").String(row.label).Key("bytes").Number(Whole(row.bytes));
      json.Key("error").Number(ErrorOf(row)).Key("blocks").Number(Whole(row.blocks));
      json.Key("found").Number(static_cast<int64_t>(row.found)).Key("direct").Number(static_cast<int64_t>(row.direct));
      json.Key("certain").Bool(row.is_certain).Key("suppressed").Bool(row.is_suppressed).Key("stack").Open('[');
      for (const std::string& function : row.stack) json.String(function);
      json.Close(']').Close('}');
    }
    out << json.Close(']').Close('}').text() << "\n";
  }

  ObservedProcess& process_;
  const Unreachable& found_;
  const std::vector<UnreachableRow> rows_;
  const UnreachableOptions& options_;
  const int64_t stopped_ns_;
  uint64_t bytes_ = 0;
};

}  // namespace

int RunUnreachable(const UnreachableOptions& options, std::ostream& out, std::ostream& err) {
  Suppressions suppressions;
  for (const std::string& file : options.suppressions) {
    if (absl::Status status = suppressions.AddFile(file); !status.ok()) return Failed(status, err);
  }
  const absl::StatusOr<ScanBudget> budget = BudgetFor(options.scan_memory);
  if (!budget.ok()) return Failed(budget.status(), err);
  const TracingRights rights(options.stop);
  absl::StatusOr<std::unique_ptr<ObservedProcess>> opened = ObservedProcess::Open(options.of_process, options.tables);
  if (!opened.ok()) return Failed(opened.status(), err);
  ObservedProcess& process = **opened;
  const auto failed = [&](const absl::Status& status) {
    return Failed(absl::Status(status.code(), fmt::format("{}: {}", process.name(), std::string(status.message()))),
                  err);
  };
  const auto limited = [&](absl::StatusOr<HeapBlocksInput> input) {
    if (input.ok()) input->most_bytes = budget->most_bytes;
    return input;
  };
  absl::StatusOr<Unreachable> found;
  int64_t stopped_ns = 0;
  if (options.stop && !process.is_core()) {
    rights.Use();
    // The table must be of the same moment as the copy.
    absl::StatusOr<HeapBlocksInput> input;
    absl::StatusOr<std::unique_ptr<CopiedImage>> copy =
        CopiedImage::Make(process.running(), budget->most_bytes, [&]() -> absl::Status {
          input = limited(process.PrepareUnchanged(false));
          return input.status();
        });
    rights.GiveUp();
    if (!copy.ok()) return failed(copy.status());
    input->outermost_end = process.OutermostEndsIn(copy->get());
    stopped_ns = (*copy)->stopped_ns();
    found = FindUnreachable(
        copy->get(), [&] { return input; }, nullptr);
    if (!found.ok()) return failed(found.status());
    KeepKnown(process, RecordedAt(process.recorded()), &*found);
  } else {
    // Only blocks that are live before the first and after the last scan are reported.
    if (absl::StatusOr<HeapBlocksInput> first = process.Prepare(false); !first.ok()) return failed(first.status());
    const RecordedAt before(process.recorded());
    std::function<std::optional<uint64_t>()> asleep;
    if (!process.is_core()) asleep = [&] { return process.running()->SwitchesWhileAsleep(); };
    found = FindUnreachable(
        &process.image(), [&] { return limited(process.Prepare(false)); }, asleep);
    if (!found.ok()) return failed(found.status());
    if (absl::StatusOr<HeapBlocksInput> last = process.Prepare(false); !last.ok()) return failed(last.status());
    KeepKnown(process, before, &*found);
  }
  std::vector<UnreachableRow> rows = UnreachableRows(&process, *found, suppressions).Make();
  return UnreachableView(&process, *found, std::move(rows), options, stopped_ns).Print(out);
}

}  // namespace holdfast
