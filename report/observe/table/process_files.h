// Opens files in /proc/PID. These include files that the kernel shows only to root after a program has given up root's
// rights or has forbidden others to inspect it.
//
// A command run by root takes on the rights of the program's user before it reads anything that the program wrote
// (BecomeUserOf). A child remains root. It opens the files below and nothing else, and only for processes that have
// permanently become that user.
//
//     command, user 33  ──"4711 smaps"──►  child, root: opens /proc/4711/smaps, checks the owner again
//                       ◄──descriptor────
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_PROCESS_FILES_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_PROCESS_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Starts the child. Called once, as root, before this process takes on the rights of `user`. The child ends with this process.
void KeepReaderAsRoot(uid_t user);

// Opens a file for reading. `name`: "maps", "task/4712/syscall" … Returns an invalid descriptor and sets errno if the
// file is missing or may not be read. After the main thread ended by pthread_exit, files of the memory are those that
// another thread shows.
FileDescriptor OpenOfProcess(pid_t pid, const std::string& name);
// Reads at most `most` bytes; "" if the file cannot be read.
std::string ReadOfProcess(pid_t pid, const std::string& name, size_t most = SIZE_MAX);
// The target of /proc/PID/exe; "" if the kernel does not show it.
std::string ExecutableOfProcess(pid_t pid);
// "/proc/4242/root", or that of another thread if the main thread has ended.
std::string RootOfProcess(pid_t pid);

// Puts the bytes into a file in memory (memfd_create). Invalid if that fails.
FileDescriptor FileInMemory(std::string_view bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_PROCESS_FILES_H_
