#include "report/analysis/profiles/profile_set.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/filtered_stacks.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/base_name.h"
#include "report/profile/pprof.h"
#include "report/profile/profile_kind.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr std::string_view kEndings[] = {".pb.gz", ".pb"};
constexpr std::string_view kPeakKind = "peak";

std::string_view FolderPart(std::string_view path) { return path.substr(0, path.size() - BaseName(path).size()); }

// The parts of <program>.<pid>.<sequence>.<kind>, parsed from the end because program names may contain points.
struct NameParts {
  std::string_view process, kind;  // <program>.<pid>
  uint64_t sequence = 0;
};
NameParts PartsOfName(std::string_view path) {
  std::string_view name = BaseName(path);
  for (const std::string_view ending : kEndings) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  NameParts parts;
  const size_t point = name.rfind('.');
  if (point == std::string_view::npos) return parts;
  parts.kind = name.substr(point + 1);
  name = name.substr(0, point);
  const std::string_view digits = name.substr(name.rfind('.') + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parts.sequence);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  parts.process = name.substr(0, name.size() - std::min(name.size(), digits.size() + 1));
  return parts;
}

std::string TypesOf(const Profile& profile) {
  std::string types;
  for (const auto& type : profile.sample_types) {
    if (!types.empty()) types += ' ';
    types += fmt::format("{}/{}", profile.strings[type.type], profile.strings[type.unit]);
  }
  return types;
}

std::string ProgramOf(const Profile& profile) {
  std::string program = profile.process().program;
  if (program.empty() && !profile.mappings.empty()) program = BaseName(profile.strings[profile.mappings[0].file]);
  if (program.empty()) program = "(not said)";
  const uint32_t pid = profile.process().pid;
  return pid == 0 ? program : fmt::format("{} (pid {})", program, pid);
}

// Sequence numbers follow the order of writing even if the wall clock was set back. Across folders they mean nothing.
void SortByAge(std::vector<ProfileFile>* files) {
  std::set<std::pair<std::string_view, uint64_t>> numbers;
  std::set<std::string_view> folders;
  for (const ProfileFile& file : *files) {
    numbers.emplace("", file.sequence);
    folders.insert(FolderPart(file.path));
  }
  const bool numbered = folders.size() == 1 && numbers.size() == files->size() && !numbers.contains({"", 0});
  std::stable_sort(files->begin(), files->end(), [numbered](const ProfileFile& a, const ProfileFile& b) {
    if (numbered) return a.sequence < b.sequence;
    return std::tie(a.time_nanos, a.path) < std::tie(b.time_nanos, b.path);
  });
}

class Grouper {
 public:
  explicit Grouper(KeepProfiles keep) : keep_(keep) {}

  // Adds a file and calls `each` (see ReadSetOptions).
  void Add(const ProfileFile& file, const std::function<void(const ProfileFile&, bool newest)>& each) {
    const auto key = std::tuple(file.process, file.kind, file.process.empty() ? file.types : std::string());
    const auto [place, added] = index_.emplace(key, set_.groups.size());
    if (added) set_.groups.push_back({file.process, file.kind, file.program, {}});
    ProfileGroup& group = set_.groups[place->second];
    ProfileFile& kept = group.files.emplace_back(file);
    if (keep_ == KeepProfiles::kNone) kept.profile.reset();
    SortByAge(&group.files);
    const ProfileFile* newest = group.NewestCumulative();
    if (each) each(file, newest != nullptr && newest->path == file.path);
    if (keep_ == KeepProfiles::kNewest && !group.process.empty()) DropOlder(&group);
  }

  // Only for kinds with an amount at one moment: waits add up until the end.
  void LeaveOutFreedAtExit() {
    for (ProfileGroup& group : set_.groups) {
      if (!IsMemoryKind(group.kind) || group.kind == kPeakKind) continue;
      while (group.files.size() >= 2) {
        const ProfileFile& last = group.files.back();
        ProfileFile& before = group.files[group.files.size() - 2];
        if (!last.from_folder || !before.from_folder || last.adds_up() || before.adds_up()) break;
        if (!FreedAtExit(before, last)) break;
        before.freed_at_exit = last.time_nanos;
        group.files.pop_back();
      }
    }
  }

