#include "report/names/symbolize/profile_symbolizer.h"

#include <elf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/names/symbolize/mapping_layout.h"
#include "report/names/symbolize/perf_map.h"
#include "report/names/symbolize/tail_calls.h"
#include "report/profile/object_names.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

constexpr std::string_view kVdso = "[vdso]";

// The kernel's vdso is in no file. That of this process is the same one if the build ids agree. Returns the path of a copy; "":
// there is none.
const std::string& CopyOfVdso() {
  static const std::string path = [] {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(getauxval(AT_SYSINFO_EHDR));
    if (header == nullptr) return std::string();
    const size_t bytes = header->e_shoff + size_t{header->e_shnum} * header->e_shentsize;
    const int copy = memfd_create("vdso", MFD_CLOEXEC);  // for as long as this process lives
    if (copy < 0 || write(copy, header, bytes) != static_cast<ssize_t>(bytes)) return std::string();
    return fmt::format("/proc/self/fd/{}", copy);
  }();
  return path;
}

constexpr std::string_view kNoNames = "no names: ", kNoLines = "no lines: ", kTailCalls = "tail calls: ";
// A later run does not drop this comment, because the frames are already in place.
constexpr std::string_view kGaps = "left by a pointer: ";
constexpr size_t kMaxProblems = 3;  // per file; the others are only counted

using FunctionKey = std::tuple<StringId, StringId, StringId, int64_t>;
FunctionKey FunctionKeyOf(const Profile::Function& f) { return {f.name, f.system_name, f.filename, f.start_line}; }

// Removes functions that are unused after names were replaced, and merges those that became equal.
void DropUnusedFunctions(Profile* profile) {
  std::vector<uint32_t> index(profile->functions.size(), Profile::kNone);
  absl::flat_hash_map<FunctionKey, uint32_t> by_key;
  std::vector<Profile::Function> used;
  std::vector<Profile::Line> lines;
  for (Profile::Location& location : profile->locations) {
    lines.assign(profile->LinesOf(location).begin(), profile->LinesOf(location).end());
    bool moved = false;
    for (Profile::Line& line : lines) {
      if (line.function == Profile::kNone) continue;
      uint32_t& place = index[line.function];
      if (place == Profile::kNone) {
        const Profile::Function& function = profile->functions[line.function];
        const auto [known, added] = by_key.emplace(FunctionKeyOf(function), static_cast<uint32_t>(used.size()));
        if (added) used.push_back(function);
        place = known->second;
      }
      moved = moved || place != line.function;
      line.function = place;
    }
    if (moved) profile->SetLines(&location, lines);
  }
  profile->functions = std::move(used);
}

// One run over one profile.
class Symbolization {
 public:
  Symbolization(Profile* profile, ModuleSymbolizer& symbolizer, const SymbolizeOptions& options)
      : profile_(*profile), symbolizer_(symbolizer), options_(options), object_names_(*profile) {
    for (uint32_t i = 0; i < profile_.functions.size(); ++i) by_names_.emplace(FunctionKeyOf(profile_.functions[i]), i);
  }

