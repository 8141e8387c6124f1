#include "report/analysis/unnamed_code.h"

#include <algorithm>
#include <string_view>

#include "report/base/base_name.h"
#include "report/profile/object_names.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr uint32_t kNoFunction = Profile::kNone;

// One location: whether it is plumbing, and whether its name is missing.
struct Place {
  bool is_plumbing = true, is_nameless = false;
};

std::vector<Place> PlacesOf(const Profile& profile, Plumbing* plumbing) {
  std::vector<Place> places;
  places.reserve(profile.locations.size());
  for (const Profile::Location& location : profile.locations) {
    Place& place = places.emplace_back();
    // Code outside files, generated at run time, has no names that could be fetched.
    if (location.mapping == kNoFunction || plumbing->HoldsObject(location.mapping)) continue;
    if (!profile.strings[profile.mappings[location.mapping].file].starts_with("/")) continue;
    const auto lines = profile.LinesOf(location);
    place.is_plumbing = !lines.empty();
    for (const Profile::Line& line : lines) {
      place.is_plumbing = place.is_plumbing && plumbing->Holds(line.function, location.mapping);
    }
    place.is_nameless = lines.empty() || (lines.size() == 1 && lines[0].function != kNoFunction &&
                                          IsNameless(profile.strings[profile.functions[lines[0].function].name]));
  }
  return places;
}

bool IsPython(std::string_view object) {
  const std::string_view name = BaseName(object);
  return name.starts_with("libpython3") || name.starts_with("python3");
}

// Returns how to make the program's runtime write a perf map, judging by its loaded objects.
std::string HowToMap(const Profile& profile) {
  for (const Profile::Mapping& mapping : profile.mappings) {
    const std::string_view name = BaseName(profile.strings[mapping.file]);
    if (name.starts_with("libjvm.so")) return "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit";
    if (name == "node" || name == "nodejs" || name.starts_with("libnode.so")) return "node --perf-basic-prof";
    if (IsPython(name)) return "python3 -X perf (3.12 or newer)";
  }
  return "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, node --perf-basic-prof or python3 -X perf";
}

// Adds up samples in unnamed code outside files, and in Python's interpreter without a Python function.
void AddMapless(const Profile& profile, size_t metric, double whole, UnnamedCode* code) {
  std::vector<bool> is_jit, is_python, is_mapped;
  for (const Profile::Location& location : profile.locations) {
    const auto lines = profile.LinesOf(location);
    const std::string_view name = lines.empty() || lines[0].function == kNoFunction
                                      ? std::string_view()
                                      : profile.strings[profile.functions[lines[0].function].name];
    is_jit.push_back(name.starts_with("[unknown]!0x"));
    is_mapped.push_back(name.starts_with("py::"));
    is_python.push_back(location.mapping != kNoFunction &&
                        IsPython(profile.strings[profile.mappings[location.mapping].file]));
  }
  if (std::ranges::find(is_jit, true) == is_jit.end() && std::ranges::find(is_python, true) == is_python.end()) return;
  double sum = 0;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    const auto frames = profile.FramesOf(profile.samples[i]);
    const auto any = [&](const std::vector<bool>& is) {
      return std::any_of(frames.begin(), frames.end(), [&](uint32_t frame) { return is[frame]; });
    };
    if (any(is_jit) || (any(is_python) && !any(is_mapped)))
      sum += std::abs(static_cast<double>(profile.ValuesOf(i)[metric]));
  }
  if (whole == 0 || sum < UnnamedCode::kMinShare * whole) return;
  code->without_map = sum / whole;
  code->how_to_map = HowToMap(profile);
}

// Returns which debug file of an object could not be read, and why: "/usr/lib/debug/….debug: a damaged compressed section".
std::string UnreadOf(const Profile& profile, const std::string& path) {
  for (const record::MissingNames& missing : profile.records().missing_names) {
    if (missing.is_debug_file && missing.path == path) return missing.why;
  }
  return "";
}

}  // namespace

UnnamedCode UnnamedCodeOf(const Profile& profile, size_t metric, Plumbing* plumbing) {
  const std::vector<Place> places = PlacesOf(profile, plumbing);
  const bool has_nameless =
      std::ranges::any_of(places, [](const Place& place) { return place.is_nameless && !place.is_plumbing; });
  std::vector<double> sums(profile.mappings.size());
  double whole = 0, all = 0;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    const auto value = std::abs(static_cast<double>(profile.ValuesOf(i)[metric]));
    whole += value;
    if (!has_nameless) continue;
    uint32_t first = kNoFunction;  // the owner's mapping if the owner has no name
    bool has_owner = false;
    size_t own = 0, nameless = 0;
    std::vector<std::pair<uint32_t, size_t>> by_mapping;
    for (const uint32_t frame : profile.FramesOf(profile.samples[i])) {
      if (places[frame].is_plumbing) continue;
      ++own;
      const uint32_t mapping = profile.locations[frame].mapping;
      if (places[frame].is_nameless) {
        ++nameless;
        if (!has_owner) first = mapping;
        const auto known =
            std::find_if(by_mapping.begin(), by_mapping.end(), [&](const auto& one) { return one.first == mapping; });
        if (known == by_mapping.end()) {
          by_mapping.emplace_back(mapping, 1);
        } else {
          ++known->second;
        }
      }
      has_owner = true;
    }
    if (nameless == 0 || (first == kNoFunction && 2 * nameless < own)) continue;
    if (first == kNoFunction) {
      first = std::max_element(by_mapping.begin(), by_mapping.end(), [](const auto& a, const auto& b) {
                return a.second < b.second;
              })->first;
    }
    sums[first] += value;
    all += value;
  }
  UnnamedCode code;
  AddMapless(profile, metric, whole, &code);
  if (whole == 0 || all < UnnamedCode::kMinShare * whole) return code;
  code.share = all / whole;
  const ObjectNames object_names(profile);
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] <= 0) continue;
    const std::string_view path = profile.strings[profile.mappings[i].file];
    const auto known =
        std::find_if(code.objects.begin(), code.objects.end(), [&](const auto& object) { return object.path == path; });
    if (known != code.objects.end()) {  // an object has a mapping for each segment
      known->share += sums[i] / whole;
    } else {
      code.objects.push_back({std::string(path), std::string(profile.strings[profile.mappings[i].build_id]),
                              sums[i] / whole, std::string(object_names.Of(path))});
    }
  }
  for (UnnamedCode::Object& object : code.objects) object.unread = UnreadOf(profile, object.path);
  std::stable_sort(code.objects.begin(), code.objects.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  // Keep the objects with a significant share, but at least one.
  while (code.objects.size() > 1 && code.objects.back().share < UnnamedCode::kMinShare / 4) code.objects.pop_back();
  return code;
}

}  // namespace holdfast
