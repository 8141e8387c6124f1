#include "sampler/table/table_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <time.h>

#include "sampler/arch/processor.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/table_share.h"
#include "sampler/contract/text.h"
#include "sampler/table/table_room.h"

namespace holdfast {
namespace {

constexpr long kTmpfs = 0x01021994;
constexpr long kRamfs = 0x858458f6;
constexpr uint64_t kFirstBytes = kFirstTableBytes;
static_assert(kFirstBytes % kLargestPageBytes == 0 && kGrowStepBytes / 4 % kLargestPageBytes == 0);
// Kernels before 5.14, and some emulated ones, cannot back pages without a descriptor. There the whole table is backed
// when it is made, and it is smaller.
constexpr uint64_t kFixedBytes = 8 << 20;
// With a share this large, a few more MiB for each of many processes do not matter.
constexpr uint64_t kMuch = 1 << 30;
// This many tables fill Docker's 64 MiB several times over.
constexpr int kMaxExamined = 1024;
constexpr int kMaxDropped = 64;  // waiting tables, by one program that finds no room

// Place and owner of the current table, for RoomForTables.
constinit TableLocation current_location{};
constinit uint32_t current_uid = 0;

int64_t Now(clockid_t clock) {
  timespec now{};
  RawSyscall(SYS_clock_gettime, clock, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

struct Space {
  uint64_t free_bytes = 0, used_bytes = 0;  // used by anyone
};

bool InMemory(const char* folder, Space* space) {
  struct statfs info;
  if (SyscallFailed(RawSyscall(SYS_statfs, folder, &info))) return false;
  if (info.f_type != kTmpfs && info.f_type != kRamfs) return false;
  const auto block = static_cast<uint64_t>(info.f_bsize);
  // A tmpfs without a size reports no blocks at all: then memory is the limit.
  *space = info.f_blocks == 0 ? Space{UINT64_MAX / 8, 0}
                              : Space{info.f_bavail * block, (info.f_blocks - info.f_bfree) * block};
  return true;
}

// Calls `look` with the name and the status of this user's tables in a folder, at most kMaxExamined of them. False:
// there are more.
template <typename Look>
bool ForEachTable(long folder_fd, uint32_t uid, Look look) {
  struct Entry {
    uint64_t inode;
    int64_t next;
    uint16_t length;
    uint8_t type;
    char name[];
  };
  TextBuffer<32> prefix;
  prefix.Add(kTablePrefix).AddNumber(uid).Add(".");
  int looked_at = 0;
  alignas(8) char buffer[640];  // two of the longest names: this runs on the program's stack
  RawSyscall(SYS_lseek, folder_fd, 0, SEEK_SET);
  while (true) {
    const long got = RawSyscall(SYS_getdents64, folder_fd, buffer, sizeof buffer);
    if (got <= 0) return true;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer + at);
      at += entry->length;
      struct stat info;
      if (!TextStartsWith(entry->name, prefix.text())) continue;
      if (++looked_at > kMaxExamined) return false;
      if (!SyscallFailed(RawSyscall(SYS_newfstatat, folder_fd, entry->name, &info, AT_SYMLINK_NOFOLLOW)))
        look(entry->name, info);
    }
  }
}

// Bytes that this user's tables in `folder` already take. Every program that starts short of room counts them, and a
// build may leave thousands: beyond kMaxExamined all used space counts as theirs.
uint64_t BytesInTables(long folder_fd, uint32_t uid, const Space& space) {
  uint64_t total = 0;
  const bool all = ForEachTable(folder_fd, uid, [&total](const char*, const struct stat& info) {
    total += static_cast<uint64_t>(info.st_blocks) * 512;
  });
  return all ? total : space.used_bytes;
}

constexpr auto ShareOf = ShareOfTables;

// Whether a table waits for `collect`: its process has certainly ended, in this pid namespace, and no exporter serves
// its folder. Called by the one thread that makes a table.
bool Waits(long folder_fd, const char* folder, const char* name, uint64_t own_namespace) {
  static constinit char out[sizeof TableHeader::out] = {};
  const long fd = RawSyscall(SYS_openat, folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (SyscallFailed(fd)) return false;
  const auto read = [fd](size_t offset, auto* field) {
    return RawSyscall(SYS_pread64, fd, field, sizeof *field, offset) == static_cast<long>(sizeof *field);
  };
  uint64_t magic = 0, pid_namespace = 0;
  uint32_t version = 0, pid = 0;
  FolderId out_id{};
  const bool whole = read(offsetof(TableHeader, magic), &magic) && read(offsetof(TableHeader, version), &version) &&
                     read(offsetof(TableHeader, pid), &pid) && read(offsetof(TableHeader, pid_ns), &pid_namespace) &&
                     read(offsetof(TableHeader, out_id), &out_id) && read(offsetof(TableHeader, out), &out);
  RawSyscall(SYS_close, fd);
  if (!whole || magic != kTableMagic || version != kLayoutVersion || pid_namespace != own_namespace || pid == 0)
    return false;
  out[sizeof out - 1] = '\0';
  return RawSyscall(SYS_tgkill, pid, pid, 0) == -3 /*ESRCH*/ && !ExporterServes(folder, out, out_id);
}

// Removes the oldest waiting tables until this user's take at most `most`, or none waits. Returns what remains of
// `taken`.
uint64_t DropWaiting(long folder_fd, const char* folder, uint32_t uid, uint64_t taken, uint64_t most) {
  struct stat info;
  if (SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &info, 0))) return taken;
  const uint64_t own_namespace = info.st_ino;
  struct Waiting {
    char name[128];
    int64_t seconds, ns;
    uint64_t bytes;
  } oldest{};
  int64_t after_seconds = -1, after_ns = 0;
  for (int dropped = 0; dropped < kMaxDropped && taken > most;) {
    oldest.name[0] = '\0';
    ForEachTable(folder_fd, uid, [&](const char* name, const struct stat& table) {
      const auto before = [](int64_t a, int64_t a_ns, int64_t b, int64_t b_ns) {
        return a < b || (a == b && a_ns < b_ns);
      };
      const bool is_new = before(after_seconds, after_ns, table.st_mtim.tv_sec, table.st_mtim.tv_nsec);
      const bool is_older =
          oldest.name[0] == '\0' || before(table.st_mtim.tv_sec, table.st_mtim.tv_nsec, oldest.seconds, oldest.ns);
      if (!is_new || !is_older || TextLength(name) >= sizeof oldest.name || table.st_uid != uid) return;
      CopyText(oldest.name, sizeof oldest.name, name);
      oldest.seconds = table.st_mtim.tv_sec;
      oldest.ns = table.st_mtim.tv_nsec;
      oldest.bytes = static_cast<uint64_t>(table.st_blocks) * 512;
    });
    if (oldest.name[0] == '\0') break;
    after_seconds = oldest.seconds;
    after_ns = oldest.ns;
    if (!Waits(folder_fd, folder, oldest.name, own_namespace)) continue;
    if (SyscallFailed(RawSyscall(SYS_unlinkat, folder_fd, oldest.name, 0))) continue;
    taken -= oldest.bytes < taken ? oldest.bytes : taken;
    ++dropped;
  }
  return taken;
}

// Whether `bytes` more fit into the share even if all used space were tables. Usually so; then none is counted.
bool FitsAnyway(const Space& space, uint64_t bytes) {
  return space.used_bytes + bytes <= ShareOf(space.free_bytes + space.used_bytes);
}

// Fields of /proc/self/stat are counted from the end of the program's name, which may contain anything, including ") ".
uint64_t StartTicks() {
  char text[1024];
  const long length = ReadSmallFile("/proc/self/stat", text, sizeof text);
  long at = length - 1;
  while (at > 0 && text[at] != ')') --at;
  if (at <= 0) return 0;
  int field = 2;
  for (; at < length && field < 22; ++at) {
    if (text[at] == ' ') ++field;
  }
  uint64_t ticks = 0;
  for (; at < length && text[at] >= '0' && text[at] <= '9'; ++at)
    ticks = ticks * 10 + static_cast<uint64_t>(text[at] - '0');
  return ticks;
}

void FillText(TableHeader& head, const Options& options) {
  utsname names;
  if (!SyscallFailed(RawSyscall(SYS_uname, &names))) CopyText(head.host, sizeof head.host, names.nodename);
  // After the main thread ended by pthread_exit, /proc/self shows no memory. The folders of other threads do.
  long length = ReadLink("/proc/self/exe", head.executable, sizeof head.executable - 1);
  if (SyscallFailed(length)) length = ReadLink("/proc/thread-self/exe", head.executable, sizeof head.executable - 1);
  if (SyscallFailed(length)) length = 0;
  head.executable[length] = '\0';
  // The name by which the program was called: Debian's /usr/bin/redis-server is a link to redis-check-rdb. A program
  // started through a descriptor has no useful name.
  const auto* called = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  const bool has_name = called != nullptr && !TextStartsWith(called, "/dev/fd/") && !TextStartsWith(called, "/proc/");
  const char* name = has_name ? called : head.executable;
  for (const char* at = name; *at != '\0'; ++at) {
    if (*at == '/' && at[1] != '\0') name = at + 1;
  }
  CopyText(head.program, sizeof head.program, *name != '\0' ? name : "program");
  CopyText(head.out, sizeof head.out, options.out);
  CopyText(head.snapshot_when, sizeof head.snapshot_when, options.snapshot_when);
  // The kernel's copy: the program may have overwritten its own.
  long got = ReadSmallFile("/proc/self/cmdline", head.command_line, sizeof head.command_line);
  if (got <= 0) got = ReadSmallFile("/proc/thread-self/cmdline", head.command_line, sizeof head.command_line);
  for (long i = 0; i + 1 < got; ++i) {
    if (head.command_line[i] == '\0') head.command_line[i] = ' ';
  }
}

void FillHeader(TableHeader& head, const Options& options, bool forked, FolderId out_id, uint64_t start_ticks) {
  head.version = kLayoutVersion;
  head.header_bytes = sizeof(TableHeader);
  head.pid = static_cast<uint32_t>(RawSyscall(SYS_getpid));
  int takes_orphans = 0;  // kept across exec
  RawSyscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &takes_orphans, 0, 0, 0);
  head.takes_orphans.store(takes_orphans != 0 ? 1 : 0, std::memory_order_relaxed);
  head.parent_pid = static_cast<uint32_t>(RawSyscall(SYS_getppid));
  head.uid = static_cast<uint32_t>(RawSyscall(SYS_geteuid));
  struct stat info;
  if (!SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &info, 0))) head.pid_ns = info.st_ino;
  head.start_ticks = start_ticks;
  head.stack_end = initial_stack;
  head.entry = getauxval(AT_ENTRY);
  head.forked = forked;
  head.start_wall_ns = Now(CLOCK_REALTIME);
  head.start_monotonic_ns = Now(CLOCK_MONOTONIC);
  head.snapshot_every_ns = options.snapshot_every_ns;
  head.max_disk_bytes = options.max_disk_bytes;
  head.max_memory_bytes = options.max_memory_bytes;
  head.seed = options.seed;
  head.out_id = out_id;
  head.merge = options.merge && options.root_pid != static_cast<int>(head.pid);
  head.peak = options.peak;
  head.resident = options.resident;
  head.wall = options.wall;
  head.lifetimes = options.lifetimes;
  head.keep = options.keep;
  head.profiles = options.profiles;
  head.verbose = options.verbose;
  head.heap_intervals[0] = {head.start_wall_ns, options.heap_interval};
  head.lock_intervals[0] = {head.start_wall_ns, options.lock_interval_ns};
  head.cpu_intervals[0] = {head.start_wall_ns, options.cpu_interval_ns};
  head.cpu.interval_count = 1;
  head.heap_interval_count = 1;
  head.lock_interval_count = 1;
  FillText(head, options);
}

