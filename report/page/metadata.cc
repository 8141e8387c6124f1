// The JSON half of ReportBuilder: everything small.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/growth/rate_unit.h"
#include "report/base/base_name.h"
#include "report/base/json_text.h"
#include "report/base/value_units.h"
#include "report/page/report_builder.h"

namespace holdfast {

namespace {

// Writes a record as an object without fields that are 0, false or empty. report/page/web/src/core/records.ts has its type.
template <typename Record>
void AddRecord(const Record& record, JsonText* json);

class RecordJson {
 public:
  explicit RecordJson(JsonText* json) : json_(*json) {}

  void operator()(uint32_t, const char* name, const std::string& text) {
    if (!text.empty()) json_.Key(name).String(text);
  }
  void operator()(uint32_t, const char* name, bool value) {
    if (value) json_.Key(name).Bool(true);
  }
  void operator()(uint32_t, const char* name, double value) {
    if (value != 0 && std::isfinite(value)) json_.Key(name).Real(value);
  }
  template <typename Number>
  requires std::is_integral_v<Number> || std::is_enum_v<Number>
  void operator()(uint32_t, const char* name, Number value) {
    if (value != Number{}) json_.Key(name).Number(static_cast<int64_t>(value));
  }
  template <typename Record>
  void operator()(uint32_t, const char* name, const std::optional<Record>& record) {
    if (!record.has_value()) return;
    json_.Key(name);
    AddRecord(*record, &json_);
  }
  void operator()(uint32_t, const char* name, const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    json_.Key(name).Open('[');
    for (const std::string& text : texts) json_.String(text);
    json_.Close(']');
  }
  template <typename Record>
  void operator()(uint32_t, const char* name, const std::vector<Record>& records) {
    if (records.empty()) return;
    json_.Key(name).Open('[');
    for (const Record& record : records) AddRecord(record, &json_);
    json_.Close(']');
  }
  // Stacks and lengths of waits are not for the page.
  void operator()(uint32_t, const char* name, const std::vector<uint32_t>& numbers) {
    if (numbers.empty() || std::string_view(name) != "lane") return;
    json_.Key(name).Open('[');
    for (const uint32_t number : numbers) json_.Number(number);
    json_.Close(']');
  }
  void operator()(uint32_t, const char*, const std::vector<uint64_t>&) {}
  void operator()(uint32_t, const char*, const std::vector<std::vector<uint32_t>>&) {}
  void operator()(uint32_t, const char*, const TimeCounts&) {}

 private:
  JsonText& json_;
};

template <typename Record>
void AddRecord(const Record& record, JsonText* json) {
  json->Open('{');
  RecordJson fields(json);
  Record::Fields(record, fields);
  json->Close('}');
}

}  // namespace

// The processes with the one that most surely grows first.
std::map<const ReportBuilder::Growths*, int64_t> ReportBuilder::OrderOfGrowths() const {
  std::vector<const Growths*> sorted;
  for (const Growths& growths : growths_) sorted.push_back(&growths);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Growths* a, const Growths* b) {
    const auto key = [](const Growths& one) { return std::pair(one.answer.grows, one.total_now - one.answer.before); };
    return key(*a) > key(*b);
  });
  std::map<const Growths*, int64_t> order;
  for (const Growths* growths : sorted) order.emplace(growths, static_cast<int64_t>(order.size()));
  return order;
}

// The stacks of all processes, as `holdfast leaks` lists them.
std::map<const ReportBuilder::GrowingStack*, int64_t> ReportBuilder::OrderOfStacks() const {
  std::vector<const GrowingStack*> sorted;
  for (const Growths& growths : growths_) {
    for (const GrowingStack& stack : growths.stacks) sorted.push_back(&stack);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const GrowingStack* a, const GrowingStack* b) {
    return ListKey(a->bytes, a->bytes_now) > ListKey(b->bytes, b->bytes_now);
  });
  std::map<const GrowingStack*, int64_t> order;
  for (const GrowingStack* stack : sorted) order.emplace(stack, static_cast<int64_t>(order.size()));
  return order;
}