  // Reads profiles that were dropped too early: files of a later folder may change which file of a process is the
  // newest.
  absl::Status ReadDropped() {
    if (keep_ != KeepProfiles::kNewest) return absl::OkStatus();
    for (ProfileGroup& group : set_.groups) {
      for (ProfileFile& file : group.files) {
        if (file.profile != nullptr || !group.Counts(file)) continue;
        auto profile = ReadProfileToView(file.path);
        if (!profile.ok()) return profile.status();
        file.profile = std::make_shared<Profile>(*std::move(profile));
      }
    }
    return absl::OkStatus();
  }

  ProfileSet Take() { return std::move(set_); }

 private:
  static void DropOlder(ProfileGroup* group) {
    const ProfileFile* newest = group->NewestCumulative();
    for (ProfileFile& file : group->files) {
      if (file.cumulative() && &file != newest) file.profile.reset();
    }
  }

  const KeepProfiles keep_;
  ProfileSet set_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> index_;
};

}  // namespace

const ProfileFile* ProfileGroup::NewestCumulative() const {
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->cumulative()) return &*file;
  }
  return nullptr;
}

size_t ProfileSet::files() const {
  size_t count = 0;
  for (const ProfileGroup& group : groups) count += group.files.size();
  return count;
}

std::vector<std::string> ProfileSet::Kinds() const {
  std::vector<std::string> kinds;
  for (const ProfileGroup& group : groups) {
    if (std::find(kinds.begin(), kinds.end(), group.kind) == kinds.end()) kinds.push_back(group.kind);
  }
  return kinds;
}

void ProfileSet::KeepKind(std::string_view kind) {
  std::erase_if(groups, [kind](const ProfileGroup& group) { return group.kind != kind; });
}

ProfileMoment ProfileMomentOf(const Profile& profile) {
  const record::Moment moment = profile.process().moment;
  return moment == record::Moment::kBeforeExitHandlers  ? ProfileMoment::kBeforeHandlers
         : moment == record::Moment::kAfterExitHandlers ? ProfileMoment::kAfterHandlers
                                                        : ProfileMoment::kNone;
}

bool FreedAtExit(const ProfileFile& before, const ProfileFile& last) {
  if (last.moment == ProfileMoment::kNone) return false;
  return (last.moment == ProfileMoment::kAfterHandlers && before.moment == ProfileMoment::kBeforeHandlers) ||
         last.in_use < before.in_use / 2;
}

ProfileFile DescribeFile(std::string_view path, const Profile& profile) {
  ProfileFile file;
  file.path = path;
  file.kind = ProfileKindOf(profile);
  file.kind_stated = !profile.process().kind.empty();
  file.types = TypesOf(profile);
  file.process = profile.process().id;
  file.program = ProgramOf(profile);
  file.time_nanos = profile.time_nanos;
  file.duration_nanos = profile.duration_nanos;
  file.sequence = PartsOfName(path).sequence;
  file.moment = ProfileMomentOf(profile);
  file.steady_nanos = file.time_nanos;
  if (const int64_t elapsed_ns = profile.process().elapsed_ns; elapsed_ns > 0) {
    const int64_t started_ns = profile.process().started_ns;
    if (started_ns > 0) file.steady_nanos = WrappedSum(started_ns, elapsed_ns);
    file.start_nanos = WrappedDifference(file.steady_nanos, elapsed_ns);
  }
  const bool is_threads = file.kind == "threads";
  if (is_threads || IsMemoryKind(file.kind)) {
    const auto in_use = FindMetric(profile, is_threads                    ? "alive"
                                            : file.kind == kLifetimesKind ? "alive_space"
                                                                          : "inuse_space");
    if (in_use.ok()) file.in_use = profile.Total(*in_use);
  }
  return file;
}

namespace {

constinit FilesOfProcess files_of_process = nullptr;

// Adds the profiles of one folder or one process.
absl::Status AddFound(const std::string& argument, std::vector<std::string> names, std::string_view kind,
                      std::vector<FoundFile>* found) {
  std::set<std::string> others;
  const size_t before = found->size();
  std::sort(names.begin(), names.end());
  for (std::string& name : names) {
    const NameParts parts = PartsOfName(name);
    if (!kind.empty() && parts.sequence != 0 && parts.kind != kind) {
      others.emplace(parts.kind);
    } else {
      found->push_back({std::move(name), true});
    }
  }
  if (found->size() > before) return absl::OkStatus();
  const bool is_folder = !AsProcess(argument).has_value();
  const std::string_view place = is_folder ? "in this folder" : "of this process";
  if (others.empty()) {
    return absl::NotFoundError(fmt::format("{}: no profiles {}{}. Give the folder that holdfast run printed.", argument,
                                           place, is_folder ? " (*.pb.gz)" : ""));
  }
  return absl::NotFoundError(
      fmt::format("{}: no {} profiles {}. It has {}.", argument, kind, place, fmt::join(others, ", ")));
}

}  // namespace

