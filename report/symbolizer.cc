#include "report/symbolizer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>

#include "fmt/format.h"
#include "report/demangle.h"

namespace holdfast {
namespace {

struct File {
  int fd = -1;
  struct stat status = {};
  File() = default;
  File(File&& other) : fd(std::exchange(other.fd, -1)), status(other.status) {}
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// A regular file only: the path comes from a table that anyone of the same user may have written, and opening a pipe
// would wait for ever.
absl::StatusOr<File> OpenRegular(const std::string& path) {
  File file;
  file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.fd < 0 || fstat(file.fd, &file.status) != 0) {
    return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
  }
  if (!S_ISREG(file.status.st_mode)) return absl::InvalidArgumentError("not a regular file");
  return file;
}

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Not the vdso, and not a relative path, which would be looked for in our folder and not in the program's.
bool IsFile(std::string_view path) { return path.starts_with('/'); }

}  // namespace

const Symbolizer::Name& Symbolizer::Module::NameAt(uint64_t elf_address) {
  const std::string_view mangled = elf_->Find(elf_address);
  const auto [place, added] = names_.try_emplace(std::string(mangled));
  Name& name = place->second;
  if (added && !mangled.empty()) {
    name.name = Demangle(mangled);
    if (name.name.empty() || name.name == mangled) {
      name.name = mangled;
    } else {
      name.system_name = mangled;
    }
    memory_bytes_ += 2 * sizeof(Name) + 2 * mangled.size() + name.name.size();
  }
  return name;
}

absl::StatusOr<Symbolizer::Module*> Symbolizer::Find(const std::string& path, std::string_view build_id) {
  if (!IsFile(path)) return absl::NotFoundError("not a file");
  auto file = OpenRegular(path);
  if (!file.ok()) return file.status();
  const struct stat& status = file->status;
  const std::string key = fmt::format("{}/{}/{}/{}.{}/{}", status.st_dev, status.st_ino, status.st_size,
                                      status.st_mtim.tv_sec, status.st_mtim.tv_nsec, build_id);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    return &entries_.front().module;
  }
  ++files_read_;
  auto elf = ElfSymbols::Load(file->fd, build_id);
  if (!elf.ok()) return elf.status();
  if (!(*elf)->has_symtab()) TakeDebugFile(elf->get());

  Module module;
  module.memory_bytes_ = (*elf)->memory_bytes();
  module.elf_ = std::move(*elf);
  entries_.push_front({key, std::move(module)});
  by_key_[key] = entries_.begin();
  size_t total = 0;
  for (const Entry& entry : entries_) total += entry.module.memory_bytes_;
  while (total > kCacheBytes && entries_.size() > 1) {
    total -= entries_.back().module.memory_bytes_;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return &entries_.front().module;
}

void Symbolizer::TakeDebugFile(ElfSymbols* elf) {
  const std::string& id = elf->build_id();
  if (debug_root_.empty() || id.size() < 4) return;
  auto file = OpenRegular(fmt::format("{}/.build-id/{}/{}.debug", debug_root_, id.substr(0, 2), id.substr(2)));
  if (!file.ok()) return;  // most programs have none
  ++files_read_;
  auto debug = ElfSymbols::Load(file->fd, id);
  if (debug.ok() && (*debug)->has_symtab()) elf->TakeNamesOf(debug->get());
}

namespace {

// One run over one profile.
class Naming {
 public:
  Naming(Profile* profile, Symbolizer& symbolizer) : profile_(*profile), symbolizer_(symbolizer) {
    for (uint32_t i = 0; i < profile_.functions.size(); ++i) {
      const Profile::Function& function = profile_.functions[i];
      by_names_.emplace(std::tuple(function.name, function.system_name, function.filename), i);
    }
  }