// Whether the first `bytes` of a table's file have pages. A filter or an emulator may return 0 without providing any.
bool HasPages(long fd, uint64_t bytes) {
  struct stat info;
  return !SyscallFailed(RawSyscall(SYS_fstat, fd, &info)) && static_cast<uint64_t>(info.st_blocks) * 512 >= bytes;
}

// Gives a table pages for `bytes` if the kernel cannot back a mapping: by the call for files, else by writing.
bool BackByFile(long fd, uint64_t bytes) {
  if (!SyscallFailed(RawSyscall(SYS_fallocate, fd, 0, 0, bytes)) && HasPages(fd, bytes)) return true;
  static constexpr char kZeros[kPageBytes] = {};
  for (uint64_t at = 0; at < bytes; at += kPageBytes) {
    if (RawSyscall(SYS_pwrite64, fd, kZeros, kPageBytes, at) != static_cast<long>(kPageBytes)) return false;
  }
  return HasPages(fd, bytes);
}

// The part of a limited address space that the program may still map; its threads' stacks must fit into it, too.
uint64_t AddressSpaceLeft(uint64_t limit) {
  char text[128];
  if (ReadSmallFile("/proc/self/statm", text, sizeof text) <= 0) return limit;
  uint64_t pages = 0;
  if (text[0] == '0' && ReadSmallFile("/proc/thread-self/statm", text, sizeof text) <= 0) return limit;
  for (const char* at = text; *at >= '0' && *at <= '9'; ++at) pages = pages * 10 + static_cast<uint64_t>(*at - '0');
  return limit > pages * PageBytes() ? limit - pages * PageBytes() : 0;
}

