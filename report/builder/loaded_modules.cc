#include "report/builder/loaded_modules.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "report/base/split.h"
#include "report/builder/symbols_in_memory.h"
#include "report/names/elf/debug_file_finder.h"
#include "report/names/elf/elf_file.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr int kMaxDescriptors = 4096;

// An executable mapping of a file, from /proc/PID/maps.
struct CodeMapping {
  uint64_t start = 0, end = 0;
  unsigned major = 0, minor = 0;
  uint64_t inode = 0;

  // Fails on some file systems: overlayfs and btrfs show another device here.
  bool IsOf(const struct stat& info) const {
    return inode == info.st_ino && major == gnu_dev_major(info.st_dev) && minor == gnu_dev_minor(info.st_dev);
  }
};

std::vector<CodeMapping> CodeMappingsOf(pid_t pid) {
  std::vector<CodeMapping> mappings;
  const std::string maps = ReadWhole(fmt::format("/proc/{}/maps", pid));
  for (const std::string_view line : Split(maps, "\n")) {
    // 7f00a000-7f00b000 r-xp 00001000 fe:00 1234   /usr/lib/libc.so.6
    CodeMapping one;
    char rights[5] = {};
    const std::string text(line.substr(0, 100));
    if (sscanf(text.c_str(), "%lx-%lx %4s %*x %x:%x %lu", &one.start, &one.end, rights, &one.major, &one.minor,
               &one.inode) == 6 &&
        rights[2] == 'x' && one.inode != 0) {
      mappings.push_back(one);
    }
  }
  return mappings;
}

bool HasBuildId(const FileDescriptor& file, std::string_view build_id) {
  if (build_id.empty()) return false;
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(file.get());
  return elf != nullptr && elf->BuildId() == build_id;
}

// Resolves symbolic links below the process's own root: an absolute link in a container stays in the container.
FileDescriptor OpenBelow(const std::string& root, const std::string& path) {
  const FileDescriptor folder(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return {};
  open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  FileDescriptor file(static_cast<int>(syscall(SYS_openat2, folder.get(), path.c_str(), &how, sizeof how)));
  struct stat info;
  return file.valid() && fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) ? std::move(file) : FileDescriptor();
}

FileDescriptor Opened(const std::string& path) {
  auto file = OpenRegular(path);
  return file.ok() ? *std::move(file) : FileDescriptor();
}

// Opens the files of one process.
class Opener {
 public:
  // `pid`: nothing if the process has ended. `is_foreign`: the table is another user's, so none of its paths is
  // followed, and none of its files is parsed with our rights.
  Opener(std::optional<pid_t> pid, bool is_foreign, OpenFiles* open) : is_foreign_(is_foreign), open_(*open) {
    if (!pid.has_value()) return;
    task_ = ThreadWithMemory(*pid);
    proc_ = fmt::format("/proc/{}", task_);
    mappings_ = CodeMappingsOf(task_);
    struct stat own, its;
    const std::string root = proc_ + "/root";
    if (stat("/", &own) == 0 && stat(root.c_str(), &its) == 0 &&
        (own.st_dev != its.st_dev || own.st_ino != its.st_ino)) {
      root_ = root;
    }
  }

  std::shared_ptr<const LoadedFile> Open(const ModuleInfo& module, const std::string& path) {
    FileDescriptor file = OpenExact(module);
    if (!file.valid() && !is_foreign_) file = OpenByPath(module, path);
    if (!file.valid()) file = OpenByDescriptor(module);
    if (!file.valid()) {
      if (auto known = open_.WithBuildId(module.build_id); known != nullptr) return known;
      if (MappingOf(module) != nullptr && !is_foreign_) file = SymbolsInMemory(task_, module);
      if (!file.valid()) return nullptr;
    }
    bool is_new = false;
    std::shared_ptr<LoadedFile> shared = open_.Share(std::move(file), &is_new);
    if (shared == nullptr) return nullptr;
    if (is_new) shared->root = root_;
    // Once for each file, because a build has thousands of processes.
    if (is_new && !is_foreign_) FindDebug(module, path, shared.get());
    open_.Note(module.build_id, shared);
    return shared;
  }

 private:
  const CodeMapping* MappingOf(const ModuleInfo& module) const {
    if (module.segments.empty() || module.unloaded) return nullptr;
    const uint64_t start = module.segments[0].start;
    const auto found = std::find_if(mappings_.begin(), mappings_.end(),
                                    [&](const CodeMapping& one) { return start >= one.start && start < one.end; });
    return found == mappings_.end() ? nullptr : &*found;
  }

  FileDescriptor OpenExact(const ModuleInfo& module) const {
    const CodeMapping* const mapping = MappingOf(module);
    if (mapping == nullptr) return {};
    FileDescriptor file = Opened(fmt::format("{}/map_files/{:x}-{:x}", proc_, mapping->start, mapping->end));
    if (file.valid()) return file;
    file = Opened(proc_ + "/exe");
    struct stat info;
    const bool is_it = file.valid() && fstat(file.get(), &info) == 0 &&
                       (mapping->IsOf(info) || (!is_foreign_ && HasBuildId(file, module.build_id)));
    return is_it ? std::move(file) : FileDescriptor();
  }

  FileDescriptor OpenByPath(const ModuleInfo& module, const std::string& path) const {
    const CodeMapping* const mapping = MappingOf(module);
    const auto is_it = [&](const FileDescriptor& file) {
      struct stat info;
      if (!file.valid() || fstat(file.get(), &info) != 0) return false;
      return (mapping != nullptr && mapping->IsOf(info)) || HasBuildId(file, module.build_id);
    };
    if (!root_.empty()) {
      FileDescriptor file = OpenBelow(root_, path);
      if (is_it(file)) return file;
    }
    FileDescriptor file = Opened(path);
    return is_it(file) ? std::move(file) : FileDescriptor();
  }