std::optional<pid_t> AsProcess(const std::string& argument) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(argument.data(), argument.data() + argument.size(), pid);
  if (error != std::errc() || end != argument.data() + argument.size() || pid <= 0) return std::nullopt;
  return access(argument.c_str(), F_OK) == 0 ? std::nullopt : std::optional(pid);
}

bool NamesSeveralFiles(const std::string& argument) {
  std::error_code error;
  return std::filesystem::is_directory(argument, error) || AsProcess(argument).has_value();
}

void SetFilesOfProcess(FilesOfProcess files) { files_of_process = files; }

absl::StatusOr<std::vector<FoundFile>> FindProfiles(const std::vector<std::string>& arguments, std::string_view kind) {
  std::vector<FoundFile> found;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (const auto pid = AsProcess(argument); pid.has_value() && files_of_process != nullptr) {
      auto files = files_of_process(*pid);
      if (!files.ok()) return files.status();
      if (const absl::Status added = AddFound(argument, *std::move(files), kind, &found); !added.ok()) return added;
      continue;
    }
    if (argument == "-" || !std::filesystem::is_directory(argument, error)) {
      found.push_back({argument});
      continue;
    }
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(argument, error), end; !error && entry != end;
         entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (name.starts_with(".") ||
          std::none_of(std::begin(kEndings), std::end(kEndings), [&](auto ending) { return name.ends_with(ending); })) {
        continue;
      }
      names.push_back(entry->path().string());
    }
    if (error) {
      return absl::NotFoundError(
          fmt::format("{}: cannot list the folder ({}). Check its permissions.", argument, error.message()));
    }
    if (const absl::Status added = AddFound(argument, std::move(names), kind, &found); !added.ok()) return added;
  }
  return found;
}

namespace {

// Says why there is no file of a kind and what to do, judging by another file of the process.
using WhyNone = std::function<std::string(const Profile& profile)>;

// Replaces each named file by the newest file of `kind` of the same process in the same folder.
absl::StatusOr<std::vector<std::string>> FilesOfKindFor(const std::vector<std::string>& arguments,
                                                        std::string_view kind, const WhyNone& without) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    const auto profile = NamesSeveralFiles(argument) ? Profile() : ReadPprofFile(argument);
    if (!profile.ok()) return profile.status();
    const std::string process = profile->process().id;
    if (process.empty() || ProfileKindOf(*profile) == kind) {
      files.push_back(argument);
      continue;
    }
    const std::filesystem::path path(argument);
    uint64_t newest = 0;
    std::string newest_file;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(path.has_parent_path() ? path.parent_path() : ".", error), end;
         !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      const NameParts parts = PartsOfName(name);
      if (parts.kind != kind || parts.process != PartsOfName(argument).process || parts.sequence <= newest) continue;
      const auto other = ReadPprofFile(entry->path().string());
      if (!other.ok() || other->process().id != process) continue;
      newest = parts.sequence;
      newest_file = entry->path().string();
    }
    if (newest_file.empty()) {
      return absl::NotFoundError(fmt::format("{}: no {} profile of this process next to it (*.{}.pb.gz). {}", argument,
                                             kind, kind, without(*profile)));
    }
    if (std::find(files.begin(), files.end(), newest_file) == files.end()) files.push_back(newest_file);
  }
  return files;
}

constexpr std::string_view kNoLifetimes =
    "Processes without a heap sample have none, and processes that exit within a second only with --lifetimes yes.";

// A heap profile states the height of the peak. Its stacks are those of the peak only if nearly as much is in use.
std::string WhyNoPeak(const Profile& profile) {
  const std::optional<int64_t> highest = PeakBytesOf(profile);
  if (!highest.has_value() || ProfileKindOf(profile) != "heap")
    return "It was run with --peak no, or never had memory in use.";
  const std::string height = PeakOf(profile);
  const auto metric = FindMetric(profile, "inuse_space");
  const double in_use = metric.ok() ? static_cast<double>(profile.Total(*metric)) : 0;
  if (in_use >= 0.98 * static_cast<double>(*highest))
    return fmt::format("Its peak was {}, and this heap profile shows nearly all of that. Leave out --peak.", height);
  return fmt::format(
      "Its peak was {}, but the stacks were not recorded: the process was too short, or ran with --peak no. This heap profile shows another moment.",
      height);
}