const char* WhyNotOpened(long error) {
  switch (-error) {
    case ENOENT:
      return "does not exist";
    case ENOTDIR:
      return "is not a folder";
    case EROFS:
      return "is read-only";
    case EACCES:
    case EPERM:
      return "cannot be written";
    case ENOSPC:
    case EDQUOT:
      return "is full";
    case EMFILE:
    case ENFILE:
      return "cannot be opened: there is no descriptor left";
    default:
      return "takes no file";
  }
}

// How large a table may become in `folder`; 0: there is no room, and `reason` says why.
uint64_t CapIn(const char* folder, long folder_fd, const Options& options, uint32_t uid, const char** reason) {
  Space space;
  if (!InMemory(folder, &space)) {
    *reason = "is not in memory (a tmpfs), and a disk would slow the program down";
    return 0;
  }
  *reason = space.free_bytes < kFirstBytes ? "is full" : "has as many tables of this user as it takes";
  uint64_t cap = options.max_memory_bytes;
  if (!FitsAnyway(space, cap)) {
    uint64_t taken = BytesInTables(folder_fd, uid, space);
    const uint64_t share = ShareOf(space.free_bytes + taken), most = ShareOfWaitingTables(share);
    // Uncollected tables must not keep a running program from having one.
    if (taken > most && taken + kFirstBytes > share) taken = DropWaiting(folder_fd, folder, uid, taken, most);
    if (share < taken + cap) cap = share > taken ? share - taken : 0;
  }
  rlimit limit;
  if (!SyscallFailed(RawSyscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit)) && limit.rlim_cur < cap) {
    if (cap >= kFirstBytes) *reason = "takes no file of that size (RLIMIT_FSIZE)";
    cap = limit.rlim_cur;
  }
  if (!SyscallFailed(RawSyscall(SYS_prlimit64, 0, RLIMIT_AS, 0, &limit)) && limit.rlim_cur != RLIM_INFINITY) {
    const uint64_t part = AddressSpaceLeft(limit.rlim_cur) / 16;
    if (part < cap) cap = part > kFirstBytes ? part : kFirstBytes;
  }
  cap = cap / kLargestPageBytes * kLargestPageBytes;
  return cap >= kFirstBytes ? cap : 0;
}

