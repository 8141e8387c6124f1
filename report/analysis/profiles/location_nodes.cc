#include "report/analysis/profiles/location_nodes.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/analysis/profiles/frame_origin.h"
#include "report/analysis/profiles/function_identity.h"

namespace holdfast {
namespace {

// Drops the parenthesized text after a name, because drop_frames expressions are written for names without it.
//     app::f<int>(int)  →  app::f        runtime.(*T).run  →  the same
std::string WithoutParameters(std::string_view name) {
  if (name.starts_with('.')) name.remove_prefix(1);
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '(' && name[i] != '<') continue;
    const std::string_view rest = name.substr(i);
    if (rest.starts_with("(anonymous namespace)") || (i > 0 && name[i - 1] == '.')) continue;
    if (i >= 8 && name.substr(0, i).ends_with("operator")) continue;
    return std::string(name.substr(0, i));
  }
  return std::string(name);
}

std::string Anchored(std::string_view expression) {
  return expression.empty() ? "" : fmt::format("^(?:{})$", expression);
}

}  // namespace

void LocationNodes::Cached::Set(Pattern pattern, const Profile& profile) {
  pattern_ = std::move(pattern);
  if (pattern_.empty()) return;
  functions_.assign(profile.functions.size(), -1);
  mappings_.assign(profile.mappings.size(), -1);
}

bool LocationNodes::Cached::MatchesFunction(const Profile& profile, uint32_t function) {
  int8_t& answer = functions_[function];
  if (answer < 0) {
    const Profile::Function& f = profile.functions[function];
    answer = pattern_.Matches(profile.strings[f.name]) || pattern_.Matches(profile.strings[f.filename]);
  }
  return answer != 0;
}

bool LocationNodes::Cached::MatchesMapping(const Profile& profile, uint32_t mapping) {
  if (mapping == Profile::kNone || pattern_.empty()) return false;
  int8_t& answer = mappings_[mapping];
  if (answer < 0) answer = pattern_.Matches(profile.strings[profile.mappings[mapping].file]);
  return answer != 0;
}

bool LocationNodes::Cached::MatchesLocation(const Profile& profile, uint32_t mapping,
                                            std::span<const Profile::Line> lines) {
  return MatchesMapping(profile, mapping) || std::any_of(lines.begin(), lines.end(), [&](const Profile::Line& line) {
           return MatchesFunction(profile, line.function);
         });
}

absl::StatusOr<LocationNodes> LocationNodes::Make(const Profile& profile, const StackOptions& options,
                                                  std::vector<FrameNode>* nodes) {
  LocationNodes made(profile, options);
  const std::tuple<const char*, const std::string*, Cached*> filters[] = {
      {"--focus", &options.focus, &made.focus_},
      {"--ignore", &options.ignore, &made.ignore_},
      {"--hide", &options.hide, &made.hide_},
      {"--show", &options.show, &made.show_},
      {"--show-from", &options.show_from, &made.show_from_}};
  for (const auto& [name, text, filter] : filters) {
    auto pattern = Pattern::Compile(name, *text);
    if (!pattern.ok()) return pattern.status();
    filter->Set(*std::move(pattern), profile);
  }
  // Apply the profile's own expression. Ignore it if it is invalid.
  if (auto drop = Pattern::Compile("", Anchored(profile.strings[profile.drop_frames])); drop.ok()) {
    made.drop_ = *std::move(drop);
  }
  if (auto keep = Pattern::Compile("", Anchored(profile.strings[profile.keep_frames])); keep.ok()) {
    made.keep_ = *std::move(keep);
  }
  if (options.fold_plumbing) {
    auto plumbing = Plumbing::Make(profile, options.plumbing);
    if (!plumbing.ok()) return plumbing.status();
    made.plumbing_.emplace(*std::move(plumbing));
  } else if (options.fold_system) {
    made.system_.assign(profile.functions.size(), -1);
  }
  made.flags_.resize(profile.locations.size());
  made.first_.reserve(profile.locations.size() + 1);
  made.first_.push_back(0);
  for (uint32_t i = 0; i < profile.locations.size(); ++i) made.Look(i, nodes);
  return made;
}

bool LocationNodes::Prunes(StringId name) {
  if (name == 0) return false;
  const auto [place, added] = pruned_names_.emplace(name, false);
  if (added) {
    const std::string text = WithoutParameters(profile_.strings[name]);
    place->second = drop_.Matches(text) && !keep_.Matches(text);
  }
  return place->second;
}

