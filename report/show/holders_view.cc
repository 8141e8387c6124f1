#include "report/show/holders_view.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/json_text.h"
#include "report/base/pattern.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/holders/holder_scan.h"
#include "report/show/observed_process.h"
#include "report/show/tracing_rights.h"
#include "sampler/contract/weight.h"

namespace holdfast {
namespace {

std::string_view HeapDescription(BlockSource source) {
  switch (source) {
    case BlockSource::kGlibc:
      return "glibc's heap";
    case BlockSource::kRecorded:
      return "recorded blocks";
    case BlockSource::kGuessed:
      return "the heap";
    default:
      return "no known heap";
  }
}

// Labels blocks by the stack that allocated them, by their class, or by their size.
class BlockLabels {
 public:
  BlockLabels(ObservedProcess* process, HolderScan* scan) : process_(*process), scan_(*scan) {}

  uint64_t NumberOf(const BlockMap::Block& block) {
    const LiveBlock* recorded = process_.RecordedIn(block.range);
    const uint16_t object_class = scan_.ClassOf(block.number);
    const std::string* site = recorded == nullptr ? nullptr : &process_.SiteOf(*recorded);
    if (site == nullptr || site->empty()) {
      if (object_class != 0) return object_class;
      return kSizes + std::bit_width(block.range.end - block.range.start - 1);
    }
    const auto [place, added] = sites_.emplace(std::pair(*site, object_class), kSites + texts_.size());
    if (added) {
      texts_.push_back(
          object_class == 0 ? *site : fmt::format("{}: {}", *site, ShortName(scan_.names().ClassName(object_class))));
    }
    return place->second;
  }
  std::string TextOf(uint64_t number) const {
    if (number >= kSites) return texts_[number - kSites];
    if (number >= kSizes)
      return fmt::format("blocks of up to {}", FormatSize(static_cast<int64_t>(uint64_t{1} << (number - kSizes))));
    return ShortName(scan_.names().ClassName(static_cast<uint16_t>(number)));
  }
  std::string Describe(const BlockMap::Block& block) {
    std::string text = fmt::format("{}", FormatSize(static_cast<int64_t>(block.range.end - block.range.start)));
    const uint64_t number = NumberOf(block);
    if (number < kSizes || number >= kSites) text += ", " + TextOf(number);
    return text;
  }

 private:
  static constexpr uint64_t kSizes = uint64_t{1} << 20, kSites = uint64_t{1} << 21;

  ObservedProcess& process_;
  HolderScan& scan_;
  std::map<std::pair<std::string, uint16_t>, uint64_t> sites_;
  std::vector<std::string> texts_;
};

class HoldersView {
 public:
  // `stopped_ns`: how long the process was stopped; 0: it was not.
  HoldersView(ObservedProcess* process, HolderScan* scan, const HoldersOptions& options, ScanBudget* budget,
              int64_t stopped_ns)
      : process_(*process),
        scan_(*scan),
        options_(options),
        budget_(*budget),
        stopped_ns_(stopped_ns),
        labels_(process, scan) {}

  void PrintTree(std::ostream& out) {
    const HolderTreeOptions tree{.least_share = options_.least_percent / 100,
                                 .depth = static_cast<int>(options_.depth),
                                 .most_rows = options_.rows};
    const HolderNode all = BuildHolderTree(
        &scan_, [this](const BlockMap::Block& block) { return labels_.NumberOf(block); },
        [this](uint64_t number) { return labels_.TextOf(number); }, tree, &budget_);
    if (options_.format == "json") {
      PrintJson(all, out);
    } else if (options_.format == "csv") {
      out << "holder,retained_bytes,own_bytes,blocks\n";
      for (const HolderNode& node : all.below) PrintCsv(node, "", out);
    } else {
      PrintHead(out);
      if (!all.below.empty()) {
        out << fmt::format("  {:>9}  {:>6}  {:>9}  {}\n", "retained", "%", "blocks",
                           "holder, and below it the blocks that it retains");
      }
      for (const HolderNode& node : all.below) PrintNode(node, all.retained, 0, out);
      if (all.hidden > 0) {
        out << fmt::format("  {:>9}  {:>6}  {:>9}  {}\n", FormatSize(static_cast<int64_t>(all.hidden)),
                           Percent(all.hidden, all.retained), "", "smaller holders");
      }
    }
  }