SharedTable* MakeTableIn(const char* folder, const Options& options, SharedTable* reuse, uint64_t reuse_bytes,
                         bool forked, bool hidden, FolderId out_id, TableLocation* location, const char** reason) {
  const long folder_fd = RawSyscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (SyscallFailed(folder_fd)) {
    *reason = WhyNotOpened(folder_fd);
    return nullptr;
  }
  const auto uid = static_cast<uint32_t>(RawSyscall(SYS_geteuid));
  uint64_t cap = CapIn(folder, folder_fd, options, uid, reason);
  // There may be more room now than the parent found.
  if (reuse != nullptr && cap > reuse_bytes) cap = reuse_bytes;

  // The header is filled in here while it is still private, so image, pid and start are drawn once.
  uint64_t image = 0;
  if (RawSyscall(SYS_getrandom, &image, sizeof image, 1 /*GRND_NONBLOCK*/) != sizeof image) {
    image = static_cast<uint64_t>(Now(CLOCK_MONOTONIC)) * 0x9e3779b97f4a7c15;
  }
  const uint64_t start_ticks = StartTicks();
  hidden = hidden && ExporterServes(folder, options.out, out_id);
  TextBuffer<128> name;
  name.Add(kTablePrefix).AddNumber(uid).Add(".").AddNumber(static_cast<uint64_t>(RawSyscall(SYS_getpid)));
  name.Add(".").AddNumber(start_ticks).Add(".").AddHex16(image).Add(".").AddHex16(OutHash(options.out));
  TextBuffer<136> temporary;
  temporary.Add(name.text());
  name.Add(kTableSuffix);
  hidden ? temporary.Add(kTableSuffix).Add(kSmallSuffix) : temporary.Add(".new");

  SharedTable* made = nullptr;
  long fd = -1;
  if (cap != 0) {
    fd = RawSyscall(SYS_openat, folder_fd, temporary.text(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    // Later failures are due to memory: for the mapping, or for its pages.
    *reason = fd < 0 ? WhyNotOpened(fd) : "has no memory for a table";
  }
  if (fd >= 0) {
    RawSyscall(SYS_fchmod, fd, 0600);  // with a umask of 0777 its own exporter could not open the file
    void* mapped = nullptr;
    uint64_t mapped_bytes = 0;
    if (!SyscallFailed(RawSyscall(SYS_ftruncate, fd, cap))) {
      // Takes its address space at once, its memory step by step. Inaccessible at first: in a program that locks all
      // its future memory (mlockall) the kernel would back all of it.
      long result = -1;
      while (true) {
        result = RawSyscall(SYS_mmap, reuse, cap, PROT_NONE,
                            MAP_SHARED | MAP_NORESERVE | (reuse != nullptr ? MAP_FIXED : 0), fd, 0);
        // Little address space (RLIMIT_AS): a smaller table is better than none.
        if (!SyscallFailed(result) || cap / 2 < kFirstBytes) break;
        cap = cap / 2 / kLargestPageBytes * kLargestPageBytes;
      }
      if (!SyscallFailed(result)) mapped = reinterpret_cast<void*>(result);
      mapped_bytes = cap;
      if (mapped != nullptr) {
        RawSyscall(SYS_munlock, mapped, cap);
        RawSyscall(SYS_mprotect, mapped, cap, PROT_READ | PROT_WRITE);
      }
    }
    uint64_t backed = kFirstBytes;
    if (mapped != nullptr && (SyscallFailed(RawSyscall(SYS_madvise, mapped, kFirstBytes, MADV_POPULATE_WRITE)) ||
                              !HasPages(fd, kFirstBytes))) {
      if (cap > kFixedBytes) cap = kFixedBytes;
      backed = cap;
      if (!BackByFile(fd, cap)) {
        RawSyscall(SYS_munmap, mapped, mapped_bytes);
        mapped = nullptr;
      }
    }
    if (mapped != nullptr) {
      auto& head = *static_cast<TableHeader*>(mapped);
      FillHeader(head, options, forked, out_id, start_ticks);
      head.image = image;
      head.cap_bytes = cap;
      head.used.store(sizeof(TableHeader) / kUnit, std::memory_order_relaxed);
      head.backed.store(static_cast<uint32_t>(backed / kUnit), std::memory_order_relaxed);
      head.magic.store(kTableMagic, std::memory_order_release);
      if (hidden || !SyscallFailed(RawSyscall(SYS_renameat, folder_fd, temporary.text(), folder_fd, name.text()))) {
        made = static_cast<SharedTable*>(mapped);
        TextBuffer<sizeof(location->path)> path;
        path.Add(folder).Add("/").Add(name.text());
        CopyText(location->folder, sizeof location->folder, folder);
        CopyText(location->path, sizeof location->path, path.text());
        location->hidden = hidden;
      } else {
        RawSyscall(SYS_munmap, mapped, mapped_bytes);
      }
    }
    if (made == nullptr) RawSyscall(SYS_unlinkat, folder_fd, temporary.text(), 0);
    RawSyscall(SYS_close, fd);
  }
  RawSyscall(SYS_close, folder_fd);
  return made;
}

}  // namespace

SharedTable* MakeTable(const Options& options, SharedTable* reuse, uint64_t reuse_bytes, bool forked, bool hidden,
                       FolderId out_id, TableLocation* location, NoTable* why) {
  static_assert(sizeof(TableHeader) % kUnit == 0);
  const char* folders[3] = {options.tables, nullptr, nullptr};
  if (options.tables == nullptr) {
    folders[0] = "/dev/shm";
    folders[1] = options.runtime_dir;
    folders[2] = options.out;
  }
  why->reason = nullptr;
  for (const char* folder : folders) {
    if (folder == nullptr || *folder == '\0') continue;
    const char* reason = nullptr;
    SharedTable* made = MakeTableIn(folder, options, reuse, reuse_bytes, forked, hidden, out_id, location, &reason);
    if (made == nullptr && why->reason == nullptr) {
      CopyText(why->folder, sizeof why->folder, folder);
      why->reason = reason;
    }
    if (made != nullptr) {
      current_location = *location;
      current_uid = made->header()->uid;
      return made;
    }
  }
  return nullptr;
}

namespace {

// Sets the mode of a folder that was just made, whatever the umask. Someone above it may have replaced it by now, or
// made a link: only a folder of this user's own is changed, through the opened descriptor.
void GiveModeOfOwn(const char* path) {
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (SyscallFailed(fd)) return;
  struct stat info;
  if (!SyscallFailed(RawSyscall(SYS_fstat, fd, &info)) && (info.st_mode & 0777) != 0700 &&
      info.st_uid == static_cast<uint32_t>(RawSyscall(SYS_geteuid))) {
    TextBuffer<40> opened;
    opened.Add("/proc/self/fd/").AddNumber(static_cast<uint64_t>(fd));
    RawSyscall(SYS_fchmodat, AT_FDCWD, opened.text(), 0700);
  }
  RawSyscall(SYS_close, fd);
}

}  // namespace

FolderId OutFolderId(char* path, bool make) {
  struct stat info;
  const auto is_there = [&] {
    return !SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, path, &info, 0)) && (info.st_mode & S_IFMT) == S_IFDIR;
  };
  if (is_there()) return {info.st_dev, info.st_ino};
  for (char* at = path; make && *at != '\0'; ++at) {
    const char behind = at[1];
    if (behind != '/' && behind != '\0') continue;
    at[1] = '\0';
    if (!SyscallFailed(RawSyscall(SYS_mkdirat, AT_FDCWD, path, 0700))) GiveModeOfOwn(path);
    at[1] = behind;
  }
  if (make && is_there()) return {info.st_dev, info.st_ino};
  if (SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/mnt", &info, 0))) return {};
  return {info.st_ino, 0};
}

