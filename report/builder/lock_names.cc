#include "report/builder/lock_names.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/time_budget.h"
#include "report/builder/block_members.h"
#include "report/builder/wall_locks.h"
#include "report/builder/written_locks.h"
#include "report/names/dwarf/members.h"
#include "report/names/elf/debug_file.h"
#include "report/names/elf/demangle.h"
#include "report/names/elf/elf_file.h"
#include "report/names/symbolize/mapping_layout.h"
#include "report/observe/table/process_info.h"
#include "report/profile/object_names.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

struct WantedName {
  uint64_t elf_address;
  size_t number;            // of the lock; when names are added later, or for classes, its index
  std::string name;         // mangled
  uint64_t offset;          // into the symbol
  uint64_t size = 0;        // of the symbol
  std::string member = {};  // of the symbol, see report/names/dwarf/members.h
  bool has_member = false;  // known, even if it is the whole symbol
};

constexpr uint64_t kMaxSymbolTableBytes = uint64_t{256} << 20, kMaxUnpackedDebugFile = uint64_t{256} << 20;
constexpr size_t kMaxName = 4096;
// Time limit per snapshot, enough for 10 MB of debug information.
constexpr std::chrono::milliseconds kMembersTime{50};

void FindNames(const ElfFile& elf, std::vector<WantedName>* wanted) {
  std::sort(wanted->begin(), wanted->end(),
            [](const WantedName& a, const WantedName& b) { return a.elf_address < b.elf_address; });
  const auto first_at = [wanted](uint64_t address) {
    return std::lower_bound(wanted->begin(), wanted->end(), address,
                            [](const WantedName& one, uint64_t at) { return one.elf_address < at; });
  };
  for (const Elf64_Shdr& section : elf.sections()) {
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
    const auto table = elf.SymbolsOf(section, kMaxSymbolTableBytes);
    if (!table) continue;
    for (const Elf64_Sym& symbol : table->symbols) {
      // A lock inside a runtime is recorded at the address of a function (interpose/locks/openmp.h).
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      if ((type != STT_OBJECT && type != STT_FUNC) || symbol.st_shndx == SHN_UNDEF) continue;
      const uint64_t size = type == STT_FUNC ? 1 : std::max<uint64_t>(symbol.st_size, 1);
      std::string name;
      for (auto one = first_at(symbol.st_value); one != wanted->end() && one->elf_address - symbol.st_value < size;
           ++one) {
        if (!one->name.empty()) continue;
        if (name.empty()) name = elf.TextAt(*table->names, symbol.st_name, kMaxName);
        if (name.empty()) break;
        one->name = name.substr(0, name.find('@', 1));
        one->offset = one->elf_address - symbol.st_value;
        one->size = symbol.st_size;
      }
    }
  }
}

// Uses the debug information of the file with these symbols. A variable that is no larger than a lock has no members to
// look for.
void FindMembersOf(dwarf::Sections* sections, const Deadline& deadline, std::vector<WantedName>* wanted) {
  constexpr uint64_t kLargestLock = 56;  // pthread_rwlock_t
  std::vector<dwarf::WantedMember> members;
  for (const WantedName& one : *wanted) {
    if (!one.name.empty() && !one.has_member && one.size > kLargestLock)
      members.push_back({.variable = one.elf_address - one.offset, .offset = one.offset});
  }
  if (members.empty()) return;
  dwarf::FindMembers(sections, members, deadline);
  for (WantedName& one : *wanted) {
    for (const dwarf::WantedMember& member : members) {
      if (!member.is_known || member.variable + member.offset != one.elf_address) continue;
      one.has_member = true;
      one.member = member.path;
    }
  }
}

void FindMembersIn(std::shared_ptr<DebugFile> file, const Deadline& deadline, std::vector<WantedName>* wanted) {
  if (!file->has_lines()) return;
  if (const auto sections = SectionsOf(std::move(file)); sections.ok())
    FindMembersOf(sections->get(), deadline, wanted);
}

// Only if the file has this build id.
bool FindNamesIn(int fd, std::string_view build_id, std::vector<WantedName>* wanted) {
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(fd);
  if (elf == nullptr || !elf->is_readable() || elf->BuildId() != build_id) return false;
  FindNames(*elf, wanted);
  return true;
}

