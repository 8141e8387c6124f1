#include "report/builder/unseen_allocator.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/base/libc_names.h"
#include "report/names/elf/allocator_text.h"
#include "report/names/elf/dynamic_names.h"
#include "report/names/elf/inlined_allocator.h"
#include "report/names/elf/own_mappings.h"
#include "report/names/elf/private_allocator.h"
#include "report/observe/table/entry_text.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

std::string PathOf(const FileDescriptor& file) {
  return file.valid() ? fmt::format("/proc/self/fd/{}", file.get()) : "";
}

// The executable, as the process loaded it. Null: it is not open.
const LoadedFile* ExecutableIn(const LoadedFiles& files, const std::string& path, const std::string& build_id) {
  for (const auto& [key, file] : files.all()) {
    if (key.first == path && (build_id.empty() || key.second == build_id) && file->program.valid()) return file.get();
  }
  return nullptr;
}

std::string DescribeUnseen(const std::string& path, bool searched) {
  const absl::StatusOr<DynamicNames> names = ReadDynamicNames(path);
  if (!names.ok()) return "";
  if (names->has_hidden_malloc) return HiddenAllocatorText();
  if (!names->own_allocator.empty() && !names->may_have_own_allocator())
    return NamedLikeAllocatorText(names->own_allocator);
  if (!names->may_have_own_allocator()) return "";
  if (!names->own_allocator.empty()) return UnseenAllocatorText(names->own_allocator, searched);
  const std::string allocator = AllocatorByText(path);
  return allocator.empty() ? "" : fmt::format("the executable has {}", LinkedWithoutNames(allocator, names->build_id));
}

std::string DescribeLibrary(const std::string& path, int fd) {
  const std::string_view name = BaseName(path);
  if (IsHoldfastLibrary(path)) return "";
  if (IsFileOfGlibc(path) || IsFileOfMusl(path) || name.starts_with("ld-")) return "";
  const std::string file = fmt::format("/proc/self/fd/{}", fd);
  if (!MayHavePrivateAllocator(file)) return "";
  const absl::StatusOr<DynamicNames> names = ReadDynamicNames(file);
  return names.ok() ? PrivateAllocatorText(name, file, *names) : "";
}

// Returns describe(file), from an earlier call of the same function if there was one.
template <typename Describe>
const auto& Remembered(const LoadedFiles::Key& key, Describe describe) {
  constexpr size_t kMaxKnown = 4096;
  static std::map<LoadedFiles::Key, decltype(describe())> known;
  if (known.size() >= kMaxKnown) known.clear();
  auto [found, is_new] = known.try_emplace(key);
  if (is_new) found->second = describe();
  return found->second;
}

// A function each, because each remembers its own answers.
const std::string& UnseenIn(const LoadedFiles::Key& key, const std::string& path, bool searched) {
  return searched ? Remembered(key, [&path] { return DescribeUnseen(path, true); })
                  : Remembered(key, [&path] { return DescribeUnseen(path, false); });
}
const std::string& OwnMappingsIn(const LoadedFiles::Key& key, const std::string& path) {
  return Remembered(key, [&path] { return OwnMappingsText(path); });
}
const InlinedAllocator& InlinedIn(const LoadedFiles::Key& key, const std::string& path, const LoadedFile& file) {
  return Remembered(key, [&] { return InlinedAllocatorOf(path, "", PathOf(file.debug)); });
}
const std::string& PrivateIn(const LoadedFiles::Key& key, const LoadedFile& file) {
  return Remembered(key, [&] { return DescribeLibrary(key.first, file.program.get()); });
}

}  // namespace

void ReadAllocatorAhead(const LoadedFiles::Key& key, const LoadedFile& file, bool is_executable) {
  if (!is_executable) {
    PrivateIn(key, file);
    return;
  }
  const std::string path = PathOf(file.program);
  for (const bool searched : {false, true}) UnseenIn(key, path, searched);
  OwnMappingsIn(key, path);
  InlinedIn(key, path, file);
}

void AddUnseenAllocator(const LoadedFiles& files, bool searched, Profile* profile) {
  if (profile->mappings.empty()) return;
  const Profile::Mapping& program = profile->mappings[0];
  const LoadedFiles::Key executable(profile->strings[program.file], profile->strings[program.build_id]);
  std::vector<std::string> texts;
  if (const LoadedFile* file = ExecutableIn(files, executable.first, executable.second); file != nullptr) {
    const std::string path = PathOf(file->program);
    if (!profile->records().allocator.has_value()) texts.push_back(UnseenIn(executable, path, searched));
    texts.push_back(OwnMappingsIn(executable, path));
    if (auto& allocator = profile->mutable_records()->allocator; allocator.has_value() && allocator->is_seen) {
      const InlinedAllocator& inlined = InlinedIn(executable, path, *file);
      if (inlined.is_inlined && allocator->incomplete.empty()) {
        allocator->incomplete = inlined.text;
        profile->AddComment("incomplete: " + inlined.text);
      } else if (!inlined.text.empty() && allocator->incomplete.empty()) {
        texts.push_back(inlined.text);
      }
    }
  }
  for (const auto& [key, file] : files.all()) {
    if (key.first == executable.first || !file->program.valid()) continue;
    texts.push_back(PrivateIn(key, *file));
  }
  std::erase(texts, "");
  if (texts.empty()) return;
  std::optional<record::Allocator>& allocator = profile->mutable_records()->allocator;
  if (!allocator.has_value()) allocator.emplace();
  // One comment, because other tools print at most 20.
  const StringId before = profile->strings.Intern("allocator: " + allocator->outcome);
  for (const std::string& text : texts) {
    for (std::string* part : {&allocator->outcome, &allocator->not_seen}) *part += (part->empty() ? "" : "; ") + text;
  }
  std::erase(profile->comments, before);
  profile->AddComment("allocator: " + allocator->outcome);
}

}  // namespace holdfast