  // Finds a memory file (memfd_create), or a deleted file that the process still has open.
  FileDescriptor OpenByDescriptor(const ModuleInfo& module) const {
    const CodeMapping* const mapping = MappingOf(module);
    const std::string folder = proc_ + "/fd";
    const std::unique_ptr<DIR, int (*)(DIR*)> descriptors(mapping != nullptr ? opendir(folder.c_str()) : nullptr,
                                                          closedir);
    for (int left = kMaxDescriptors; left > 0 && descriptors != nullptr; --left) {
      const dirent* const entry = readdir(descriptors.get());
      if (entry == nullptr) break;
      const std::string path = fmt::format("{}/{}", folder, entry->d_name);
      struct stat info;
      if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || !mapping->IsOf(info)) continue;
      FileDescriptor file = Opened(path);
      if (file.valid() && fstat(file.get(), &info) == 0 && mapping->IsOf(info)) return file;
    }
    return {};
  }

  // Finds the file with names or lines that the program's own file lacks.
  void FindDebug(const ModuleInfo& module, const std::string& path, LoadedFile* file) const {
    FileDescriptor again(fcntl(file->program.get(), F_DUPFD_CLOEXEC, 0));
    if (!again.valid()) return;
    DebugFileFinder finder({});
    const auto own = OpenDebugFile(std::move(again), 0);
    if (!own.ok() || ((*own)->has_symtab && (*own)->has_lines())) return;
    auto found = finder.Find(path, module.build_id, own->get(), file->root);
    if (!found.ok()) return;
    file->debug = std::move(found->file->fd);
    file->debug_path = std::move(found->path);
  }

  const bool is_foreign_;
  OpenFiles& open_;
  pid_t task_ = 0;
  std::string proc_, root_;
  std::vector<CodeMapping> mappings_;
};

LoadedFiles::Key KeyOf(const ModuleInfo& module) {
  return LoadedFiles::KeyOf(std::string(WithoutDeletedMark(module.path)), module.build_id,
                            module.bias + (uint64_t{module.tag} << kPcTagShift));
}

// Returns `held`, which has the module's build id, if it is the file at the module's path; null: it is not. The
// processes of a server, or of a build, have the same few files.
std::shared_ptr<const LoadedFile> HeldAt(const std::string& path, std::shared_ptr<const LoadedFile> held) {
  struct stat named;
  const bool is_it =
      held != nullptr && stat(path.c_str(), &named) == 0 && named.st_dev == held->device && named.st_ino == held->inode;
  return is_it ? std::move(held) : nullptr;
}

}  // namespace

bool LoadedModules::Look(const TableFile& table, OpenFiles* open) {
  const std::vector<ModuleInfo> modules = table.ModulesSince(&newest_);
  if (modules.empty()) return false;
  const auto find = [&table] {
    return table.liveness() == Liveness::kDead ? std::nullopt : FindProcess(table.owner());
  };
  Open(modules, find, table.ReadWith().has_value(), open);
  return true;
}

void LoadedModules::Look(const ProcessState& state, OpenFiles* open) {
  const std::vector<ModuleInfo>& modules = state.waits.modules;
  if (modules.size() == looked_at_) return;
  looked_at_ = modules.size();
  const ProcessIdentity& process = state.table->process;
  TableOwner owner;
  owner.pid = process.pid;
  owner.pid_ns = process.pid_ns;
  owner.start_ticks = process.start_ticks;
  owner.stack_end = process.stack_end;
  const auto find = [&owner] { return LivenessOf(owner) == Liveness::kDead ? std::nullopt : FindProcess(owner); };
  Open(modules, find, process.uid != geteuid(), open);
}

void LoadedModules::Open(const std::vector<ModuleInfo>& modules, const std::function<std::optional<pid_t>()>& find,
                         bool is_foreign, OpenFiles* open) {
  std::optional<Opener> opener;  // finds the process and reads its memory map, so only where needed
  // The newest module with a path is the loaded one.
  for (const ModuleInfo& module : modules) {
    const LoadedFiles::Key key = KeyOf(module);
    if (!key.first.starts_with('/') || files_.Find(key) != nullptr) continue;
    auto file = is_foreign ? nullptr : HeldAt(key.first, open->WithBuildId(module.build_id));
    if (file == nullptr) {
      if (!opener.has_value()) opener.emplace(find(), is_foreign, open);
      file = opener->Open(module, key.first);
    }
    if (file != nullptr) files_.Add(key, std::move(file));
  }
}

void LoadedModules::LetGoOfUnloaded(const std::vector<ModuleInfo>& modules) {
  std::set<LoadedFiles::Key> loaded, unloaded;
  for (const ModuleInfo& module : modules) (module.unloaded ? unloaded : loaded).insert(KeyOf(module));
  for (const LoadedFiles::Key& key : unloaded) {
    if (!loaded.contains(key)) files_.Remove(key);
  }
}

void LoadedModules::KeepReadableBy(uid_t user, std::vector<int>* descriptors) {
  LoadedFiles kept = files_.WithoutFiles();
  for (const auto& [key, file] : files_.all()) {
    struct stat info;
    if (fstat(file->program.get(), &info) != 0) continue;
    if ((info.st_mode & S_IROTH) == 0 && (info.st_uid != user || (info.st_mode & S_IRUSR) == 0)) continue;
    kept.Add(key, file);
    descriptors->push_back(file->program.get());
    if (file->debug.valid()) descriptors->push_back(file->debug.get());
  }
  files_ = std::move(kept);
}

}  // namespace holdfast