std::vector<Profile::Line> LocationNodes::Remaining(uint32_t location, Flags* flags) {
  const Profile::Location& at = profile_.locations[location];
  const auto all = profile_.LinesOf(at);
  std::vector<Profile::Line> lines(all.begin(), all.end());
  if (!drop_.empty()) {
    size_t i = lines.size();
    while (i > 0 && !Prunes(profile_.functions[lines[i - 1].function].name)) --i;
    if (i > 0) {
      flags->pruned_beneath = true;
      flags->pruned = i == lines.size();
      if (!flags->pruned) lines.erase(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  if (!ignore_.empty()) flags->ignored = ignore_.MatchesLocation(profile_, at.mapping, lines);
  flags->focused = focus_.empty() || focus_.MatchesLocation(profile_, at.mapping, lines);
  if (!hide_.empty()) {
    std::erase_if(lines, [&](const auto& line) { return hide_.MatchesFunction(profile_, line.function); });
  }
  if (!show_.empty() && !show_.MatchesMapping(profile_, at.mapping)) {
    std::erase_if(lines, [&](const auto& line) { return !show_.MatchesFunction(profile_, line.function); });
  }
  if (!show_from_.empty()) {
    if (show_from_.MatchesMapping(profile_, at.mapping)) {
      flags->shown_from = true;
    } else {
      size_t kept = lines.size();
      while (kept > 0 && !show_from_.MatchesFunction(profile_, lines[kept - 1].function)) --kept;
      if (kept > 0) {
        flags->shown_from = true;
        lines.resize(kept);
      }
    }
  }
  return lines;
}

bool LocationNodes::IsFolded(uint32_t function, uint32_t mapping) {
  if (plumbing_) return plumbing_->Holds(function, mapping);
  const std::string_view object =
      mapping == Profile::kNone ? std::string_view() : profile_.strings[profile_.mappings[mapping].file];
  int8_t& answer = system_[function];
  if (answer < 0) answer = IsSystemFrame(profile_.strings[profile_.functions[function].name], "");
  return answer != 0 || IsSystemFrame("", object);
}

void LocationNodes::Look(uint32_t location, std::vector<FrameNode>* nodes) {
  const Profile::Location& at = profile_.locations[location];
  const std::string_view object =
      at.mapping == Profile::kNone ? std::string_view() : profile_.strings[profile_.mappings[at.mapping].file];
  std::vector<Profile::Line> lines = Remaining(location, &flags_[location]);
  bool nameless = at.lines == 0;
  bool hidden = !nameless && lines.empty();
  if (hide_.MatchesMapping(profile_, at.mapping)) hidden = true;
  if (nameless && !show_.empty() && !show_.MatchesMapping(profile_, at.mapping)) hidden = true;
  if (options_.folds()) {
    if (nameless) hidden = hidden || (plumbing_ ? plumbing_->HoldsObject(at.mapping) : IsSystemFrame("", object));
    std::erase_if(lines, [&](const Profile::Line& line) { return IsFolded(line.function, at.mapping); });
    if (!nameless && lines.empty()) hidden = true;
  }
  if (!hidden) {
    if (nameless) at_.push_back(NodeOf(nullptr, at.mapping, false, nodes));
    if (!options_.inlines && lines.size() > 1) lines.erase(lines.begin(), lines.end() - 1);
    for (const Profile::Line& line : lines) at_.push_back(NodeOf(&line, at.mapping, &line != &lines.back(), nodes));
  }
  const size_t count = at_.size() - first_.back();
  if (count <= 1 && only_.size() == location) only_.push_back(count == 1 ? at_.back() : Profile::kNone);
  first_.push_back(static_cast<uint32_t>(at_.size()));
}

uint32_t LocationNodes::FoldedNode(uint32_t location, std::vector<FrameNode>* nodes) {
  const Profile::Location& at = profile_.locations[location];
  const auto lines = profile_.LinesOf(at);
  return NodeOf(lines.empty() ? nullptr : &lines.back(), at.mapping, false, nodes);
}

uint32_t LocationNodes::NodeOf(const Profile::Line* line, uint32_t mapping, bool is_inlined,
                               std::vector<FrameNode>* nodes) {
  const StringId object = mapping == Profile::kNone ? 0 : profile_.mappings[mapping].file;
  const Profile::Function* function = line == nullptr ? nullptr : &profile_.functions[line->function];
  const StringId name = function == nullptr ? 0 : function->name, file = function == nullptr ? 0 : function->filename;
  const std::string_view name_text = profile_.strings[name], file_text = profile_.strings[file],
                         object_text = profile_.strings[object];
  const std::string_view called = object_names_.Of(object_text);
  const std::string nameless = object == 0 ? std::string("<unknown>") : fmt::format("[{}]", called);
  const auto function_name = [&] {
    return options_.across_builds ? NameAcrossBuilds(name_text) : std::string(name_text);
  };
  std::string shown, key;
  if (options_.single_frames) {
    shown = name == 0 ? nameless : std::string(name_text);
    const auto [function_index, number] =
        line == nullptr ? std::pair(Profile::kNone, int64_t{0}) : std::pair(line->function, line->line);
    key = fmt::format("{} {} {} {}", function_index, number, mapping, is_inlined);
  } else if (options_.by == "object") {
    shown = nameless;
    if (object != 0) shown = called;
    key = options_.across_builds ? shown : std::string(object_text);
  } else if (options_.by == "file") {
    shown = file != 0 ? std::string(file_text) : "?";
  } else if (options_.by == "package") {
    shown = PackageOf(name_text, called, file_text);
  } else if (options_.by == "line") {
    shown = name == 0 ? nameless : function_name();
    if (file != 0) shown += fmt::format(" {}:{}", file_text, line->line);
    if (name == 0) key = fmt::format("\1{}", options_.across_builds ? called : object_text);
  } else {
    shown = name == 0 ? nameless : function_name();
    if (name == 0) key = fmt::format("\1{}", options_.across_builds ? called : object_text);
  }
  if (key.empty()) key = shown;
  const auto [place, added] = by_name_.emplace(std::move(key), static_cast<uint32_t>(nodes->size()));
  if (added) {
    nodes->push_back({.name = std::move(shown),
                      .function = name,
                      .file = file,
                      .line = line ? line->line : 0,
                      .objects = {},
                      .profile_function = line ? line->function : Profile::kNone,
                      .mapping = mapping,
                      .is_inlined = is_inlined});
  }
  auto& objects = (*nodes)[place->second].objects;
  if (object != 0 && objects.size() < FilteredStacks::kMaxObjects &&
      std::find(objects.begin(), objects.end(), object) == objects.end()) {
    objects.push_back(object);
  }
  return place->second;
}

}  // namespace holdfast
