#include "report/daemon/installation.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "fmt/format.h"
#include "report/observe/table/folder_owner.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/spawn_exporter.h"

namespace holdfast {
namespace {

// The library's buffer for the folder's path, including the terminating NUL.
constexpr size_t kMaxPathBytes = 1024;
constexpr uint32_t kRamfsMagic = 0x858458f6;

absl::Status Unusable(const std::string& thing, const std::string& what, std::string_view next) {
  return absl::FailedPreconditionError(fmt::format("{}: {}. {}", thing, what, next));
}

// Whether LD_PRELOAD would not take the path as one.
bool IsDivided(const std::string& path) { return path.find_first_of(" :$") != std::string::npos; }

uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

// Whether `link` is a link of this user's to `target`. Makes it if nothing has its name. The folder may be writable by
// all, so a link of another user is not used.
bool LinkTo(const std::string& target, const std::string& link) {
  if (symlink(target.c_str(), link.c_str()) == 0) return true;
  struct stat info;
  char there[PATH_MAX];
  const ssize_t bytes = readlink(link.c_str(), there, sizeof there);
  return bytes > 0 && std::string_view(there, static_cast<size_t>(bytes)) == target &&
         lstat(link.c_str(), &info) == 0 && info.st_uid == geteuid();
}

bool IsInMemory(const std::string& folder) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return false;
  const auto type = static_cast<uint32_t>(info.f_type);
  return type == TMPFS_MAGIC || type == kRamfsMagic;
}

}  // namespace

absl::StatusOr<std::string> OwnPath() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == sizeof path) {
    return Unusable("/proc/self/exe", fmt::format("cannot be read ({})", strerror(errno)), "Mount /proc.");
  }
  return std::string(path, static_cast<size_t>(length));
}

absl::StatusOr<std::string> FindLibrary(const std::string& own_path) {
  const std::string folder = own_path.substr(0, own_path.rfind('/'));
  const std::string library = fmt::format("{}/lib/holdfast/libholdfast.so", folder.substr(0, folder.rfind('/')));
  if (access(library.c_str(), R_OK) != 0) {
    return Unusable(library, fmt::format("the library to preload cannot be read ({})", strerror(errno)),
                    "It belongs in ../lib/holdfast, relative to the folder of holdfast. Install both together.");
  }
  return library;
}

absl::StatusOr<std::string> PreloadableLibrary(const std::string& library) {
  if (!IsDivided(library)) return library;
  constexpr std::string_view kInPrefix = "/lib/holdfast/libholdfast.so";
  const std::string prefix = library.substr(0, library.size() - kInPrefix.size());
  for (const std::string& folder : DefaultTableFolders()) {
    if (IsDivided(folder)) continue;
    const std::string link = fmt::format("{}/holdfast-at.{}.{:016x}", folder, geteuid(), HashOf(prefix));
    if (LinkTo(prefix, link)) return link + std::string(kInPrefix);
  }
  return Unusable(
      library, "LD_PRELOAD cannot contain a path with a blank, ':' or '$', and no link to it can be made in /dev/shm",
      "Install holdfast in another folder.");
}

absl::StatusOr<std::string> AbsolutePath(const std::string& path) {
  std::string whole = path;
  if (!path.starts_with("/")) {
    char here[PATH_MAX];
    if (getcwd(here, sizeof here) == nullptr) {
      return Unusable(".", fmt::format("the working folder has no path ({})", strerror(errno)),
                      "Start holdfast from another folder.");
    }
    whole = fmt::format("{}/{}", here, path);
  }
  // Resolve links in the part that exists; the rest will be created.
  std::string missing;
  while (true) {
    const std::unique_ptr<char, void (*)(void*)> real(realpath(whole.c_str(), nullptr), free);
    if (real != nullptr) {
      const std::string found = real.get();
      return missing.empty() ? found : (found == "/" ? "" : found) + missing;
    }
    const size_t slash = whole.rfind('/');
    if (errno != ENOENT || slash == 0 || slash == std::string::npos) return whole + missing;
    const std::string last = whole.substr(slash);
    if (last == "/..") return whole + missing;
    if (last != "/" && last != "/.") missing = last + missing;
    whole.resize(slash);
  }
}

absl::StatusOr<std::string> TablesFolder(const std::string& tables) {
  absl::StatusOr<std::string> folder = AbsolutePath(tables);
  if (!folder.ok()) return folder;
  constexpr std::string_view kNext = "Name a folder on a tmpfs, such as /dev/shm.";
  struct stat info;
  if (stat(folder->c_str(), &info) != 0) {
    return Unusable(fmt::format("--tables: {}", *folder), fmt::format("cannot be used ({})", strerror(errno)), kNext);
  }
  if (!S_ISDIR(info.st_mode)) return Unusable(fmt::format("--tables: {}", *folder), "is not a folder", kNext);
  if (!IsInMemory(*folder)) {
    return Unusable(fmt::format("--tables: {}", *folder), "is on a disk, which would slow the program down", kNext);
  }
  return folder;
}

