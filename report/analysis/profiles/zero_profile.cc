#include "report/analysis/profiles/zero_profile.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "report/profile/profile_kind.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

bool WasProfiled(const Profile& profile, std::string_view kind) {
  const std::vector<std::string>& profiled = profile.process().profiled;
  return std::find(profiled.begin(), profiled.end(), kind) != profiled.end();
}

}  // namespace

std::optional<ProfileFile> ZeroProfileIn(const std::vector<std::string>& folders, std::string_view kind) {
  const auto types = ValueTypesOf(kind);
  const bool are_folders = std::all_of(folders.begin(), folders.end(), NamesSeveralFiles);
  if (types.empty() || !are_folders) return std::nullopt;
  const auto set = ReadProfileSet(folders, {});
  if (!set.ok() || !set->warnings.empty()) return std::nullopt;  // an unreadable file may be of this kind
  for (const ProfileGroup& group : set->groups) {
    const std::shared_ptr<Profile>& profile = group.newest().profile;
    if (group.kind == kind || profile == nullptr || !WasProfiled(*profile, kind)) return std::nullopt;
  }
  auto profile = std::make_shared<Profile>();
  for (const auto& [type, unit] : types)
    profile->sample_types.push_back({profile->strings.Intern(type), profile->strings.Intern(unit)});
  profile->default_sample_type = profile->sample_types.back().type;
  const ProfileGroup& first = set->groups.front();
  profile->time_nanos = first.newest().time_nanos;
  profile->mutable_process()->kind = kind;
  ProfileFile file = DescribeFile(folders.front(), *profile);
  file.program = first.program;
  file.from_folder = true;
  file.profile = std::move(profile);
  return file;
}

std::vector<std::string_view> KindsWithMetric(std::string_view metric) {
  std::vector<std::string_view> kinds;
  for (const std::string_view kind : {"heap", "block", "mutex", "threads", "exceptions", "map", "cpu"}) {
    const auto types = ValueTypesOf(kind);
    if (std::any_of(types.begin(), types.end(), [&](const NameAndUnit& type) { return type.first == metric; }))
      kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace holdfast