// If a folder has no file of `kind`, explains it by the most informative of its other files.
absl::StatusOr<std::vector<std::string>> FilesFor(const std::vector<std::string>& arguments, std::string_view kind,
                                                  std::string_view others, const WhyNone& without) {
  for (const std::string& argument : arguments) {
    const bool is_process = AsProcess(argument).has_value();
    if (!NamesSeveralFiles(argument) || FindProfiles({argument}, kind).ok()) continue;
    const auto found = FindProfiles({argument}, others);
    if (!found.ok()) continue;
    std::optional<Profile> highest;
    for (const auto& file : *found) {
      absl::StatusOr<Profile> other = ReadPprofFile(file.path);
      if (!other.ok()) continue;
      if (!highest.has_value() || PeakBytesOf(*other).value_or(0) > PeakBytesOf(*highest).value_or(0))
        highest = *std::move(other);
    }
    if (highest.has_value())
      return absl::NotFoundError(fmt::format("{}: no {} profiles {}. {}", argument, kind,
                                             is_process ? "of this process" : "in this folder", without(*highest)));
  }
  return FilesOfKindFor(arguments, kind, without);
}

WhyNone Always(std::string_view why) {
  return [why](const Profile&) { return std::string(why); };
}

}  // namespace

absl::StatusOr<std::vector<std::string>> PeakFilesFor(const std::vector<std::string>& arguments) {
  return FilesFor(arguments, kPeakKind, "heap", WhyNoPeak);
}

absl::StatusOr<std::vector<std::string>> LifetimesFilesFor(const std::vector<std::string>& arguments) {
  return FilesFor(arguments, kLifetimesKind, "", Always(kNoLifetimes));
}

absl::StatusOr<std::vector<std::string>> ResidentFilesFor(const std::vector<std::string>& arguments) {
  return FilesFor(
      arguments, kResidentKind, "",
      Always(
          "It is written only on request: holdfast run --resident yes, or holdfast set PID resident=on. If it could not be written, the heap profile says why (holdfast info)."));
}

absl::StatusOr<ProfileSet> ReadProfileSet(const std::vector<std::string>& arguments, const ReadSetOptions& options) {
  const auto found = FindProfiles(arguments, options.kind);
  if (!found.ok()) return found.status();
  Grouper grouper(options.keep);
  std::vector<std::string> warnings;
  std::set<std::string> seen;
  size_t done = 0, kept = 0;
  std::string other_kind;
  for (const FoundFile& file : *found) {
    if (options.progress) options.progress(done++, found->size());
    if (!seen.insert(file.path).second) continue;  // named twice, for example by a folder and a file in it
    auto profile = ReadProfileToView(file.path);
    if (!profile.ok()) {
      if (!file.from_folder) return profile.status();
      if (access(file.path.c_str(), F_OK) == 0) warnings.emplace_back(profile.status().message());
      continue;
    }
    ProfileFile described = DescribeFile(file.path, *profile);
    if (!options.kind.empty() && described.kind != options.kind) {
      other_kind = fmt::format("{}: contains {}, not {}", file.path, described.kind, options.kind);
      continue;
    }
    ++kept;
    described.from_folder = file.from_folder;
    described.profile = std::make_shared<Profile>(*std::move(profile));
    grouper.Add(described, options.each);
  }
  if (options.progress) options.progress(done, found->size());
  if (kept == 0) {
    if (!other_kind.empty()) return absl::InvalidArgumentError(other_kind + ". Give files of that kind.");
    if (!warnings.empty()) return absl::DataLossError(warnings[0]);
    return absl::NotFoundError(fmt::format("{}: no profile can be read. Give the folder that holdfast run printed.",
                                           arguments.empty() ? "" : arguments[0]));
  }
  if (!options.after_exit) grouper.LeaveOutFreedAtExit();
  if (const absl::Status status = grouper.ReadDropped(); !status.ok()) return status;
  ProfileSet set = grouper.Take();
  set.warnings = std::move(warnings);
  return set;
}

}  // namespace holdfast