// Returns the file that is held open, or else opens the path.
absl::StatusOr<FileDescriptor> OpenModule(const std::string& path, std::string_view build_id, uint64_t bias,
                                          const LoadedFiles* files) {
  const auto held = files != nullptr ? files->Find(LoadedFiles::KeyOf(path, build_id, bias)) : nullptr;
  FileDescriptor again(held != nullptr ? fcntl(held->program.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (again.valid()) return again;
  return OpenRegular(path);
}

// Opens only regular files: the path comes from a table that any process of the same user may have written.
void FindNamesAt(const std::string& path, std::string_view build_id, uint64_t bias, const LoadedFiles* files,
                 const Deadline& deadline, std::vector<WantedName>* wanted) {
  if (!path.starts_with('/')) return;
  auto fd = OpenModule(path, build_id, bias, files);
  if (!fd.ok() || !FindNamesIn(fd->get(), build_id, wanted)) return;
  auto file = OpenDebugFile(*std::move(fd), kMaxUnpackedDebugFile);
  if (file.ok()) FindMembersIn(*std::move(file), deadline, wanted);
}

// Returns the debug information in the file itself, if there is any.
std::shared_ptr<dwarf::Sections> OwnSections(const Profile& profile, const Profile::Mapping& mapping,
                                             const LoadedFiles* files, uint64_t max_unpacked) {
  const std::string path(profile.strings[mapping.file]);
  if (!path.starts_with('/')) return nullptr;
  auto fd = OpenModule(path, profile.strings[mapping.build_id], mapping.bias, files);
  if (!fd.ok()) return nullptr;
  auto file = OpenDebugFile(*std::move(fd), max_unpacked);
  if (!file.ok() || !(*file)->has_lines() || (*file)->build_id != profile.strings[mapping.build_id]) return nullptr;
  return SectionsOf(*std::move(file)).value_or(nullptr);
}

void SetName(const WantedName& one, std::string_view path, const ObjectNames& object_names, record::Lock* lock) {
  const std::string_view object = object_names.Of(WithoutDeletedMark(path));
  if (one.name.empty()) {
    lock->file = object;
    lock->file_address = one.elf_address;
    return;
  }
  const std::string demangled = Demangle(one.name);
  const std::string place = one.has_member ? one.member : one.offset == 0 ? "" : fmt::format("+{}", one.offset);
  lock->file.clear();
  lock->file_address = 0;
  lock->name = fmt::format("{}{} ({})", demangled.empty() ? one.name : demangled, place, object);
}

// "[3].mutex" → "[*].mutex"
std::string WithoutElements(std::string_view member) {
  std::string text;
  bool is_index = false;
  for (const char c : member) {
    if (c == ']') is_index = false;
    if (!is_index) text += c;
    if (c == '[') {
      text += '*';
      is_index = true;
    }
  }
  return text;
}

// Returns the module that contains a lock outside of blocks and frames; null if none does.
const ModuleInfo* ModuleOf(const ProcessState& state, uint64_t address) {
  const auto module = std::ranges::find_if(state.waits.modules, [address](const ModuleInfo& one) {
    return !one.unloaded && address >= one.start && address < one.end;
  });
  return module == state.waits.modules.end() ? nullptr : &*module;
}

void FindNamesOfModule(const ModuleInfo& module, const LoadedFiles* files, std::vector<WantedName>* wanted) {
  FindNamesAt(std::string(WithoutDeletedMark(module.path)), module.build_id,
              module.bias + (uint64_t{module.tag} << kPcTagShift), files, Deadline::In(kMembersTime), wanted);
}

bool HasNameless(const std::vector<WantedName>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [](const WantedName& one) { return one.name.empty(); });
}

}  // namespace

void WriteLockNames(const ProcessState& state, Profile* profile, const LoadedFiles* files) {
  if (!profile->records().locks.has_value()) return;
  std::vector<record::Lock>& written = profile->mutable_records()->locks->lock;
  const std::vector<const LockInfo*> locks = LocksToWrite(state);
  const ObjectNames object_names(*profile);
  std::map<const ModuleInfo*, std::vector<WantedName>> by_module;
  for (size_t i = 0; i < locks.size(); ++i) {
    if (locks[i]->block_stack != kNoStack) continue;
    if (const ModuleInfo* module = ModuleOf(state, locks[i]->address); module != nullptr)
      by_module[module].push_back({locks[i]->address - module->bias, i + 1, "", 0});
  }
  // A sum of locks has the name of its class.
  for (size_t i = locks.size(); i < written.size(); ++i) {
    const ModuleInfo* module = written[i].name.empty() ? nullptr : ModuleOf(state, written[i].address);
    if (module != nullptr)
      written[i].name += fmt::format(" ({})", object_names.Of(WithoutDeletedMark(std::string_view(module->path))));
  }
  for (auto& [module, wanted] : by_module) {
    FindNamesOfModule(*module, files, &wanted);
    if (!module->path.starts_with('/')) continue;
    for (const WantedName& one : wanted) {
      if (one.number <= written.size()) SetName(one, module->path, object_names, &written[one.number - 1]);
    }
  }
  NameMembersOfBlocks(
      profile,
      [&](const Profile::Mapping& mapping) { return OwnSections(*profile, mapping, files, kMaxUnpackedDebugFile); },
      Deadline::In(kMembersTime));
  NameLocksOfWall(profile);
}

