#include "report/analysis/profiles/stack_keys.h"

#include "absl/hash/hash.h"

namespace holdfast {
namespace {

uint64_t LocationKey(const Profile& p, const Profile::Location& location) {
  if (location.mapping != Profile::kNone) {
    const Profile::Mapping& mapping = p.mappings[location.mapping];
    const uint64_t place =
        absl::HashOf(mapping.offset, mapping.limit - mapping.start, location.address - mapping.start);
    // Code of one build always has the same lines, no matter how much of it was symbolized.
    if (mapping.build_id != 0) return absl::HashOf(p.strings[mapping.build_id], place);
  }
  uint64_t key = absl::HashOf(location.mapping == Profile::kNone ? std::string_view()
                                                                 : p.strings[p.mappings[location.mapping].file]);
  const auto lines = p.LinesOf(location);
  if (lines.empty()) key = absl::HashOf(key, location.address);
  for (const Profile::Line& line : lines) {
    key = absl::HashOf(key, p.strings[p.functions[line.function].name], line.line);
  }
  return key;
}

uint64_t Mixed(uint64_t key, uint64_t more) {
  key = (key ^ more) * 0x9e3779b97f4a7c15;
  return key ^ key >> 32;
}

}  // namespace

std::vector<uint64_t> StackKeys(const FilteredStacks& stacks) {
  const Profile& p = stacks.profile();
  std::vector<uint64_t> locations;
  locations.reserve(p.locations.size());
  for (const Profile::Location& location : p.locations) locations.push_back(LocationKey(p, location));
  std::vector<uint64_t> keys;
  keys.reserve(stacks.size());
  for (size_t i = 0; i < stacks.size(); ++i) {
    const Profile::Sample& sample = p.samples[stacks.SampleOf(i)];
    uint64_t key = sample.frames;
    for (const uint32_t frame : p.FramesOf(sample)) key = Mixed(key, locations[frame]);
    for (const Profile::Label& label : p.LabelsOf(sample)) {
      key = Mixed(key, absl::HashOf(p.strings[label.key], p.strings[label.text], label.number, p.strings[label.unit]));
    }
    keys.push_back(key);
  }
  return keys;
}

}  // namespace holdfast
