#include "report/names/symbolize/earlier_names.h"

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "report/names/symbolize/mapping_layout.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

bool HasName(const Profile& profile, const Profile::Location& location) {
  const auto lines = profile.LinesOf(location);
  return !lines.empty() &&
         (lines.size() > 1 || !IsSynthetic(profile.strings[profile.functions[lines[0].function].name]));
}

bool IsSameModule(const Profile& a, const Profile::Mapping& one, const Profile& b, const Profile::Mapping& other) {
  return one.start == other.start && one.limit == other.limit && one.offset == other.offset &&
         a.strings[one.file] == b.strings[other.file] && a.strings[one.build_id] == b.strings[other.build_id];
}

class Taker {
 public:
  Taker(const Profile& earlier, Profile* profile) : earlier_(earlier), profile_(*profile) {
    for (uint32_t i = 0; i < profile_.functions.size(); ++i) numbers_.emplace(KeyOf(profile_.functions[i]), i);
  }

  size_t Run() {
    absl::flat_hash_map<uint64_t, uint32_t> named;  // by address
    for (uint32_t i = 0; i < earlier_.locations.size(); ++i) {
      const Profile::Location& location = earlier_.locations[i];
      if (location.mapping != Profile::kNone && HasName(earlier_, location)) named.emplace(location.address, i);
    }
    size_t taken = 0;
    for (Profile::Location& location : profile_.locations) {
      if (location.mapping == Profile::kNone || HasName(profile_, location)) continue;
      const auto found = named.find(location.address);
      if (found == named.end()) continue;
      const Profile::Location& known = earlier_.locations[found->second];
      if (!IsSameModule(profile_, profile_.mappings[location.mapping], earlier_, earlier_.mappings[known.mapping]))
        continue;
      TakeLines(known, &location);
      ++taken;
    }
    if (taken > 0) DropComments();
    return taken;
  }

 private:
  using Key = std::tuple<StringId, StringId, StringId, int64_t>;
  static Key KeyOf(const Profile::Function& f) { return {f.name, f.system_name, f.filename, f.start_line}; }

  void TakeLines(const Profile::Location& known, Profile::Location* location) {
    std::vector<Profile::Line> lines;
    for (const Profile::Line& line : earlier_.LinesOf(known)) {
      const Profile::Function& from = earlier_.functions[line.function];
      const Profile::Function function{.name = profile_.strings.Intern(earlier_.strings[from.name]),
                                       .system_name = profile_.strings.Intern(earlier_.strings[from.system_name]),
                                       .filename = profile_.strings.Intern(earlier_.strings[from.filename]),
                                       .start_line = from.start_line};
      const auto [place, added] = numbers_.emplace(KeyOf(function), static_cast<uint32_t>(profile_.functions.size()));
      if (added) profile_.functions.push_back(function);
      lines.push_back({place->second, line.line});
    }
    profile_.SetLines(location, lines);
  }

  void DropComments() {
    absl::flat_hash_set<StringId> nameless;  // files
    for (const Profile::Location& location : profile_.locations) {
      if (location.mapping != Profile::kNone && !HasName(profile_, location))
        nameless.insert(profile_.mappings[location.mapping].file);
    }
    for (const Profile::Mapping& mapping : profile_.mappings) {
      if (nameless.contains(mapping.file)) continue;
      const std::string start = fmt::format("no names: {}: ", profile_.strings[mapping.file]);
      std::erase_if(profile_.comments, [&](StringId comment) { return profile_.strings[comment].starts_with(start); });
      std::erase_if(profile_.mutable_records()->missing_names, [&](const record::MissingNames& missing) {
        return missing.what == record::NamesMissing::kNames && missing.path == profile_.strings[mapping.file];
      });
    }
  }

  const Profile& earlier_;
  Profile& profile_;
  absl::flat_hash_map<Key, uint32_t> numbers_;
};

}  // namespace

size_t TakeNamesFrom(const Profile& earlier, Profile* profile) { return Taker(earlier, profile).Run(); }

}  // namespace holdfast
