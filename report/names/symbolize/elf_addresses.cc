#include "report/names/symbolize/elf_addresses.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "report/names/symbolize/mapping_layout.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

using Label = Profile::Label;

// Copies one profile into another, table by table, each in its final order.
class Rewrite {
 public:
  Rewrite(const Profile& from, ModuleSymbolizer& symbolizer) : from_(from), symbolizer_(symbolizer) {}

  ElfAddresses Run() {
    CopyScalars();
    Mappings();
    Locations();
    Samples();
    Records();
    return std::move(result_);
  }

 private:
  struct NewSample {
    std::vector<uint32_t> frames;
    std::vector<std::tuple<std::string_view, std::string_view, int64_t, std::string_view>> labels;
    std::vector<int64_t> values;
    size_t old = 0;  // its index in from_
  };

  StringId Text(StringId id) { return to_.strings.Intern(from_.strings[id]); }

  void CopyScalars() {
    for (const auto& type : from_.sample_types) to_.sample_types.push_back({Text(type.type), Text(type.unit)});
    to_.default_sample_type = Text(from_.default_sample_type);
    to_.period_type = {Text(from_.period_type.type), Text(from_.period_type.unit)};
    to_.period = from_.period;
    to_.time_nanos = from_.time_nanos;
    to_.duration_nanos = from_.duration_nanos;
    to_.drop_frames = Text(from_.drop_frames);
    to_.keep_frames = Text(from_.keep_frames);
    for (const StringId comment : from_.comments) to_.AddComment(from_.strings[comment]);
  }

  // Returns the value to subtract from addresses of the mapping.
  uint64_t ShiftOf(const Profile::Mapping& mapping) {
    if (mapping.has_bias) return mapping.bias;
    const std::string path(from_.strings[mapping.file]);
    if (!path.starts_with('/')) return mapping.start;  // [vdso]: one page, which begins at the file's start
    const auto module = symbolizer_.Find(path, from_.strings[mapping.build_id], from_.time_nanos);
    if (module.ok() && FitsLayout(mapping, **module)) {
      if (const auto address = ElfAddressOf(mapping, **module)) return mapping.start - *address;
    }
    if (std::find(result_.kept.begin(), result_.kept.end(), path) == result_.kept.end()) result_.kept.push_back(path);
    return 0;
  }