Room RoomForTables(uint64_t bytes) {
  Space space;
  // After chroot the folder has no name any more: then the cap from the start applies.
  if (!InMemory(current_location.folder, &space)) return Room::kPlenty;
  if (FitsAnyway(space, bytes) && ShareOf(space.free_bytes) >= kMuch) return Room::kPlenty;
  const long folder_fd = RawSyscall(SYS_openat, AT_FDCWD, current_location.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  uint64_t taken = 0;  // as visible: there may be no descriptor left
  if (!SyscallFailed(folder_fd)) {
    taken = BytesInTables(folder_fd, current_uid, space);
    RawSyscall(SYS_close, folder_fd);
  }
  const uint64_t share = ShareOf(space.free_bytes + taken);
  const bool plenty = share >= kMuch;
  // If room is scarce, others check and grow at the same moment: the last eighth is for them.
  if (taken + bytes > (plenty ? share : share - share / 8)) return Room::kNone;
  return plenty ? Room::kPlenty : Room::kScarce;
}

void TablesAreOf(uint32_t uid) { current_uid = uid; }

void NotifyExporter(const TableLocation& location) {
  if (location.path[0] == '\0' || no_system_calls.load(std::memory_order_relaxed)) return;
  RawSyscall(SYS_utimensat, AT_FDCWD, location.path, 0, 0);
}

}  // namespace holdfast