  SymbolizeReport Run() {
    std::erase_if(profile_.comments, [&](StringId comment) {
      const std::string_view text = profile_.strings[comment];
      return text.starts_with(kNoNames) || text.starts_with(kNoLines) || text.starts_with(kTailCalls);
    });
    if (!profile_.records().missing_names.empty()) profile_.mutable_records()->missing_names.clear();
    if (options_.files) gaps_ = AddTailCalls(&profile_, symbolizer_, options_.lines && options_.deadline.IsNever());
    // Grouped by mapping, so that one file is in use at a time.
    std::vector<std::vector<uint32_t>> by_mapping(profile_.mappings.size());
    std::vector<uint32_t> outside;
    for (uint32_t i = 0; i < profile_.locations.size(); ++i) {
      const Profile::Location& location = profile_.locations[i];
      (location.mapping == Profile::kNone ? outside : by_mapping[location.mapping]).push_back(i);
    }
    NameOutside(outside);
    for (uint32_t mapping = 0; mapping < by_mapping.size(); ++mapping) {
      if (!by_mapping[mapping].empty()) SymbolizeMapping(mapping, by_mapping[mapping]);
      profile_.mappings[mapping].has_functions = true;  // a synthetic name also counts
    }
    DropUnusedFunctions(&profile_);
    ListTailCalls();
    report_.locations = profile_.locations.size();
    for (const Profile::Location& location : profile_.locations) {
      bool lines = false, named = false;
      for (const Profile::Line& line : profile_.LinesOf(location)) {
        lines = lines || line.line != 0;
        named = named || !IsSynthetic(profile_.strings[profile_.functions[line.function].name]);
      }
      report_.named += named;
      report_.with_lines += lines;
    }
    return std::move(report_);
  }

 private:
  // Code outside files is JIT-compiled or unknown. Our own frames ([truncated]) already have names.
  void NameOutside(const std::vector<uint32_t>& locations) {
    std::optional<PerfMap> map;
    if (options_.perf_map && !locations.empty()) map = PerfMap::OfProcess(profile_);
    for (const uint32_t i : locations) {
      const Profile::Location& location = profile_.locations[i];
      if (location.lines != 0 && !HasSyntheticName(location)) continue;
      const uint64_t address = IsOutsideModules(location.address) ? location.address & kPcMask : location.address;
      const std::string name = map.has_value() ? WithoutTier(map->Find(address)) : std::string();
      if (location.lines != 0 && name.empty()) continue;
      SetOne(i, name.empty() ? fmt::format("[unknown]!0x{:x}", address) : name);
    }
  }

  void SymbolizeMapping(uint32_t index, const std::vector<uint32_t>& all) {
    std::vector<uint32_t> locations;  // locations with missing names or lines
    bool any_lines = false, names_missing = false;
    for (const uint32_t i : all) {
      const bool lines = HasLines(profile_.locations[i]);
      const bool nameless = profile_.locations[i].lines == 0 || HasSyntheticName(profile_.locations[i]);
      any_lines = any_lines || lines;
      names_missing = names_missing || nameless;
      if (nameless || (!lines && options_.lines)) locations.push_back(i);
    }
    const Profile::Mapping mapping = profile_.mappings[index];
    const std::string path(profile_.strings[mapping.file]);
    ModuleSymbolizer::Module* module = locations.empty() ? nullptr : Open(mapping, path, names_missing);
    const uint64_t bias = BiasOf(mapping, module);
    bool in_time = true;
    if (module != nullptr && options_.lines && path != kVdso) in_time = LoadLines(module, path, locations, bias);
    std::vector<ModuleSymbolizer::Frame> frames;
    for (const uint32_t i : locations) {
      const Profile::Location& location = profile_.locations[i];
      if (module != nullptr) {
        module->FramesAt(location.address - bias, &frames);
        if (!frames.empty()) {
          SetFrames(i, frames, path, location.address - bias);
          continue;
        }
      }
      if (location.lines == 0) SetOne(i, Synthetic(path, location.address - bias));
    }
    // Set only if the lines come from debug information, and all of it was read.
    if ((module != nullptr && module->has_lines() && options_.lines && in_time) || (locations.empty() && any_lines)) {
      Profile::Mapping& kept = profile_.mappings[index];
      kept.has_filenames = kept.has_line_numbers = kept.has_inline_frames = true;
    }
  }

  // Lists functions by name, because other tools ignore the marks.
  void ListTailCalls() {
    std::vector<uint32_t> put_back;
    for (uint32_t i = 0; i < profile_.locations.size(); ++i) {
      if (profile_.locations[i].is_tail_call && profile_.locations[i].lines != 0) put_back.push_back(i);
    }
    if (!put_back.empty())
      profile_.AddComment(fmt::format("{}{} frames put back, of {}", kTailCalls, put_back.size(), NamesOf(put_back)));
    if (!gaps_.empty()) {
      profile_.AddComment(fmt::format("{}{}: what they jumped to may have left the stack, too, and is not known", kGaps,
                                      NamesOf(gaps_)));
    }
  }