  void Mappings() {
    std::vector<Profile::Mapping> moved;
    for (const Profile::Mapping& mapping : from_.mappings) {
      shifts_.push_back(ShiftOf(mapping));
      moved.push_back(mapping);
      moved.back().start -= shifts_.back();
      moved.back().limit -= shifts_.back();
      moved.back().bias = 0;
    }
    const auto key = [&](size_t i) {
      const Profile::Mapping& m = moved[i];
      return std::tuple(i != 0, from_.strings[m.file], m.start, m.limit, m.offset, from_.strings[m.build_id]);
    };
    std::vector<size_t> order(moved.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    mapping_index_.resize(moved.size());
    for (size_t i = 0; i < order.size(); ++i) {
      Profile::Mapping mapping = moved[order[i]];
      const auto of_file = [&](size_t j) {
        return std::tuple(from_.strings[moved[j].file], moved[j].start, moved[j].limit, moved[j].offset,
                          from_.strings[moved[j].build_id]);
      };
      if (i == 0 || of_file(order[i]) != of_file(order[i - 1])) {
        mapping.file = Text(mapping.file);
        mapping.build_id = Text(mapping.build_id);
        to_.mappings.push_back(mapping);
      } else {  // a property of the whole mapping must hold for both parts
        Profile::Mapping& one = to_.mappings.back();
        one.has_functions = one.has_functions && mapping.has_functions;
        one.has_filenames = one.has_filenames && mapping.has_filenames;
        one.has_line_numbers = one.has_line_numbers && mapping.has_line_numbers;
        one.has_inline_frames = one.has_inline_frames && mapping.has_inline_frames;
      }
      mapping_index_[order[i]] = static_cast<uint32_t>(to_.mappings.size() - 1);
    }
  }

  uint32_t MappingOf(const Profile::Location& location) const {
    return location.mapping == Profile::kNone ? Profile::kNone : mapping_index_[location.mapping];
  }
  uint64_t AddressOf(const Profile::Location& location) const {
    return location.mapping == Profile::kNone ? location.address : location.address - shifts_[location.mapping];
  }

  void Locations() {
    std::vector<uint32_t> order(from_.locations.size());
    std::iota(order.begin(), order.end(), uint32_t{0});
    const auto key = [&](uint32_t i) {
      return std::tuple(MappingOf(from_.locations[i]), AddressOf(from_.locations[i]));
    };
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    location_index_.resize(order.size());
    std::map<uint32_t, uint32_t> functions;
    for (size_t i = 0; i < order.size(); ++i) {
      const Profile::Location& old = from_.locations[order[i]];
      if (i == 0 || key(order[i]) != key(order[i - 1])) {
        Profile::Location location{.address = AddressOf(old),
                                   .mapping = MappingOf(old),
                                   .is_folded = old.is_folded,
                                   .is_tail_call = old.is_tail_call};
        std::vector<Profile::Line> lines(from_.LinesOf(old).begin(), from_.LinesOf(old).end());
        for (Profile::Line& line : lines) {
          if (line.function != Profile::kNone) line.function = FunctionOf(line.function, &functions);
        }
        to_.SetLines(&location, lines);
        to_.locations.push_back(location);
      }
      location_index_[order[i]] = static_cast<uint32_t>(to_.locations.size() - 1);
    }
  }

  uint32_t FunctionOf(uint32_t old, std::map<uint32_t, uint32_t>* functions) {
    const auto [place, added] = functions->emplace(old, static_cast<uint32_t>(to_.functions.size()));
    if (added) {
      Profile::Function function = from_.functions[old];
      function.name = Text(function.name);
      function.system_name = Text(function.system_name);
      function.filename = Text(function.filename);
      to_.functions.push_back(function);
    }
    return place->second;
  }

  void Samples() {
    std::vector<NewSample> samples(from_.samples.size());
    for (size_t i = 0; i < samples.size(); ++i) {
      for (const uint32_t frame : from_.FramesOf(from_.samples[i])) samples[i].frames.push_back(location_index_[frame]);
      for (const Label& label : from_.LabelsOf(from_.samples[i])) {
        samples[i].labels.emplace_back(from_.strings[label.key], from_.strings[label.text], label.number,
                                       from_.strings[label.unit]);
      }
      samples[i].values.assign(from_.ValuesOf(i).begin(), from_.ValuesOf(i).end());
      samples[i].old = i;
    }
    sample_index_.resize(samples.size());
    const auto key = [](const NewSample& sample) { return std::tie(sample.frames, sample.labels); };
    std::stable_sort(samples.begin(), samples.end(),
                     [&](const NewSample& a, const NewSample& b) { return key(a) < key(b); });
    for (size_t i = 0; i < samples.size(); ++i) {
      NewSample& sample = samples[i];
      sample_index_[sample.old] = static_cast<uint32_t>(to_.samples.size());
      if (i + 1 < samples.size() && key(sample) == key(samples[i + 1])) {
        for (size_t v = 0; v < sample.values.size(); ++v) samples[i + 1].values[v] += sample.values[v];
        continue;
      }
      std::vector<Label> labels;
      for (const auto& [label, text, number, unit] : sample.labels) {
        labels.push_back({to_.strings.Intern(label), to_.strings.Intern(text), number, to_.strings.Intern(unit)});
      }
      to_.AddSample(sample.frames, sample.values, labels);
    }
  }

  void Records() {
    record::Profile* records = to_.mutable_records();
    *records = from_.records();
    const auto renumber = [this](auto* message) {
      if (!message->has_value()) return;
      for (std::vector<uint32_t>& stack : (*message)->stack) {
        for (uint32_t& location : stack) location = location_index_[location];
      }
    };
    renumber(&records->locks);
    renumber(&records->waits);
    renumber(&records->threads);
    if (records->course.has_value()) RenumberSamples(&records->course->sample);
  }

  // Adds up the courses of samples that have become one.
  void RenumberSamples(std::vector<record::SampleCourse>* courses) const {
    const auto add = [](const std::vector<uint64_t>& from, std::vector<uint64_t>* to) {
      to->resize(std::max(to->size(), from.size()));
      for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
    };
    std::map<uint32_t, record::SampleCourse> by_number;
    for (const record::SampleCourse& course : *courses) {
      if (course.number == 0 || course.number > sample_index_.size()) continue;
      record::SampleCourse& sum = by_number[sample_index_[course.number - 1] + 1];
      add(course.allocated_bytes, &sum.allocated_bytes);
      add(course.allocated_objects, &sum.allocated_objects);
      add(course.freed_bytes, &sum.freed_bytes);
      add(course.freed_objects, &sum.freed_objects);
    }
    courses->clear();
    for (auto& [number, sum] : by_number) {
      sum.number = number;
      courses->push_back(std::move(sum));
    }
  }

  const Profile& from_;
  ModuleSymbolizer& symbolizer_;
  ElfAddresses result_;
  Profile& to_ = result_.profile;
  std::vector<uint64_t> shifts_;  // of the old mappings
  std::vector<uint32_t> mapping_index_, location_index_, sample_index_;
};

}  // namespace

ElfAddresses UseElfAddresses(const Profile& profile, ModuleSymbolizer& symbolizer) {
  return Rewrite(profile, symbolizer).Run();
}

}  // namespace holdfast
