#include "report/observe/table/process_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

struct Request {
  pid_t pid;
  char name[60];
};

// The child that remains root, and the socket to it. The child ends when the socket is closed.
struct Reader {
  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  // Waits for the child: PID 1 would get an orphan, and in a container PID 1 may be the program itself.
  ~Reader() {
    if (child <= 0) return;
    close(socket);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  }

  int socket = -1;
  pid_t child = -1;
};

Reader& TheReader() {
  static Reader reader;
  return reader;
}

bool IsNumber(absl::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// The kernel checks the reader of "syscall" and "wchan", and the opener of every other file.
bool IsText(const std::string& name) { return name.ends_with("/syscall") || name.ends_with("/wchan") || name == "exe"; }

// Files that are empty in the folder of a main thread that has ended.
bool IsOfMemory(const std::string& name) {
  constexpr std::string_view kOfMemory[] = {"maps", "smaps", "pagemap", "mem", "auxv", "environ", "exe"};
  return std::find(std::begin(kOfMemory), std::end(kOfMemory), name) != std::end(kOfMemory);
}

bool IsAllowed(const std::string& name) {
  if (IsOfMemory(name)) return true;
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  return parts.size() == 3 && parts[0] == "task" && IsNumber(parts[1]) &&
         (parts[2] == "syscall" || parts[2] == "wchan");
}

std::string LinkAt(int folder, const char* name) {
  char path[PATH_MAX];
  const ssize_t length = readlinkat(folder, name, path, sizeof path);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "";
}

// Runs in the child, as root.
FileDescriptor OpenFor(uid_t user, const Request& request) {
  const std::string name(request.name, strnlen(request.name, sizeof request.name));
  // The open folder belongs to this process alone, and shows nothing of a later one with its pid.
  const FileDescriptor folder(open(absl::StrCat("/proc/", request.pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!IsAllowed(name) || !folder.valid() || UserOfProcess(request.pid) != user) return FileDescriptor();
  FileDescriptor file;
  if (name == "exe") {
    file = FileInMemory(LinkAt(folder.get(), "exe"));
  } else {
    file = FileDescriptor(openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.valid() && IsText(name)) file = FileInMemory(ReadWhole(file));
  }
  // The process may have executed a setuid program meanwhile.
  if (UserOfProcess(request.pid) != user) return FileDescriptor();
  return file;
}

void Answer(int socket, const FileDescriptor& file) {
  char byte = file.valid() ? 1 : 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (file.valid()) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = file.get();
    memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  sendmsg(socket, &message, MSG_NOSIGNAL);
}

[[noreturn]] void Serve(int socket, uid_t user) {
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) signal(number, SIG_IGN);
  for (int fd = 0; fd < socket; ++fd) close(fd);
  closefrom(socket + 1);
  Request request;
  while (recv(socket, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request))
    Answer(socket, OpenFor(user, request));
  _exit(0);
}

// Returns an invalid descriptor if there is no child, or if the child may not open the file.
FileDescriptor AskReader(pid_t pid, const std::string& name) {
  Request request{.pid = pid, .name = {}};
  const int socket = TheReader().socket;
  if (socket < 0 || name.size() >= sizeof request.name) return FileDescriptor();
  memcpy(request.name, name.data(), name.size());
  if (send(socket, &request, sizeof request, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof request))
    return FileDescriptor();
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return FileDescriptor();
  const cmsghdr* head = CMSG_FIRSTHDR(&message);
  if (head == nullptr || head->cmsg_type != SCM_RIGHTS) return FileDescriptor();
  int descriptor = -1;
  memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
  return FileDescriptor(descriptor);
}

}  // namespace

void KeepReaderAsRoot(uid_t user) {
  int ends[2];
  Reader& reader = TheReader();
  if (geteuid() != 0 || reader.socket >= 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Serve(ends[1], user);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
  } else {
    reader.socket = ends[0];
    reader.child = child;
  }
}

FileDescriptor OpenOfProcess(pid_t pid, const std::string& name) {
  if (IsOfMemory(name)) pid = ThreadWithMemory(pid);
  // "wchan" reads as 0 for those who may not read it.
  if (IsText(name)) {
    if (FileDescriptor file = AskReader(pid, name); file.valid()) return file;
  }
  FileDescriptor file(open(absl::StrCat("/proc/", pid, "/", name).c_str(), O_RDONLY | O_CLOEXEC));
  if (file.valid() || (errno != EACCES && errno != EPERM)) return file;
  const int error = errno;
  FileDescriptor asked = AskReader(pid, name);
  errno = error;
  return asked;
}

std::string ReadOfProcess(pid_t pid, const std::string& name, size_t most) {
  return ReadWhole(OpenOfProcess(pid, name), most);
}

std::string ExecutableOfProcess(pid_t pid) {
  pid = ThreadWithMemory(pid);
  const std::string path = LinkAt(AT_FDCWD, absl::StrCat("/proc/", pid, "/exe").c_str());
  return path.empty() ? ReadWhole(AskReader(pid, "exe"), PATH_MAX) : path;
}

std::string RootOfProcess(pid_t pid) { return absl::StrCat("/proc/", ThreadWithMemory(pid), "/root"); }

FileDescriptor FileInMemory(std::string_view bytes) {
  FileDescriptor file(memfd_create("holdfast", MFD_CLOEXEC));
  for (size_t at = 0; file.valid() && at < bytes.size();) {
    const ssize_t put = pwrite(file.get(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (put <= 0) return FileDescriptor();
    at += static_cast<size_t>(put);
  }
  return file;
}

}  // namespace holdfast
