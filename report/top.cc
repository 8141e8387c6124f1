#include "report/top.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/metric.h"
#include "report/printable.h"
#include "report/top_table.h"
#include "report/units.h"
#include "sampler/pprof.h"

namespace holdfast {
namespace {

// What is kept of one file; the profile itself is dropped, so that a hundred files cost no more memory than one.
struct Input {
  std::string file, kind, types, process, program, sampling, metric, unit;
  int64_t time_nanos = 0;
  bool cumulative = true, kind_stated = false;
  std::vector<std::string> losses;
  std::optional<double> half_width;
  TopTable table;
};

std::string TypesOf(const Profile& profile) {
  std::string types;
  for (const auto& type : profile.sample_types) {
    types += fmt::format("{}/{} ", profile.strings[type.type], profile.strings[type.unit]);
  }
  return types;
}

std::string ProgramOf(const Profile& profile) {
  std::string program(profile.CommentValue("program"));
  if (program.empty() && !profile.mappings.empty()) {
    const std::string_view path = profile.strings[profile.mappings[0].file];
    program = path.substr(path.rfind('/') + 1);
  }
  if (program.empty()) program = "(not said)";
  const auto pid = profile.CommentValue("pid");
  return pid.empty() ? program : fmt::format("{} (pid {})", program, pid);
}

Input Summarize(const std::string& file, const Profile& profile, size_t metric, const TopOptions& options) {
  Input input;
  input.file = file;
  input.kind = KindOf(profile);
  input.kind_stated = !profile.CommentValue("kind").empty();
  input.types = TypesOf(profile);
  input.process = profile.CommentValue("process");
  input.program = ProgramOf(profile);
  input.sampling = SamplingOf(profile, options.unit);
  input.metric = profile.strings[profile.sample_types[metric].type];
  input.unit = profile.strings[profile.sample_types[metric].unit];
  input.time_nanos = profile.time_nanos;
  input.cumulative = profile.duration_nanos == 0;
  input.losses = LossesOf(profile);
  input.half_width = HalfWidth(profile, metric);
  input.table.Add(profile, metric);
  return input;
}

// Leaves one cumulative file of each process. Equal times: the later name (file names carry a sequence number).
void KeepNewest(std::vector<Input>* inputs, std::ostream& err) {
  std::map<std::string, size_t> newest;
  for (size_t i = 0; i < inputs->size(); ++i) {
    const Input& input = (*inputs)[i];
    if (input.process.empty() || !input.cumulative) continue;
    const auto [place, added] = newest.emplace(input.process, i);
    const Input& best = (*inputs)[place->second];
    if (std::tie(input.time_nanos, input.file) > std::tie(best.time_nanos, best.file)) place->second = i;
  }
  std::vector<Input> kept;
  for (size_t i = 0; i < inputs->size(); ++i) {
    Input& input = (*inputs)[i];
    const auto place = newest.find(input.process);
    if (place != newest.end() && input.cumulative && place->second != i) {
      err << fmt::format("holdfast: {}: left out, a snapshot of the same process as {}, which holds all of it.\n",
                         Printable(input.file), Printable((*inputs)[place->second].file));
    }
  }
  for (size_t i = 0; i < inputs->size(); ++i) {
    const auto place = newest.find((*inputs)[i].process);
    if (place == newest.end() || !(*inputs)[i].cumulative || place->second == i)
      kept.push_back(std::move((*inputs)[i]));
  }
  *inputs = std::move(kept);
}

// Each text once, in the order of the files, but no more than a line holds.
std::string Joined(const std::vector<Input>& inputs, std::string Input::*member) {
  std::vector<std::string> texts;
  for (const Input& input : inputs) {
    if (std::find(texts.begin(), texts.end(), input.*member) == texts.end()) texts.push_back(input.*member);
  }
  constexpr size_t kShown = 4;
  const size_t more = texts.size() > kShown ? texts.size() - kShown : 0;
  texts.resize(texts.size() - more);
  std::string joined = Printable(fmt::format("{}", fmt::join(texts, ", ")));
  if (more > 0) joined += fmt::format(" and {} more", more);
  return joined;
}

void PrintHeader(const std::vector<Input>& inputs, const TopTable& table, const TopOptions& options,
                 std::ostream& out) {
  const Input& first = inputs[0];
  double variance = 0;
  bool stated = true;
  for (const Input& input : inputs) {
    stated = stated && input.half_width.has_value();
    variance += input.half_width.value_or(0) * input.half_width.value_or(0);
  }
  out << fmt::format("program  {}\n", Joined(inputs, &Input::program));
  out << fmt::format("metric   {}{}\n", Printable(first.metric),
                     first.kind_stated ? fmt::format(" ({})", Printable(first.kind)) : "");
  out << fmt::format("total    {}", FormatValue(table.total(), first.unit, options.unit));
  if (stated) {
    const auto half_width = static_cast<int64_t>(std::min(9e18, std::round(std::sqrt(variance))));
    out << fmt::format(" ± {} (95 %)", FormatValue(half_width, first.unit, options.unit));
  }
  out << "\n";
  if (const std::string sampling = Joined(inputs, &Input::sampling); !sampling.empty()) {
    out << fmt::format("sampled  {}\n", sampling);
  }
  for (const Input& input : inputs) {
    for (const std::string& loss : input.losses) {
      const std::string whose = inputs.size() > 1 ? fmt::format("{}: ", input.program) : "";
      out << Printable(fmt::format("lost     {}{}", whose, loss)) << "\n";
    }
  }
}

// Blanks before `text` up to `width` columns; our numbers are ASCII.
std::string Right(std::string_view text, size_t width) { return fmt::format("{:>{}}", text, width); }

std::string ObjectColumn(const TopRow& row) {
  if (row.objects.empty()) return "-";
  const std::string& path = row.objects[0];
  std::string object = Printable(path.substr(path.rfind('/') + 1));
  if (row.objects.size() > 1) object += fmt::format(" +{}", row.objects.size() - 1);
  return object;
}

void PrintRows(const TopTable& table, const std::string& unit, const TopOptions& options, std::ostream& out) {
  auto rows = table.Sorted(options.by_total);
  const size_t all = rows.size();
  if (options.node_count != 0 && rows.size() > options.node_count) rows.resize(options.node_count);
  out << fmt::format("showing  {} of {} functions\n", rows.size(), all);

  size_t value_width = 5;
  for (const TopRow* row : rows) {
    for (const int64_t value : {row->self, row->total}) {
      value_width = std::max(value_width, FormatValue(value, unit, options.unit).size());
    }
  }
  out << fmt::format("{} {} {} {}  {}\n", Right("self", value_width), Right("self%", 6), Right("total", value_width),
                     Right("total%", 6), "function  (object)");
  for (const TopRow* row : rows) {
    out << fmt::format("{} {} {} {}  {}  ({})\n", Right(FormatValue(row->self, unit, options.unit), value_width),
                       Right(FormatPercent(row->self, table.total()), 6),
                       Right(FormatValue(row->total, unit, options.unit), value_width),
                       Right(FormatPercent(row->total, table.total()), 6), Printable(row->function),
                       ObjectColumn(*row));
  }
}

}  // namespace

int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err) {
  if (!IsOutputUnit(options.unit)) {
    err << fmt::format("holdfast: --unit {}: not a unit. Take auto, bytes, KiB, MiB, GiB, ns, us, ms or s.\n",
                       Printable(options.unit));
    return 2;
  }
  std::vector<Input> inputs;
  for (const std::string& file : options.files) {
    const auto profile = ReadPprofFile(file);
    if (!profile.ok()) {
      err << "holdfast: " << Printable(std::string(profile.status().message())) << "\n";
      return 3;
    }
    const auto metric = FindMetric(*profile, options.metric);
    if (!metric.ok()) {
      err << fmt::format("holdfast: {}: {}\n", Printable(file), Printable(std::string(metric.status().message())));
      return 2;
    }
    inputs.push_back(Summarize(file, *profile, *metric, options));
    const Input &first = inputs.front(), &last = inputs.back();
    if (first.kind != last.kind || first.types != last.types || first.metric != last.metric) {
      err << Printable(fmt::format("holdfast: {}: of another kind ({}) than {} ({}). Give files of one kind.",
                                   last.file, last.kind, first.file, first.kind))
          << "\n";
      return 2;
    }
  }
  KeepNewest(&inputs, err);
  TopTable table;
  for (const Input& input : inputs) table.Add(input.table);
  PrintHeader(inputs, table, options, out);
  PrintRows(table, inputs[0].unit, options, out);
  return 0;
}

}  // namespace holdfast