  void Run() {
    // By mapping, so that one file at a time is in use.
    std::vector<std::vector<uint32_t>> by_mapping(profile_.mappings.size());
    for (uint32_t i = 0; i < profile_.locations.size(); ++i) {
      const Profile::Location& location = profile_.locations[i];
      if (location.lines != 0) continue;
      if (location.mapping == Profile::kNone) {
        SetName(i, {.name = fmt::format("[unknown]!0x{:x}", location.address), .system_name = {}});
      } else {
        by_mapping[location.mapping].push_back(i);
      }
    }
    for (uint32_t mapping = 0; mapping < by_mapping.size(); ++mapping) {
      if (!by_mapping[mapping].empty()) NameMapping(mapping, by_mapping[mapping]);
      profile_.mappings[mapping].has_functions = true;  // a synthetic name is one, too
    }
  }

 private:
  void NameMapping(uint32_t index, const std::vector<uint32_t>& locations) {
    const Profile::Mapping mapping = profile_.mappings[index];
    const std::string path(profile_.strings[mapping.file]);
    const std::string_view build_id = profile_.strings[mapping.build_id];
    Symbolizer::Module* module = nullptr;
    if (IsFile(path)) {
      auto found = symbolizer_.Find(path, build_id);
      if (!found.ok()) {
        Explain(path, std::string(found.status().message()));
      } else if (!Fits(mapping, (*found)->elf())) {
        Explain(path, "another file than the program had loaded");
      } else {
        module = *found;
      }
    }
    const uint64_t bias = Bias(mapping, module);
    for (const uint32_t location : locations) {
      const uint64_t elf_address = profile_.locations[location].address - bias;
      Symbolizer::Name name;
      if (module != nullptr) name = module->NameAt(elf_address);
      if (name.name.empty()) {
        name.name = fmt::format("{}!0x{:x}", path.empty() ? "[unknown]" : BaseName(path), elf_address);
      }
      SetName(location, name);
    }
  }

  // A mapping that came from a file of profiles has no bias; the program headers give it. Without those, the file
  // offset is the best there is (and equal to the ELF address in most files).
  static uint64_t Bias(const Profile::Mapping& mapping, const Symbolizer::Module* module) {
    if (mapping.has_bias) return mapping.bias;
    if (module != nullptr) {
      if (const auto address = module->elf().AddressOfOffset(mapping.offset)) return mapping.start - *address;
    }
    return mapping.start - mapping.offset;
  }

  // Without a build id on both sides the layout must be the same: bias and offset both lead to one ELF address.
  static bool Fits(const Profile::Mapping& mapping, const ElfSymbols& elf) {
    if (!elf.build_id().empty() || !mapping.has_bias) return true;
    const auto address = elf.AddressOfOffset(mapping.offset);
    return address && *address == mapping.start - mapping.bias;
  }

  void SetName(uint32_t location, const Symbolizer::Name& name) {
    const Profile::Function function{.name = profile_.strings.Intern(name.name),
                                     .system_name = profile_.strings.Intern(name.system_name)};
    const auto [place, added] = by_names_.emplace(std::tuple(function.name, function.system_name, function.filename),
                                                  static_cast<uint32_t>(profile_.functions.size()));
    if (added) profile_.functions.push_back(function);
    const Profile::Line line{.function = place->second};
    profile_.SetLines(&profile_.locations[location], {&line, 1});
  }

  void Explain(const std::string& path, std::string_view why) {
    const StringId comment = profile_.strings.Intern(fmt::format("no names: {}: {}", path, why));
    for (const StringId other : profile_.comments) {
      if (other == comment) return;  // another segment of the same file
    }
    profile_.comments.push_back(comment);
  }

  Profile& profile_;
  Symbolizer& symbolizer_;
  absl::flat_hash_map<std::tuple<StringId, StringId, StringId>, uint32_t> by_names_;
};

}  // namespace

void Symbolize(Profile* profile, Symbolizer& symbolizer) { Naming(profile, symbolizer).Run(); }

}  // namespace holdfast