std::string UsualTablesFolder(const std::string& out) {
  for (const std::string& folder : DefaultTableFolders()) {
    if (IsInMemory(folder)) return folder;
  }
  return out;
}

std::string WhyNoSpace(const std::string& folder) {
  const FileDescriptor file(open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600));
  const auto why = [] { return errno == ENOSPC || errno == EDQUOT || errno == EROFS ? strerror(errno) : ""; };
  if (!file.valid()) return why();
  const std::string profile(64 << 10, 'x');
  rlimit limit;  // a write beyond it would end this process
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < profile.size()) return "";
  size_t written = 0;
  while (written < profile.size()) {
    const ssize_t more = write(file.get(), profile.data() + written, profile.size() - written);
    if (more < 0 && errno != EINTR) return why();
    written += more > 0 ? static_cast<size_t>(more) : 0;
  }
  return "";
}

absl::Status OutFolder::Make(const std::string& path) {
  path_ = path;
  constexpr std::string_view kNext = "Name another output folder with --out.";
  if (path.size() >= kMaxPathBytes)
    return Unusable(path, "the path of the output folder is too long (1023 bytes)", kNext);
  if (const int error = MakeFolders(path, &made_); error != 0) {
    const absl::Status status =
        Unusable(path, fmt::format("the output folder cannot be created ({})", strerror(error)), kNext);
    RemoveIfEmpty();
    return status;
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Unusable(path, "the output folder cannot be created (a file has this name)", kNext);
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    const absl::Status status =
        Unusable(path, fmt::format("the output folder cannot be written ({})", strerror(errno)), kNext);
    RemoveIfEmpty();
    return status;
  }
  const absl::StatusOr<FileDescriptor> folder = OpenOwnFolder(path);
  if (!folder.ok())
    return absl::PermissionDeniedError(fmt::format("{}. {}", std::string(folder.status().message()), kNext));
  weakness_ = RightsOfOthers(*folder);
  return absl::OkStatus();
}

std::vector<std::string> OutFolder::Names() const {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(path_.c_str()), closedir);
  if (listing == nullptr) return names;
  while (const dirent* entry = readdir(listing.get())) names.emplace_back(entry->d_name);
  return names;
}

void OutFolder::RemoveIfEmpty() {
  while (!made_.empty() && rmdir(made_.back().c_str()) == 0) made_.pop_back();
}

Launched LaunchExporter(const std::string& own_path, const std::string& out, const std::string& tables,
                        uint64_t max_disk_bytes, const std::string& on_snapshot, bool keep) {
  const std::string parent = std::to_string(getpid()), max_disk = std::to_string(max_disk_bytes);
  const FolderId folder = FolderIdOf(out);
  const std::string id = fmt::format("{}:{}", folder.device, folder.inode);
  const char* arguments[] = {own_path.c_str(), "exporter", "--out",        out.c_str(),  "--tables",
                             tables.c_str(),   "--parent", parent.c_str(), "--max-disk", max_disk.c_str(),
                             "--out-id",       id.c_str(), nullptr};
  // Variables for the program must not reach the exporter.
  std::vector<const char*> environment;
  for (const char* const* entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    if (!variable.starts_with("LD_") && !variable.starts_with("HOLDFAST_")) environment.push_back(*entry);
  }
  environment.push_back("HOLDFAST_ENABLE=0");  // if /etc/ld.so.preload names the library
  const std::string command = "HOLDFAST_ON_SNAPSHOT=" + on_snapshot;
  if (!on_snapshot.empty()) environment.push_back(command.c_str());
  environment.push_back(nullptr);
  const auto spawn = [&](Orphan orphan) {
    return SpawnExporter(own_path.c_str(), arguments, environment.data(), false, nullptr, orphan);
  };
  Orphan orphan = Orphan::kGoesAway;
  Spawned spawned = spawn(orphan);
  if (spawned == Spawned::kNoticed && !keep) return Launched::kNoticed;
  if (spawned == Spawned::kNoticed) spawned = spawn(orphan = Orphan::kIsKept);
  if (spawned != Spawned::kServes && spawned != Spawned::kStarted) return Launched::kFailed;
  // Another exporter that still served the folder may end now, as its last process has. One more is started then.
  constexpr long kMaxNs = 4'000'000'000, kAgainNs = 500'000'000;
  for (long waited_ns = 0, again_ns = kAgainNs, pause_ns = 100'000; waited_ns < kMaxNs; waited_ns += pause_ns) {
    if (ExporterServes(tables.c_str(), out.c_str(), folder)) return Launched::kServes;
    if (waited_ns > 10'000'000) pause_ns = 1'000'000;
    if (waited_ns > again_ns) {
      spawn(orphan);
      again_ns += kAgainNs;
    }
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
  }
  return Launched::kFailed;
}

void EndKeptExporter() { EndKeptMiddle(); }

}  // namespace holdfast
