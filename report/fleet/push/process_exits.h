// Tells whether any of many processes has exited, with a single system call.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_PROCESS_EXITS_H_
#define HOLDFAST_REPORT_FLEET_PUSH_PROCESS_EXITS_H_

#include <sys/epoll.h>

#include "report/base/file_descriptor.h"

namespace holdfast {

class ProcessExits {
 public:
  ProcessExits() : all_(epoll_create1(EPOLL_CLOEXEC)) {}

  // Watches a process until its pidfd is closed.
  void Watch(const FileDescriptor& process) {
    epoll_event event = {.events = EPOLLIN, .data = {}};
    if (process.valid()) epoll_ctl(all_.get(), EPOLL_CTL_ADD, process.get(), &event);
  }
  bool Any() const {
    epoll_event event;
    return epoll_wait(all_.get(), &event, 1, 0) == 1;
  }

 private:
  FileDescriptor all_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_PROCESS_EXITS_H_
