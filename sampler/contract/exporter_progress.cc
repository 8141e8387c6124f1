#include "sampler/contract/exporter_progress.h"

#include <fcntl.h>

#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"

namespace holdfast {
namespace {

// Looks without a change after which the exporter counts as still, the first one not counted.
constexpr int kStoppedLooks = 2;   // T
constexpr int kAsleepLooks = 40;   // S: working or not, it wakes up every 100 ms. t: a tracer may let it go on
constexpr int kInDiskLooks = 100;  // D: one wait of half a second. Z: a thread ends later, or a child has the lock
constexpr int kNoBeatLooks = 60;   // unseen: 300 ms, 30 beats
constexpr int kFieldOfStart = 22, kFieldAfterName = 3;

uint64_t Hash(uint64_t hash, const char* text) {
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<uint8_t>(*text)) * 0x100000001b3;  // FNV-1a
  return hash;
}

uint64_t NumberAt(const char* text) {
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; ++text) number = number * 10 + static_cast<uint64_t>(*text - '0');
  return number;
}

// Returns the text after "4242 (name) " in /proc/PID/stat: a name may contain spaces and parentheses. Null: no such
// text.
const char* AfterName(const char* stat) {
  const char* last = nullptr;
  for (const char* at = stat; *at != '\0'; ++at) {
    if (*at == ')') last = at;
  }
  return last != nullptr && last[1] == ' ' ? last + 2 : nullptr;
}

bool IsCalledHoldfast(const char* stat) {
  while (*stat != '\0' && *stat != '(') ++stat;
  return TextStartsWith(stat, "(holdfast)");
}

long ReadOfProcess(uint64_t pid, const char* name, char* text, size_t capacity) {
  TextBuffer<64> path;
  path.Add("/proc/").AddNumber(pid).Add("/").Add(name);
  return ReadSmallFile(path.text(), text, capacity);
}

// Also true if the kernel does not list children.
bool MayHaveChildren(uint64_t pid) {
  TextBuffer<40> name;
  name.Add("task/").AddNumber(pid).Add("/children");
  char text[16];
  return ReadOfProcess(pid, name.text(), text, sizeof text) != 0;
}

ExporterRecord ReadRecord(const char* tables, const char* out, FolderId id) {
  ExporterRecord record;
  char path[kLongestLockPath];
  ExporterLockPath(tables, out, id, static_cast<uint32_t>(RawSyscall(SYS_geteuid)), path, sizeof path);
  const long fd = RawSyscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (SyscallFailed(fd)) return record;
  if (RawSyscall(SYS_read, fd, &record, sizeof record) != static_cast<long>(sizeof record)) record = {};
  RawSyscall(SYS_close, fd);
  return record;
}

}  // namespace

// `start_ticks` 0: not known; then the name has to be the exporter's.
bool ExporterProgress::LookInProc(uint64_t pid, uint64_t start_ticks, uint64_t* key) {
  char stat[512], times[96];
  if (pid == 0 || ReadOfProcess(pid, "stat", stat, sizeof stat) <= 0) return false;
  const char* field = AfterName(stat);
  if (field == nullptr) return false;
  const char state = *field;
  for (int i = kFieldAfterName; i < kFieldOfStart; ++i) {
    while (*field != ' ' && *field != '\0') ++field;
    if (*field == '\0') return false;
    ++field;
  }
  if (start_ticks != 0 ? NumberAt(field) != start_ticks : !IsCalledHoldfast(stat)) return false;
  pid_ = static_cast<int>(pid);
  state_ = state;
  const bool has_text = ReadOfProcess(pid, "schedstat", times, sizeof times) > 0;
  has_times_ = has_text && !TextStartsWith(times, "0 0 0");
  *key = Hash(Hash(0xcbf29ce484222325, stat), has_text ? times : "");
  return true;
}

bool ExporterProgress::IsStalled(const char* tables, const char* out, FolderId id, int32_t known_pid) {
  const ExporterRecord record = ReadRecord(tables, out, id);
  uint64_t key = 0;
  int enough = 0;
  pid_ = 0;
  state_ = '\0';
  if (LookInProc(record.pid, record.start_ticks, &key) ||
      (record.pid == 0 && known_pid > 0 && LookInProc(static_cast<uint64_t>(known_pid), 0, &key))) {
    switch (state_) {
      case 'T':
        enough = kStoppedLooks;
        break;
      case 't':
        enough = kAsleepLooks;
        break;
      case 'Z':
      case 'X':
        enough = kInDiskLooks;
        break;
      case 'S':
      case 'D':
        // A child may do the work.
        if (has_times_ && !MayHaveChildren(static_cast<uint64_t>(pid_)))
          enough = state_ == 'S' ? kAsleepLooks : kInDiskLooks;
        break;
      default:
        break;
    }
  } else if (record.beat != 0) {
    key = record.beat;
    enough = kNoBeatLooks;
  }
  same_looks_ = enough != 0 && key == key_ ? same_looks_ + 1 : 0;
  key_ = key;
  return enough != 0 && same_looks_ >= enough;
}

}  // namespace holdfast
