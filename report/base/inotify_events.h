// Takes the events that wait in an inotify descriptor, which must not block:
//     ForEachEvent(events.get(), [&](const inotify_event& event) { ... });
#ifndef HOLDFAST_REPORT_BASE_INOTIFY_EVENTS_H_
#define HOLDFAST_REPORT_BASE_INOTIFY_EVENTS_H_

#include <sys/inotify.h>
#include <unistd.h>

#include <climits>
#include <cstddef>

namespace holdfast {

// Calls the function for each event. One system call, unless there are hundreds of events.
template <typename Function>
void ForEachEvent(int inotify, Function function) {
  constexpr size_t kLargest = sizeof(inotify_event) + NAME_MAX + 1;
  alignas(inotify_event) char buffer[16 << 10];
  size_t bytes = sizeof buffer;
  // The kernel leaves an event only if there is no room for it.
  while (bytes + kLargest > sizeof buffer) {
    const ssize_t got = read(inotify, buffer, sizeof buffer);
    if (got <= 0) return;
    bytes = static_cast<size_t>(got);
    for (size_t at = 0; at < bytes;) {
      const auto& event = *reinterpret_cast<const inotify_event*>(buffer + at);
      at += sizeof(inotify_event) + event.len;
      function(event);
    }
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_INOTIFY_EVENTS_H_
