// The program's words that the kernel keeps, and shows in /proc/PID: of epoll, the data of each watched descriptor; of
// POSIX timers, the value that is passed to the handler. Often these are the only pointers to a connection or a task.
//
// The kernel does not show those of io_uring, of asynchronous I/O and of pending signals.
#ifndef HOLDFAST_REPORT_HOLDERS_KERNEL_WORDS_H_
#define HOLDFAST_REPORT_HOLDERS_KERNEL_WORDS_H_

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace holdfast {

// Reads the words of a process. `thread`: one of its threads that has not ended. What the kernel does not show is left out.
std::vector<uint64_t> ReadKernelWords(pid_t pid, pid_t thread);

// Adds the words from the text of /proc/PID/fdinfo/FD of an epoll descriptor, and of /proc/PID/timers.
void AddEpollData(std::string_view text, std::vector<uint64_t>* words);
void AddTimerValues(std::string_view text, std::vector<uint64_t>* words);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_KERNEL_WORDS_H_
