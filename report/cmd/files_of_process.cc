#include "report/cmd/files_of_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/builder/output_folder.h"
#include "report/daemon/find_tables.h"
#include "report/daemon/installation.h"
#include "report/observe/table/thread_status.h"

extern char** environ;

namespace holdfast {
namespace {

constinit bool labels_blocks = false;

struct DumpOutput {
  int status = 0;
  std::string out, err;
};

absl::StatusOr<DumpOutput> RunDump(pid_t pid) {
  const absl::StatusOr<std::string> tool = OwnPath();
  if (!tool.ok()) return tool.status();
  const std::string number = fmt::format("{}", pid);
  const char* const arguments[] = {tool->c_str(), "dump", number.c_str(), labels_blocks ? "--holders" : nullptr,
                                   nullptr};
  int ends[2][2];
  if (pipe2(ends[0], O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  FileDescriptor out(ends[0][0]), out_end(ends[0][1]);
  if (pipe2(ends[1], O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
  FileDescriptor err(ends[1][0]), err_end(ends[1][1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_end.get(), STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawn(&child, tool->c_str(), &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return absl::ErrnoToStatus(error, "holdfast dump");
  out_end.Close();
  err_end.Close();
  DumpOutput said;
  std::array<pollfd, 2> entries = {pollfd{out.get(), POLLIN, 0}, pollfd{err.get(), POLLIN, 0}};
  while (entries[0].fd >= 0 || entries[1].fd >= 0) {
    if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) break;
    for (size_t i = 0; i < entries.size(); ++i) {
      char buffer[4096];
      if (entries[i].fd < 0 || entries[i].revents == 0) continue;
      const ssize_t got = read(entries[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        (i == 0 ? said.out : said.err).append(buffer, static_cast<size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        entries[i].fd = -1;
      }
    }
  }
  while (waitpid(child, &said.status, 0) < 0 && errno == EINTR) {
  }
  return said;
}

// Returns the message without the program's name: "process 4242: is not profiled …".
std::string FirstMessage(std::string_view text) {
  constexpr std::string_view kName = "holdfast: ";
  text = text.substr(0, text.find('\n'));
  if (text.starts_with(kName)) text.remove_prefix(kName.size());
  return std::string(text);
}

// Returns the first path that dump printed, one a line. Folders may have a newline in their name.
std::string FirstFile(const std::string& text) {
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', end + 1)) {
    const std::filesystem::path path(text.substr(0, end));
    struct stat info;
    if (ParseProfileName(path.filename().string()).has_value() && stat(path.c_str(), &info) == 0 &&
        S_ISREG(info.st_mode))
      return path.string();
  }
  return text.substr(0, text.find('\n'));
}

// Returns the wall-clock start time of the process in ns. Older files belong to an earlier process with the same pid.
int64_t BeganNs(pid_t pid) {
  const std::optional<int64_t> began = ThreadBegan(pid, pid);
  return began.has_value() ? NowNs(CLOCK_REALTIME) - (NowNs() - *began) : 0;
}

}  // namespace

void LabelBlocksInSnapshots() { labels_blocks = true; }

absl::StatusOr<std::vector<std::string>> SnapshotAndFilesOf(pid_t pid) {
  static auto& known = *new std::map<pid_t, std::string>;  // pid → one of its files
  const auto [place, is_new] = known.try_emplace(pid);
  if (is_new) {
    const absl::StatusOr<DumpOutput> said = RunDump(pid);
    if (!said.ok()) return said.status();
    place->second = FirstFile(said->out);
    if (place->second.empty()) {
      known.erase(place);
      return absl::NotFoundError(FirstMessage(said->err));
    }
    if (const std::string note = DetachedNote(pid, {}); !note.empty()) Say(note);
  }
  const std::filesystem::path file(place->second);
  const auto name = ParseProfileName(file.filename().string());
  if (!name.has_value())
    return absl::NotFoundError(fmt::format("{}: not a profile written by holdfast", place->second));
  const int64_t began_ns = BeganNs(pid);
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(file.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const auto other = ParseProfileName(entry->path().filename().string());
    struct stat info;
    if (!other.has_value() || other->program != name->program || other->pid != name->pid) continue;
    if (stat(entry->path().c_str(), &info) != 0) continue;
    if (info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec < began_ns - kSecond) continue;
    files.push_back(entry->path().string());
  }
  return files;
}

}  // namespace holdfast