// Writes [class, slope, half width, slope of objects, bytes now, objects now, functions, course, text, half age, oldest
// age, place in the list, whether it leaks] for each stack.
std::string ReportBuilder::GrowthsAsJson() const {
  const std::map<const Growths*, int64_t> order = OrderOfGrowths();
  const std::map<const GrowingStack*, int64_t> stack_order = OrderOfStacks();
  JsonText json;
  const auto finite = [](double value) { return std::isfinite(value) ? value : 0; };
  json.Open('[');
  for (const Growths& growths : growths_) {
    json.Open('{').Key("process").String(growths.process).Key("kind").String(growths.kind);
    if (growths.by_births) json.Key("births").Bool(true);
    const RateUnit unit = RateUnitFor(growths.hours);
    json.Key("order").Number(order.at(&growths)).Key("rate").Open('{').Key("anHour").Real(unit.an_hour);
    json.Key("words").String(unit.words).Close('}');
    json.Key("snapshots").Number(static_cast<int64_t>(growths.snapshots)).Key("hours").Real(growths.hours);
    json.Key("slope").Real(finite(growths.total.slope)).Key("halfWidth").Real(finite(growths.total.half_width));
    json.Key("shape").String(GrowthClassName(growths.total.growth_class)).Key("now").Number(growths.total_now);
    const GrowthAnswer& answer = growths.answer;
    json.Key("answer").Open('{').Key("grows").String(GrowsName(answer.grows)).Key("before").Number(answer.before);
    json.Key("text").String(TextOf(answer, growths.hours)).Key("rises").Bool(answer.rises);
    json.Key("goesOn").Bool(answer.goes_on);
    json.Key("hours").Real(answer.hours).Key("by").String(OwnerPhrase(answer)).Key("largest").Open('[');
    for (const uint32_t function : growths.largest) json.Number(function);
    json.Close(']').Close('}');
    json.Key("memory").Open('[');
    for (const std::string& line : growths.memory) json.String(line);
    json.Close(']');
    json.Key("growing").Number(static_cast<int64_t>(growths.growing)).Key("stacks").Open('[');
    for (const GrowingStack& stack : growths.stacks) {
      json.Open('[').String(GrowthClassName(stack.bytes.growth_class)).Real(finite(stack.bytes.slope));
      json.Real(finite(stack.bytes.half_width)).Real(finite(stack.objects.slope));
      json.Number(stack.bytes_now).Number(stack.objects_now).Open('[');
      for (const uint32_t function : stack.functions) json.Number(function);
      json.Close(']').Open('[');
      for (const int64_t bytes : stack.course) json.Number(bytes);
      json.Close(']').String(stack.text).Number(stack.half_age_ns).Number(stack.oldest_age_ns);
      json.Number(stack_order.at(&stack)).Bool(IsLeak(stack.bytes.growth_class)).Close(']');
    }
    json.Close(']').Close('}');
  }
  return json.Close(']').text();
}

// Returns what the page opens with instead of memory in use (report/analysis/opening.h); "" if nothing.
std::string ReportBuilder::OpensAsJson() const {
  std::vector<OwnMemory> heaps;
  std::set<std::string> with_peak;
  int64_t left = 0;
  bool has_base = false, in_trouble = false;
  for (const Series& series : series_) {
    has_base = has_base || series.is_base;
    if (series.is_base) continue;
    if (series.kind == "peak") with_peak.insert(series.process);
    in_trouble = in_trouble || series.lock_trouble.has_value();
    if (series.is_ended || !series.own_memory.has_value()) continue;
    heaps.push_back(*series.own_memory);
    left = WrappedSum(left, series.own_memory->left);
  }
  const bool grows = std::any_of(growths_.begin(), growths_.end(),
                                 [](const Growths& growths) { return IsLeak(growths.answer.grows); });
  const Opening opening = OpeningOf(heaps, with_peak);
  JsonText json;
  json.Open('{');
  if (opening != Opening::kInUse) {
    json.Key("metric").String(opening == Opening::kPeak ? "peak/peak_space" : "heap/alloc_space");
    json.Key("why").String(OpeningText(opening, left == 0 ? "" : FormatSize(left)));
  }
  if (in_trouble && !grows && !has_base) json.Key("view").String("locks");
  json.Close('}');
  return json.text() == "{}" ? "" : json.text();
}