void FindLockClasses(const LoadedFiles* files, ProcessState* state) {
  if (state->waits.locks.size() <= kMaxLocksWritten) return;
  std::map<const ModuleInfo*, std::vector<WantedName>> by_module;
  for (size_t i = 0; i < state->waits.locks.size(); ++i) {
    const LockInfo& lock = state->waits.locks[i];
    if (lock.block_stack != kNoStack || lock.thread_offset != 0) continue;
    if (const ModuleInfo* module = ModuleOf(*state, lock.address); module != nullptr)
      by_module[module].push_back({lock.address - module->bias, i, "", 0});
  }
  state->waits.lock_classes.assign(state->waits.locks.size(), {});
  for (auto& [module, wanted] : by_module) {
    FindNamesOfModule(*module, files, &wanted);
    for (const WantedName& one : wanted) {
      if (one.name.empty()) continue;
      const std::string demangled = Demangle(one.name);
      state->waits.lock_classes[one.number] = {
          (demangled.empty() ? one.name : demangled) + WithoutElements(one.has_member ? one.member : ""),
          state->waits.locks[one.number].address - one.offset};
    }
  }
}

void CompleteLockNames(Profile* profile, DebugFileFinder& files) {
  if (!profile->records().locks.has_value()) return;
  const ObjectNames object_names(*profile);
  std::vector<record::Lock>& locks = profile->mutable_records()->locks->lock;
  std::map<std::string, std::vector<WantedName>> by_file;
  for (size_t i = 0; i < locks.size(); ++i) {
    if (locks[i].name.empty() && !locks[i].file.empty())
      by_file[locks[i].file].push_back({locks[i].file_address, i, "", 0});
  }
  for (auto& [file, wanted] : by_file) {
    const auto is_it = [&, name = file](const Profile::Mapping& mapping) {
      const std::string_view path = profile->strings[mapping.file];
      return object_names.Of(path) == name || BaseName(path) == name;  // the latter: written by earlier versions
    };
    const auto mapping = std::find_if(profile->mappings.begin(), profile->mappings.end(), is_it);
    if (mapping == profile->mappings.end()) continue;
    const std::string path(profile->strings[mapping->file]), build_id(profile->strings[mapping->build_id]);
    // If two files have one name, it is unknown which one is meant.
    if (std::any_of(mapping, profile->mappings.end(), [&](const Profile::Mapping& other) {
          return is_it(other) && profile->strings[other.build_id] != build_id;
        })) {
      continue;
    }
    FindNamesAt(path, build_id, 0, nullptr, Deadline::Never(), &wanted);
    if (HasNameless(wanted) && !build_id.empty()) {
      if (const auto found = files.Find(path, build_id, nullptr); found.ok()) {
        FindNamesIn(found->file->fd.get(), build_id, &wanted);
        FindMembersIn(found->file, Deadline::Never(), &wanted);
      }
    }
    for (const WantedName& one : wanted) {
      if (!one.name.empty()) SetName(one, path, object_names, &locks[one.number]);
    }
  }
  NameLocksOfWall(profile);
}

void CompleteBlockNames(Profile* profile, DebugFileFinder& files) {
  const auto open = [&](const Profile::Mapping& mapping) -> std::shared_ptr<dwarf::Sections> {
    if (auto own = OwnSections(*profile, mapping, nullptr, files.max_unpacked()); own != nullptr) return own;
    const std::string path(profile->strings[mapping.file]), build_id(profile->strings[mapping.build_id]);
    if (build_id.empty()) return nullptr;
    auto found = files.Find(path, build_id, nullptr);
    return found.ok() && found->file->has_lines() ? SectionsOf(std::move(found->file)).value_or(nullptr) : nullptr;
  };
  NameMembersOfBlocks(profile, open, Deadline::Never());
}

}  // namespace holdfast
