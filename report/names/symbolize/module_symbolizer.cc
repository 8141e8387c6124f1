#include "report/names/symbolize/module_symbolizer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "report/names/elf/demangle.h"

namespace holdfast {
namespace {

// Excludes the vdso, and relative paths, which are relative to the program's folder and not to ours.
bool IsFile(std::string_view path) { return path.starts_with('/'); }

std::string FileKeyOf(const struct stat& status, std::string_view build_id) {
  return fmt::format("{}/{}/{}/{}.{}/{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec, build_id);
}

// Duplicates the descriptor.
absl::StatusOr<FileDescriptor> Again(const FileDescriptor& file) {
  FileDescriptor again(file.valid() ? fcntl(file.get(), F_DUPFD_CLOEXEC, 0) : -1);
  if (!again.valid()) return absl::NotFoundError("not open");
  return again;
}

}  // namespace

const ModuleSymbolizer::Name& ModuleSymbolizer::Module::NameOf(std::string_view mangled) {
  const auto [place, added] = names_.try_emplace(std::string(mangled));
  if (added) {
    place->second = std::make_unique<Name>();
    Name& name = *place->second;
    name.name = Demangle(mangled);
    if (name.name.empty() || name.name == mangled) {
      name.name = mangled;
    } else {
      name.system_name = mangled;
    }
    memory_bytes_ += 2 * sizeof(Name) + 2 * mangled.size() + name.name.size();
  }
  return *place->second;
}

// Opens the program's file again, which happens only when lines or calls are requested.
absl::StatusOr<FileDescriptor> ModuleSymbolizer::Module::OpenProgram() const {
  auto fd = held_ != nullptr ? Again(held_->program) : OpenRegular(path_);
  if (!fd.ok()) return fd.status();
  struct stat info;
  if (fstat(fd->get(), &info) != 0 || FileKeyOf(info, build_id_) != key_) return absl::NotFoundError("it was replaced");
  return fd;
}

// Null: no debug file is held.
std::shared_ptr<DebugFile> ModuleSymbolizer::Module::OpenHeldDebug() const {
  auto fd = Again(held_->debug);
  if (!fd.ok()) return nullptr;
  auto file = OpenDebugFile(*std::move(fd), files_->max_unpacked());
  return file.ok() ? *std::move(file) : nullptr;
}

ElfCalls* ModuleSymbolizer::Module::calls() {
  if (!std::exchange(looked_for_calls_, true) && is_program_) {
    if (auto program = OpenProgram(); program.ok()) {
      calls_ = ElfCalls::Open(*std::move(program), build_id_);
    }
    if (calls_ != nullptr) memory_bytes_ += calls_->memory_bytes();
  }
  return calls_.get();
}

void ModuleSymbolizer::Module::OpenLines() {
  if (std::exchange(looked_, true)) return;
  std::shared_ptr<DebugFile> file = std::exchange(debug_, nullptr);
  if (file == nullptr && held_ != nullptr) {
    file = OpenHeldDebug();
    debug_path_ = held_->debug_path;
  }
  if (file == nullptr || !file->has_lines()) {
    absl::Status status;
    if (auto program = OpenProgram(); !program.ok()) {
      status = program.status();
    } else if (auto opened = OpenDebugFile(*std::move(program), files_->max_unpacked()); !opened.ok()) {
      status = opened.status();
    } else {
      file = *std::move(opened);
      debug_path_ = path_;
    }
    if (!status.ok() && file == nullptr) why_ = std::string(status.message());
  }
  if (file == nullptr || !file->has_lines()) {
    auto found = files_->Find(path_, build_id_, file.get(), held_ != nullptr ? held_->root : "");
    if (!found.ok() || !found->file->has_lines()) {
      if (!found.ok() && !absl::IsNotFound(found.status())) why_ = std::string(found.status().message());
      if (why_.empty()) why_ = "no debug information";
      return;
    }
    file = std::move(found->file);
    debug_path_ = std::move(found->path);
  }
  auto sections = SectionsOf(file);
  if (!sections.ok()) {
    why_ = absl::StrCat(debug_path_.empty() ? "debug information" : debug_path_, ": ",
                        std::string(sections.status().message()));
    unreadable_ = true;
    return;
  }
  why_.clear();
  if (const absl::Status status = files_->AddShared(file.get(), debug_path_); !status.ok()) {
    shared_missing_ = std::string(status.message());
  }
  const auto open_split = [files = files_, path = debug_path_.empty() ? path_ : debug_path_](
                              const std::string& comp_dir, const std::string& dwo_name) {
    return files->OpenSplit(path, comp_dir, dwo_name);
  };
  lines_ = std::make_unique<dwarf::DebugInfo>(
      *std::move(sections), open_split, [elf = elf_.get()](uint64_t address) { return elf->IsCode(address); },
      Demangle);
}

bool ModuleSymbolizer::Module::LoadLines(std::span<const uint64_t> elf_addresses, const Deadline& deadline) {
  if (deadline.Passed()) return false;
  OpenLines();
  return lines_ == nullptr || lines_->Load(elf_addresses, deadline);
}

std::vector<std::string> ModuleSymbolizer::Module::problems() const {
  std::vector<std::string> problems;
  if (!shared_missing_.empty()) problems.push_back(shared_missing_);
  if (lines_ != nullptr) problems.insert(problems.end(), lines_->problems().begin(), lines_->problems().end());
  return problems;
}

void ModuleSymbolizer::Module::FramesAt(uint64_t elf_address, std::vector<Frame>* frames) {
  frames->clear();
  const std::string_view symbol = elf_->Find(elf_address);
  const std::span<const dwarf::Frame> found =
      lines_ != nullptr ? lines_->FramesAt(elf_address) : std::span<const dwarf::Frame>();
  for (const dwarf::Frame& frame : found) {
    frames->push_back({&NameOf(lines_->Text(frame.function)), lines_->Text(frame.file), frame.line, frame.start_line});
  }
  if (symbol.empty()) return;
  if (frames->empty()) {
    frames->push_back({&NameOf(symbol), {}});
  } else if (elf_->has_symtab() || frames->back().name->name.empty()) {
    // Parts of functions have their own symbols: `Parse(…) [clone .cold]`. With only .dynsym the nearest symbol may
    // belong to another function, because hidden symbols are missing.
    frames->back().name = &NameOf(symbol);
  }
}

absl::StatusOr<ModuleSymbolizer::Module*> ModuleSymbolizer::Find(const std::string& path, std::string_view build_id,
                                                                 int64_t not_after_ns, uint64_t bias) {
  if (!IsFile(path)) return absl::NotFoundError("not a file");
  const std::string id(build_id);
  if (auto held = FindHeld(path, id, bias); held.ok()) return held;
  if (process_ != nullptr && process_->IsGone(LoadedFiles::KeyOf(path, id, bias)))
    return absl::FailedPreconditionError("unloaded since, and without a build id to know its file by");
  const std::string name = absl::StrCat(path, "\n", id);
  const int64_t now = believes_ns_ != 0 ? NowNs() : 0;
  if (const auto seen = seen_.find(name); seen != seen_.end() && now - seen->second.when_ns < believes_ns_) {
    if (Module* known = Known(seen->second.key); known != nullptr) return known;
  }
  absl::Status status;
  if (auto fd = OpenRegular(path); !fd.ok()) {
    status = fd.status();
  } else {
    struct stat info;
    if (fstat(fd->get(), &info) != 0) return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
    if (id.empty() && not_after_ns != 0 && info.st_mtim.tv_sec > not_after_ns / 1'000'000'000) {
      return absl::FailedPreconditionError("written after the profile was, and without a build id to know it by");
    }
    const std::string key = FileKeyOf(info, id);
    if (seen_.size() >= kMaxFiles) seen_.clear();
    if (believes_ns_ != 0 && !id.empty()) seen_[name] = {key, now};
    if (Module* known = Known(key); known != nullptr) return known;
    ++files_read_;
    auto elf = ElfSymbols::Load(fd->get(), id);
    if (elf.ok()) {
      auto module = NewModule(*std::move(elf), path, id);
      module->key_ = key;
      if (!module->elf_->has_symtab()) TakeNamesElsewhere(*std::move(fd), module.get());
      return Keep(key, std::move(module));
    }
    status = elf.status();
  }

  // The profile comes from another machine, or the file was removed or updated.
  const std::string key = absl::StrCat("elsewhere/", path, "/", id);
  if (Module* known = Known(key); known != nullptr) return known;
  if (id.empty() || elsewhere_failed_.contains(key)) return status;
  auto module = LoadElsewhere(path, id);
  if (!module.ok()) {
    elsewhere_failed_.emplace(key, module.status());
    return status;
  }
  return Keep(key, *std::move(module));
}

std::unique_ptr<ModuleSymbolizer::Module> ModuleSymbolizer::NewModule(std::unique_ptr<ElfSymbols> elf,
                                                                      const std::string& path,
                                                                      const std::string& build_id) {
  auto module = std::make_unique<Module>();
  module->elf_ = std::move(elf);
  module->files_ = &files_;
  module->path_ = path;
  module->build_id_ = build_id;
  return module;
}

bool ModuleSymbolizer::Knows(const struct stat& file, std::string_view build_id) const {
  return by_key_.contains(FileKeyOf(file, build_id));
}

ModuleSymbolizer::Module* ModuleSymbolizer::Known(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entries_.front().module.get();
}

// NotFound: the file is not held, or was overwritten in place.
absl::StatusOr<ModuleSymbolizer::Module*> ModuleSymbolizer::FindHeld(const std::string& path,
                                                                     const std::string& build_id, uint64_t bias) {
  std::shared_ptr<const LoadedFile> held =
      process_ != nullptr ? process_->Find(LoadedFiles::KeyOf(path, build_id, bias)) : nullptr;
  struct stat info;
  if (held == nullptr || fstat(held->program.get(), &info) != 0) return absl::NotFoundError("not held");
  const std::string key = FileKeyOf(info, build_id);
  if (Module* known = Known(key); known != nullptr) {
    if (known->held_ == nullptr) known->held_ = std::move(held);
    return known;
  }
  ++files_read_;
  auto elf = ElfSymbols::Load(held->program.get(), build_id);
  if (!elf.ok()) return elf.status();
  auto module = NewModule(*std::move(elf), path, build_id);
  module->key_ = key;
  module->held_ = std::move(held);
  if (!module->elf_->has_symtab()) {
    if (auto program = Again(module->held_->program); program.ok())
      TakeNamesElsewhere(*std::move(program), module.get());
  }
  return Keep(key, std::move(module));
}

void ModuleSymbolizer::TakeNamesElsewhere(FileDescriptor program, Module* module) {
  auto file = OpenDebugFile(std::move(program), files_.max_unpacked());
  auto found = FindDebug(module, file.ok() ? file->get() : nullptr);
  if (!found.ok()) return;
  auto names = ElfSymbols::Load(found->file->fd.get(), found->file->build_id);
  if (names.ok() && (*names)->has_symtab()) module->elf_->TakeNamesOf(names->get());
  if (file.ok() && (*file)->has_lines()) return;
  // Keep the file, because its lines may be needed later.
  module->debug_ = std::move(found->file);
  module->debug_path_ = std::move(found->path);
}

// Returns the held debug file, otherwise searches for one.
absl::StatusOr<DebugFileFinder::Found> ModuleSymbolizer::FindDebug(const Module* module, const DebugFile* program) {
  const LoadedFile* const held = module->held_.get();
  if (held == nullptr) return files_.Find(module->path_, module->build_id_, program);
  if (auto file = module->OpenHeldDebug(); file != nullptr)
    return DebugFileFinder::Found{std::move(file), held->debug_path};
  return files_.Find(module->path_, module->build_id_, program, held->root);
}

absl::StatusOr<std::unique_ptr<ModuleSymbolizer::Module>> ModuleSymbolizer::LoadElsewhere(const std::string& path,
                                                                                          const std::string& build_id) {
  auto found = files_.Find(path, build_id, nullptr);
  if (!found.ok()) return found.status();
  auto elf = ElfSymbols::Load(found->file->fd.get(), build_id);
  if (!elf.ok()) return elf.status();
  auto module = NewModule(*std::move(elf), path, build_id);
  module->is_program_ = false;
  module->debug_ = std::move(found->file);
  module->debug_path_ = std::move(found->path);
  return module;
}

absl::StatusOr<ModuleSymbolizer::Module*> ModuleSymbolizer::Keep(std::string key, std::unique_ptr<Module> module) {
  entries_.push_front({key, std::move(module)});
  by_key_[key] = entries_.begin();
  size_t total = 0;
  for (const Entry& entry : entries_) {
    const Module& kept = *entry.module;
    total +=
        kept.memory_bytes_ + kept.elf_->memory_bytes() + (kept.lines_ != nullptr ? kept.lines_->memory_bytes() : 0);
  }
  while ((total > kCacheBytes || entries_.size() > kMaxFiles) && entries_.size() > 1) {
    total -= std::min(total, entries_.back().module->memory_bytes_ + entries_.back().module->elf_->memory_bytes());
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return entries_.front().module.get();
}

}  // namespace holdfast