  // The holders of the blocks that one function allocated.
  int PrintOf(const Pattern& function, std::ostream& out) {
    struct Share {
      double bytes = 0, variance = 0;
      uint64_t samples = 0;
    };
    std::map<std::string, Share> shares;
    Share all;
    for (const LiveBlock& recorded : process_.recorded()) {
      const ObservedProcess::Calls& calls = process_.CallsOf(recorded);
      if (std::none_of(calls.begin(), calls.end(), [&](const auto& call) { return function.Matches(call.function); }))
        continue;
      const BlockMap::Block block = scan_.heap().map.Find(recorded.address);
      std::string holder = "[freed meanwhile, or in memory that was not read]";
      if (block.number != BlockMap::kNone && !block.unused) {
        const std::optional<uint32_t> found = scan_.HolderOfBlock(block.number);
        holder = found.has_value() ? scan_.names().holders()[*found].name : "[no pointer found]";
      }
      const double p = SampleProbability(recorded.bytes, recorded.interval),
                   bytes = static_cast<double>(recorded.bytes);
      for (Share* share : {&shares[holder], &all}) {
        share->bytes += bytes / p;
        share->variance += bytes * bytes * (1 - p) / (p * p);
        ++share->samples;
      }
    }
    if (all.samples == 0) {
      Say(fmt::format(
          "{}: no live block was allocated by a function that matches {}. holdfast top lists the functions.",
          process_.name(), options_.function));
      return kCouldNot;
    }
    std::vector<std::pair<std::string, Share>> sorted(shares.begin(), shares.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
    const auto whole = [](double bytes) { return static_cast<int64_t>(std::llround(bytes)); };
    const auto error = [](const Share& share) { return static_cast<int64_t>(1.96 * std::sqrt(share.variance)); };
    if (options_.format == "json") {
      JsonText json;
      json.Open('{').Key("pid").Number(process_.pid()).Key("function").String(options_.function);
      json.Key("bytes").Number(whole(all.bytes)).Key("error").Number(error(all)).Key("holders").Open('[');
      for (const auto& [holder, share] : sorted) {
        json.Open('{').Key("holder").String(holder).Key("bytes").Number(whole(share.bytes));
        json.Key("error").Number(error(share)).Key("blocks").Number(static_cast<int64_t>(share.samples)).Close('}');
      }
      out << json.Close(']').Close('}').text() << "\n";
      return kFine;
    }
    if (options_.format == "csv") {
      out << "holder,bytes,error,blocks\n";
      for (const auto& [holder, share] : sorted)
        out << fmt::format("{},{},{},{}\n", Quoted(holder), whole(share.bytes), error(share), share.samples);
      return kFine;
    }
    out << fmt::format("{}: {}{} allocated by {}, by what holds it\n", process_.name(), FormatSize(whole(all.bytes)),
                       Error(error(all)), options_.function);
    for (const auto& [holder, share] : sorted) {
      out << fmt::format("  {:>9}  {:>6}  {}{}\n", FormatSize(whole(share.bytes)),
                         Percent(static_cast<uint64_t>(whole(share.bytes)), static_cast<uint64_t>(whole(all.bytes))),
                         holder, Error(error(share)));
    }
    return kFine;
  }

  int PrintPath(uint64_t address, std::ostream& out) {
    const BlockMap::Block target = scan_.heap().map.Find(address);
    const std::vector<HolderScan::Step> steps = scan_.PathTo(address);
    if (options_.format == "json") {
      JsonText json;
      json.Open('{').Key("pid").Number(process_.pid()).Key("address").Number(static_cast<int64_t>(address));
      json.Key("is_block").Bool(target.number != BlockMap::kNone && !target.unused).Key("path").Open('[');
      for (const HolderScan::Step& step : steps) {
        json.Open('{');
        if (!step.place.empty()) {
          json.Key("holder").String(step.place);
        } else {
          const BlockMap::Block block = scan_.heap().map.Get(step.block);
          json.Key("block").Number(static_cast<int64_t>(block.range.start));
          json.Key("bytes").Number(static_cast<int64_t>(block.range.end - block.range.start));
          json.Key("from_offset").Number(static_cast<int64_t>(step.from_offset));
          json.Key("to_offset").Number(static_cast<int64_t>(step.to_offset));
          json.Key("what").String(labels_.TextOf(labels_.NumberOf(block)));
        }
        json.Close('}');
      }
      out << json.Close(']').Close('}').text() << "\n";
      return kFine;
    }
    if (target.number == BlockMap::kNone || target.unused) {
      out << fmt::format("{:#x} is in no block that {} uses\n", address, process_.name());
      return kFine;
    }
    out << fmt::format("{:#x} is {} bytes after the start of a block of {}\n", address, address - target.range.start,
                       labels_.Describe(target));
    if (steps.empty()) out << "no pointer found that leads to it from a root\n";
    for (const HolderScan::Step& step : steps) {
      if (!step.place.empty()) {
        out << fmt::format("  {}\n", step.place);
        continue;
      }
      const BlockMap::Block block = scan_.heap().map.Get(step.block);
      out << fmt::format("  → {}{:#x}{}  {}\n", step.from_offset != 0 ? fmt::format("+{}: ", step.from_offset) : "",
                         block.range.start, step.to_offset != 0 ? fmt::format("+{}", step.to_offset) : "",
                         labels_.Describe(block));
    }
    return kFine;
  }

  void PrintHead(std::ostream& out) const {
    const HeapBlocks& heap = scan_.heap();
    out << fmt::format("{}: {} in {} blocks of {}", process_.name(),
                       FormatSize(static_cast<int64_t>(scan_.used_bytes())), scan_.used_blocks(),
                       HeapDescription(heap.source));
    if (scan_.unreached_blocks() > 0 && heap.source != BlockSource::kGuessed) {
      out << fmt::format("; no pointer found to {} in {} blocks (holdfast leaks --unreachable {} checks them)",
                         FormatSize(static_cast<int64_t>(scan_.unreached_bytes())), scan_.unreached_blocks(),
                         process_.is_core() ? "CORE" : std::to_string(process_.pid()));
    }
    if (stopped_ns_ > 0) out << fmt::format("; stopped for {}", FormatRoughTimeNs(stopped_ns_));
    out << "\n";
    if (const std::string note = Note(); !note.empty()) out << "  " << note << "\n";
    const AddressSpace& space = process_.space();
    const SearchLimits limits{space.missing_bytes(), space.unclear_bytes(), scan_.unknown_stacks()};
    out << limits.Lines("what only they hold looks unreachable");
  }

 private:
  // Returns what limits the answer: blocks that are guessed, only sampled, or not understood; "" if nothing does.
  std::string Note() const {
    const HeapBlocks& heap = scan_.heap();
    if (heap.source == BlockSource::kGuessed) return "approximate: block sizes are guessed";
    if (heap.source == BlockSource::kRecorded && !process_.is_exact())
      return "only sampled blocks of this allocator are known; holdfast run --exact records all";
    if (heap.source == BlockSource::kNone)
      return "no heap is understood here: the allocator is unknown, or the process has allocated nothing";
    if (!heap.knows_free)
      return fmt::format("glibc {}: the caches of threads are not understood, so some free blocks count as used",
                         heap.glibc_version.empty() ? "of an unknown version" : heap.glibc_version);
    return "";
  }
  static std::string Percent(uint64_t part, uint64_t all) {
    return FormatPercent(static_cast<int64_t>(part), static_cast<int64_t>(all));
  }
  static std::string Error(int64_t bytes) { return bytes == 0 ? "" : fmt::format(" ± {}", FormatSize(bytes)); }
  static std::string Quoted(std::string_view text) {
    std::string quoted = "\"";
    for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  }

  void PrintNode(const HolderNode& node, uint64_t all, size_t depth, std::ostream& out) const {
    out << fmt::format("  {:>9}  {:>6}  {:>9}  {}{}\n", FormatSize(static_cast<int64_t>(node.retained)),
                       Percent(node.retained, all), node.blocks, std::string(depth * 2, ' '), node.label);
    for (const HolderNode& below : node.below) PrintNode(below, all, depth + 1, out);
  }
  void PrintCsv(const HolderNode& node, const std::string& above, std::ostream& out) const {
    const std::string path = above.empty() ? node.label : fmt::format("{} > {}", above, node.label);
    out << fmt::format("{},{},{},{}\n", Quoted(path), node.retained, node.bytes, node.blocks);
    for (const HolderNode& below : node.below) PrintCsv(below, path, out);
  }
  void PrintJson(const HolderNode& all, std::ostream& out) const {
    const HeapBlocks& heap = scan_.heap();
    JsonText json;
    json.Open('{').Key("pid").Number(process_.pid()).Key("process").String(process_.name());
    json.Key("heap").String(HeapDescription(heap.source)).Key("approximate").Bool(heap.source == BlockSource::kGuessed);
    json.Key("missing_bytes").Number(static_cast<int64_t>(process_.space().missing_bytes()));
    json.Key("stopped_ns")
        .Number(stopped_ns_)
        .Key("note")
        .String(Note())
        .Key("blocks")
        .Number(static_cast<int64_t>(scan_.used_blocks()));
    json.Key("bytes").Number(static_cast<int64_t>(scan_.used_bytes()));
    json.Key("unreached_blocks").Number(static_cast<int64_t>(scan_.unreached_blocks()));
    json.Key("unreached_bytes").Number(static_cast<int64_t>(scan_.unreached_bytes()));
    json.Key("retained").Number(static_cast<int64_t>(all.retained)).Key("holders").Open('[');
    for (const HolderNode& node : all.below) AddJson(node, &json);
    out << json.Close(']').Close('}').text() << "\n";
  }
  static void AddJson(const HolderNode& node, JsonText* json) {
    json->Open('{').Key("name").String(node.label).Key("retained").Number(static_cast<int64_t>(node.retained));
    json->Key("own").Number(static_cast<int64_t>(node.bytes)).Key("blocks").Number(static_cast<int64_t>(node.blocks));
    json->Key("below").Open('[');
    for (const HolderNode& below : node.below) AddJson(below, json);
    json->Close(']').Close('}');
  }

  ObservedProcess& process_;
  HolderScan& scan_;
  const HoldersOptions& options_;
  ScanBudget& budget_;
  const int64_t stopped_ns_;
  BlockLabels labels_;
};

absl::StatusOr<uint64_t> AddressIn(const std::string& text) {
  uint64_t address = 0;
  const char* begin = text.data() + (text.starts_with("0x") || text.starts_with("0X") ? 2 : 0);
  const auto parsed = std::from_chars(begin, text.data() + text.size(), address, 16);
  if (begin == text.data() + text.size() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    return absl::InvalidArgumentError(fmt::format("--address {}: not an address, such as 0x5555aaaa1230", text));
  return address;
}

}  // namespace

HolderNode WholeHolderTree(ObservedProcess* process, HolderScan* scan, ScanBudget* budget) {
  BlockLabels labels(process, scan);
  constexpr HolderTreeOptions kWhole{.least_share = 0.0002, .depth = 30, .most_rows = 500};
  return BuildHolderTree(
      scan, [&](const BlockMap::Block& block) { return labels.NumberOf(block); },
      [&](uint64_t number) { return labels.TextOf(number); }, kWhole, budget);
}

int RunHolders(const HoldersOptions& options, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Pattern> function = Pattern::Compile("--of", options.function);
  if (!function.ok()) return Failed(function.status(), err);
  uint64_t address = 0;
  if (!options.address.empty()) {
    const absl::StatusOr<uint64_t> parsed = AddressIn(options.address);
    if (!parsed.ok()) return Failed(parsed.status(), err);
    address = *parsed;
  }
  absl::StatusOr<ScanBudget> budget = BudgetFor(options.scan_memory);
  if (!budget.ok()) return Failed(budget.status(), err);
  const TracingRights rights(options.stop);
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(options.of_process, options.tables);
  if (!process.ok()) return Failed(process.status(), err);
  const auto failed = [&](const absl::Status& status) {
    return Failed(absl::Status(status.code(), fmt::format("{}: {}", (*process)->name(), std::string(status.message()))),
                  err);
  };
  if (options.stop && (*process)->is_core())
    return failed(absl::InvalidArgumentError("--stop needs a running process"));
  if (!options.function.empty() && !(*process)->has_table()) {
    return Failed(absl::NotFoundError(fmt::format("{}: --of needs allocation stacks, and {}", (*process)->name(),
                                                  (*process)->is_core()
                                                      ? "a core file has none. Use it on the running process"
                                                      : "this process is not profiled. Start it with: holdfast run")),
                  err);
  }
  StoppedCopy copy;
  if (options.stop) {
    absl::StatusOr<StoppedCopy> made = CopyStopped(process->get(), budget->most_bytes, true, &rights);
    if (!made.ok()) return failed(made.status());
    copy = *std::move(made);
    budget->Take(copy.space->bytes());
  } else {
    absl::StatusOr<HeapBlocksInput> input = (*process)->Prepare(true);
    if (!input.ok()) return Failed(input.status(), err);
    copy.input = *std::move(input);
  }
  AddressSpace* const space = copy.space != nullptr ? copy.space.get() : &(*process)->space();
  HolderScan scan(space, (*process)->Names(), &*budget);
  const bool wants_paths = !options.function.empty() || !options.address.empty();
  if (absl::Status status = scan.Run(copy.input, wants_paths); !status.ok()) return failed(status);
  HoldersView view(process->get(), &scan, options, &*budget, copy.space != nullptr ? copy.space->stopped_ns() : 0);
  if (!options.address.empty()) return view.PrintPath(address, out);
  if (!options.function.empty()) return view.PrintOf(*function, out);
  view.PrintTree(out);
  return kFine;
}

}  // namespace holdfast