  // "open_stream, load_config and 3 more functions".
  std::string NamesOf(const std::vector<uint32_t>& locations) const {
    constexpr size_t kMaxNames = 5;
    std::vector<std::string_view> names;
    for (const uint32_t i : locations) {
      const auto lines = profile_.LinesOf(profile_.locations[i]);
      if (lines.empty()) continue;
      const std::string_view name = profile_.strings[profile_.functions[lines.back().function].name];
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    const size_t more = names.size() > kMaxNames ? names.size() - kMaxNames : 0;
    names.resize(names.size() - more);
    return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more functions", more) : "");
  }

  ModuleSymbolizer::Module* Open(const Profile::Mapping& mapping, const std::string& path, bool names_missing) {
    if (path == kVdso && options_.files) {
      // Without a build id, it might be another kernel's.
      if (profile_.strings[mapping.build_id].empty() || CopyOfVdso().empty()) return nullptr;
      auto own = symbolizer_.Find(CopyOfVdso(), profile_.strings[mapping.build_id], 0, mapping.bias);
      return own.ok() ? *own : nullptr;
    }
    if (!path.starts_with('/') || !options_.files) return nullptr;
    auto found = symbolizer_.Find(path, profile_.strings[mapping.build_id], mapping.has_bias ? 0 : profile_.time_nanos,
                                  mapping.bias);
    if (found.ok() && FitsLayout(mapping, **found)) return *found;
    const std::string why =
        found.ok() ? "another file than the program had loaded" : std::string(found.status().message());
    if (names_missing) {
      Explain({.what = record::NamesMissing::kNames, .path = path, .why = why});
    } else {
      Explain({.what = record::NamesMissing::kLines, .path = path, .why = why});
    }
    return nullptr;
  }

  bool LoadLines(ModuleSymbolizer::Module* module, const std::string& path, const std::vector<uint32_t>& locations,
                 uint64_t bias) {
    std::vector<uint64_t> addresses;
    for (const uint32_t i : locations) addresses.push_back(profile_.locations[i].address - bias);
    std::sort(addresses.begin(), addresses.end());
    addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
    if (!module->LoadLines(addresses, options_.deadline)) {
      Explain({.what = record::NamesMissing::kLines,
               .path = path,
               .why = fmt::format("{}; holdfast symbolize FILE adds them", kNotInTime),
               .not_in_time = true});
      report_.in_time = false;
      return false;
    }
    if (module->is_unreadable()) {
      ExplainLines(path, module->why());
    } else if (!module->has_lines() && !HasPath(report_.no_lines, path)) {
      report_.no_lines.emplace_back(path, module->why());
    }
    const std::vector<std::string> problems = module->problems();
    for (size_t i = 0; i < std::min(problems.size(), kMaxProblems); ++i) {
      ExplainLines(path, problems[i]);
    }
    if (problems.size() > kMaxProblems) {
      Explain({.what = record::NamesMissing::kLines,
               .path = path,
               .why = fmt::format("{} more such files", problems.size() - kMaxProblems)});
    }
    return true;
  }

  // The reason begins with a path if a debug file could not be read.
  void ExplainLines(const std::string& path, const std::string& why) {
    Explain({.what = record::NamesMissing::kLines, .path = path, .why = why, .is_debug_file = why.starts_with('/')});
  }

  void SetFrames(uint32_t location, const std::vector<ModuleSymbolizer::Frame>& frames, const std::string& path,
                 uint64_t elf_address) {
    std::vector<Profile::Line> lines;
    for (const ModuleSymbolizer::Frame& frame : frames) {
      Profile::Function function{.name = profile_.strings.Intern(frame.name->name),
                                 .system_name = profile_.strings.Intern(frame.name->system_name),
                                 .filename = profile_.strings.Intern(frame.file),
                                 .start_line = frame.start_line};
      if (function.name == 0) function.name = profile_.strings.Intern(Synthetic(path, elf_address));
      lines.push_back({FunctionIndex(function), frame.line});
    }
    profile_.SetLines(&profile_.locations[location], lines);
  }

  void SetOne(uint32_t location, std::string_view name) {
    const Profile::Line line{.function = FunctionIndex({.name = profile_.strings.Intern(name)})};
    profile_.SetLines(&profile_.locations[location], {&line, 1});
  }

  uint32_t FunctionIndex(const Profile::Function& function) {
    const auto [place, added] =
        by_names_.emplace(FunctionKeyOf(function), static_cast<uint32_t>(profile_.functions.size()));
    if (added) profile_.functions.push_back(function);
    return place->second;
  }

  bool HasLines(const Profile::Location& location) const {
    const auto lines = profile_.LinesOf(location);
    return std::any_of(lines.begin(), lines.end(), [](const Profile::Line& line) { return line.line != 0; });
  }
  bool HasSyntheticName(const Profile::Location& location) const {
    const auto lines = profile_.LinesOf(location);
    return lines.size() == 1 && IsSynthetic(profile_.strings[profile_.functions[lines[0].function].name]);
  }

  std::string Synthetic(std::string_view path, uint64_t elf_address) const {
    const std::string_view object = path.empty() ? "[unknown]" : object_names_.Of(path);
    return fmt::format("{}!0x{:x}", object, elf_address);
  }

  static bool HasPath(const std::vector<std::pair<std::string, std::string>>& list, const std::string& path) {
    return std::any_of(list.begin(), list.end(), [&](const auto& entry) { return entry.first == path; });
  }

  void Explain(record::MissingNames missing) {
    const bool names = missing.what == record::NamesMissing::kNames;
    std::vector<std::pair<std::string, std::string>>& list = names ? report_.no_names : report_.no_lines;
    const std::pair<std::string, std::string> entry(missing.path, missing.why);
    if (std::find(list.begin(), list.end(), entry) != list.end()) return;  // another segment of the same file
    profile_.AddComment(fmt::format("{}{}: {}", names ? kNoNames : kNoLines, missing.path, missing.why));
    list.push_back(entry);
    profile_.mutable_records()->missing_names.push_back(std::move(missing));
  }

  Profile& profile_;
  ModuleSymbolizer& symbolizer_;
  const SymbolizeOptions& options_;
  const ObjectNames object_names_;
  SymbolizeReport report_;
  absl::flat_hash_map<FunctionKey, uint32_t> by_names_;
  std::vector<uint32_t> gaps_;  // locations of functions that left through a pointer
};

}  // namespace

SymbolizeReport Symbolize(Profile* profile, ModuleSymbolizer& symbolizer, const SymbolizeOptions& options) {
  return Symbolization(profile, symbolizer, options).Run();
}

void StripSymbols(Profile* profile, bool keep_names) {
  for (Profile::Function& function : profile->functions) function.filename = 0, function.start_line = 0;
  for (Profile::Location& location : profile->locations) {
    if (location.mapping == Profile::kNone || location.lines == 0) continue;
    if (!keep_names) {
      location.lines = 0;
      continue;
    }
    // The outermost function, which has a symbol.
    const Profile::Line line{.function = profile->LinesOf(location).back().function};
    profile->SetLines(&location, {&line, 1});
  }
  for (Profile::Mapping& mapping : profile->mappings) {
    mapping.has_functions = mapping.has_functions && keep_names;
    mapping.has_filenames = mapping.has_line_numbers = mapping.has_inline_frames = false;
  }
  DropUnusedFunctions(profile);
}

}  // namespace holdfast
