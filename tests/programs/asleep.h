// Tells whether a thread of this process sleeps, according to the kernel.
#ifndef HOLDFAST_TESTS_PROGRAMS_ASLEEP_H_
#define HOLDFAST_TESTS_PROGRAMS_ASLEEP_H_

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static inline int Sleeps(int thread) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  const int fd = open(path, O_RDONLY);
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* after_name = strrchr(text, ')');
  return after_name && after_name[2] == 'S';
}

#endif  // HOLDFAST_TESTS_PROGRAMS_ASLEEP_H_
