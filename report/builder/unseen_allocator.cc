#include "report/builder/unseen_allocator.h"

#include <map>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "report/names/elf/allocator_text.h"
#include "report/names/elf/dynamic_names.h"
#include "report/observe/table/entry_text.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// The executable, as the process loaded it: its open file, or its path. Empty: not known.
std::string PathOfExecutable(const LoadedFiles& files, const std::string& path, const std::string& build_id) {
  for (const auto& [key, file] : files.all()) {
    if (key.first == path && (build_id.empty() || key.second == build_id) && file->program.valid())
      return fmt::format("/proc/self/fd/{}", file->program.get());
  }
  return "";
}

std::string DescribeUnseen(const std::string& path) {
  const absl::StatusOr<DynamicNames> names = ReadDynamicNames(path);
  if (!names.ok()) return "";
  if (names->has_hidden_malloc) return HiddenAllocatorText();
  // Every allocator calls these to get its memory and to give it back.
  const bool maps = names->needs.contains("mmap") || names->needs.contains("mmap64");
  if (!maps || !names->needs.contains("madvise")) return "";
  if (!names->own_allocator.empty())
    return fmt::format(
        "the executable has an allocator of its own ({}), which is not seen: --entries yes reads its symbols",
        names->own_allocator);
  const std::string allocator = AllocatorByText(path);
  return allocator.empty() ? "" : fmt::format("the executable has {}", LinkedWithoutNames(allocator, names->build_id));
}

}  // namespace

void AddUnseenAllocator(const LoadedFiles& files, Profile* profile) {
  if (profile->records().allocator.has_value() || profile->mappings.empty()) return;
  const Profile::Mapping& program = profile->mappings[0];
  const std::string name(profile->strings[program.file]), build_id(profile->strings[program.build_id]);
  const std::string path = PathOfExecutable(files, name, build_id);
  if (path.empty()) return;
  constexpr size_t kMaxKnown = 1024;
  static std::map<std::pair<std::string, std::string>, std::string> known;
  if (known.size() >= kMaxKnown) known.clear();
  auto [found, is_new] = known.try_emplace({name, build_id});
  if (is_new) found->second = DescribeUnseen(path);
  if (found->second.empty()) return;
  profile->mutable_records()->allocator.emplace().outcome = found->second;
  profile->AddComment("allocator: " + found->second);
}

}  // namespace holdfast