std::string ReportBuilder::Meta(const std::vector<size_t>& section_lengths) const {
  JsonText json;
  json.Open('{').Key("version").String(HOLDFAST_VERSION);
  json.Key("functions").Number(static_cast<int64_t>(functions_.size()));
  json.Key("frames").Number(static_cast<int64_t>(frames_.size()));
  json.Key("nodes").Number(static_cast<int64_t>(parents_.size()));
  json.Key("objects").Open('[');
  for (const auto& [path, build_id] : objects_) {
    const auto called = called_.find(path);
    json.Open('[').String(path).String(build_id);
    if (called != called_.end()) json.String(called->second);
    json.Close(']');
  }
  json.Close(']').Key("labels").Open('[');
  for (const std::string& labels : label_sets_) json.Raw(labels);
  const auto function_or_none = [&json](uint32_t function) {
    json.Number(function == kNoFunction ? -1 : static_cast<int64_t>(function));
  };
  json.Close(']').Key("series").Open('[');
  for (const Series& series : series_) {
    json.Open('{').Key("base").Bool(series.is_base).Key("kind").String(series.kind);
    json.Key("process").String(series.process).Key("program").String(series.program).Key("pid").String(series.pid);
    const std::string& newest = series.snapshots.back().file;
    const size_t slash = newest.rfind('/');
    json.Key("folder").String(slash == std::string::npos ? std::string_view() : BaseName(newest.substr(0, slash)));
    json.Key("sampling").String(series.sampling).Key("period").Number(series.period);
    if (series.freed_at_exit != 0) json.Key("freedAtExit").Real(static_cast<double>(series.freed_at_exit) / 1e6);
    if (series.is_ended) json.Key("ended").Bool(true);
    if (!series.older_blocks.empty())
      json.Key("olderBlocks").String(fmt::format("{}: {}", kOlderBlocks, series.older_blocks));
    if (series.held_lock_delay_ns > 0) json.Key("heldLockDelay").Number(series.held_lock_delay_ns);
    if (series.lock_trouble.has_value()) json.Key("lockTrouble").Bool(true);
    json.Key("rows").Number(static_cast<int64_t>(series.rows.size()));
    json.Key("default").Number(static_cast<int64_t>(series.default_metric)).Key("metrics").Open('[');
    for (const auto& [name, unit] : series.metrics) json.Open('[').String(name).String(unit).Close(']');
    json.Close(']').Key("snapshots").Open('[');
    for (const Snapshot& snapshot : series.snapshots) {
      json.Open('{').Key("file").String(BaseName(snapshot.file)).Key("ms");
      json.Real(static_cast<double>(snapshot.time_nanos) / 1e6).Key("totals").Open('[');
      for (const auto& column : snapshot.columns) {
        uint64_t total = 0;
        for (const int64_t value : column) total += static_cast<uint64_t>(value);
        json.Number(static_cast<int64_t>(total));
      }
      json.Close(']').Key("halfWidths").Open('[');
      for (const auto& half_width : snapshot.half_widths) {
        if (half_width.has_value() && std::isfinite(*half_width)) {
          json.Real(*half_width);
        } else {
          json.Null();
        }
      }
      json.Close(']');
      if (snapshot.resident_bytes.has_value()) json.Key("resident").Number(*snapshot.resident_bytes);
      if (!snapshot.account.empty()) {
        json.Key("account").Open('[');
        for (const AccountLine& line : snapshot.account) {
          json.Open('[').String(line.what).Number(std::llround(line.bytes.value)).Number(line.bytes.error());
          json.String(line.more).Close(']');
        }
        json.Close(']');
      }
      json.Close('}');
    }
    json.Close(']').Key("comments").Open('[');
    for (const std::string& comment : series.comments) json.String(comment);
    json.Close(']').Key("records");
    AddRecord(series.records, &json);
    json.Key("deadlocks")
        .String(series.deadlocks)
        .Key("names")
        .String(series.how_to_name)
        .Key("lockNames")
        .String(series.how_to_name_locks)
        .Key("losses")
        .Open('[');
    for (const std::string& loss : series.losses) json.String(loss);
    json.Close(']').Key("locks").Open('[');
    for (const Lock& lock : series.locks) {
      json.Open('[').Number(lock.number).String(lock.name).String(lock.kind).Number(lock.contentions);
      json.Number(lock.delay_ns).Number(lock.longest_ns).Number(lock.holds).Number(lock.hold_ns);
      function_or_none(lock.top_holder);
      function_or_none(lock.top_waiter);
      json.Number(static_cast<int64_t>(lock.rank));
      for (const Lengths& lengths : {lock.waited, lock.held}) {
        json.Number(lengths.p50).Number(lengths.p90).Number(lengths.p99).Number(lengths.longest);
      }
      json.Number(lock.waiting).Number(lock.waiting_ns).Close(']');
    }
    json.Close(']').Key("pairs").Open('[');
    for (const PairOfStacks& pair : series.pairs) {
      json.Open('[').Number(pair.lock).Number(pair.holder).Number(pair.waiter);
      json.Real(pair.contentions).Real(pair.delay_ns);
      function_or_none(pair.holder_function);
      function_or_none(pair.waiter_function);
      json.Number(pair.held_p99).Number(pair.waited_p99);
      json.Close(']');
    }
    json.Close(']').Close('}');
  }
  json.Close(']').Key("sources").Open('[');
  for (const SourceText& source : sources_) {
    json.Open('[').String(source.file);
    for (const auto& [first, text] : source.chunks) json.Number(first).String(text);
    json.Close(']');
  }
  json.Close(']');
  if (!waiting_.empty()) json.Key("waiting").Raw(waiting_);
  if (const std::string opens = OpensAsJson(); !opens.empty()) json.Key("opens").Raw(opens);
  json.Key("growths").Raw(GrowthsAsJson()).Key("sections").Open('[');
  for (const size_t length : section_lengths) json.Number(static_cast<int64_t>(length));
  json.Close(']').Close('}');
  return json.text();
}

std::string ReportBuilder::Title() const {
  // The program with the largest newest total comes first. If there is a heap profile, totals are memory.
  const bool has_heap = std::any_of(series_.begin(), series_.end(), [](const Series& s) { return s.kind == "heap"; });
  std::vector<std::pair<uint64_t, std::string>> programs;
  std::set<std::string> processes;
  std::string pid;
  for (const Series& series : series_) {
    processes.insert(series.process);
    pid = series.pid;
    const std::string& program = series.program.empty() ? series.snapshots[0].file : series.program;
    uint64_t total = 0;
    if (has_heap ? series.kind == "heap" : series.kind == series_[0].kind) {
      for (const int64_t value : series.snapshots.back().columns[series.default_metric]) {
        total += static_cast<uint64_t>(value);
      }
    }
    const auto known =
        std::find_if(programs.begin(), programs.end(), [&](const auto& p) { return p.second == program; });
    if (known == programs.end()) {
      programs.emplace_back(total, program);
    } else {
      known->first += total;
    }
  }
  if (programs.empty()) return "no profile";
  std::stable_sort(programs.begin(), programs.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  const std::string& largest = programs[0].second;
  if (programs.size() > 1) return fmt::format("{} and {} more", largest, programs.size() - 1);
  if (processes.size() > 1) return fmt::format("{}, {} processes", largest, processes.size());
  return pid.empty() ? largest : fmt::format("{} (pid {})", largest, pid);
}

bool ReportBuilder::CanCompare() const {
  std::set<std::pair<std::string, std::string>> base;
  for (const Series& series : series_) {
    if (series.is_base) base.insert(series.metrics.begin(), series.metrics.end());
  }
  return base.empty() || std::any_of(series_.begin(), series_.end(), [&](const Series& series) {
           return !series.is_base && std::any_of(series.metrics.begin(), series.metrics.end(),
                                                 [&](const auto& metric) { return base.contains(metric); });
         });
}

std::vector<std::string> ReportBuilder::NewestFiles() const {
  std::vector<std::string> files;
  for (const Series& series : series_) {
    if (!series.is_base) files.push_back(series.snapshots.back().file);
  }
  return files;
}

}  // namespace holdfast
