// Moves many bytes by one call and expects all of them, which every program may that has no signal handlers. For tests of attach.
//     large_moves write      a thread writes to a pipe; main waits in epoll_wait. At a line of input it moves the rest
//     large_moves send       a thread sends to a socket
//     large_moves receive    a thread receives with MSG_WAITALL
//     large_moves alone      the same as write, in a program of one thread. Its child reads the line
//     large_moves loop       one thread writes again and again, and says "20 writes" when it has. A child reads slowly
// Says "moved 1048576" at the end; after loop "short writes: 0".
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBytes = 1 << 20, kHalf = kBytes / 2, kReadAtOnce = 4096 };
static char bytes[kBytes];
static const char* what;
static int ends[2];  // the thread has the second one
static volatile long moved;

static void* Move(void* unused) {
  moved = strcmp(what, "send") == 0      ? send(ends[1], bytes, kBytes, 0)
          : strcmp(what, "receive") == 0 ? recv(ends[1], bytes, kBytes, MSG_WAITALL)
                                         : write(ends[1], bytes, kBytes);
  return unused;
}

// Moves this number of bytes at the other end.
static void MoveBack(long count) {
  static char others[kBytes];
  for (long left = count; left > 0;) {
    const long done =
        strcmp(what, "receive") == 0 ? write(ends[0], others, (size_t)left) : read(ends[0], others, (size_t)left);
    if (done <= 0) break;
    left -= done;
  }
}

static void AwaitLine(void) {
  char line[100];
  struct epoll_event event = {.events = EPOLLIN};
  const int events = epoll_create1(0);
  epoll_ctl(events, EPOLL_CTL_ADD, STDIN_FILENO, &event);
  while (epoll_wait(events, &event, 1, -1) != 1) continue;
  if (read(STDIN_FILENO, line, sizeof line) < 0) _exit(9);
}

static void AwaitBytes(int descriptor, int count) {
  for (int there = 0; there < count; usleep(1000)) {
    if (ioctl(descriptor, FIONREAD, &there) != 0) _exit(8);
  }
}

static int InAThread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, Move, NULL);
  if (strcmp(what, "receive") == 0) {
    MoveBack(kHalf);
    for (int there = 1; there != 0; usleep(1000)) ioctl(ends[1], FIONREAD, &there);
  } else {
    AwaitBytes(ends[0], kReadAtOnce);
  }
  puts("ready");
  AwaitLine();
  // If the thread has moved less, it takes no more.
  for (long left = kBytes; pthread_tryjoin_np(thread, NULL) != 0; usleep(100)) {
    int there = 0;
    if (strcmp(what, "receive") == 0) {
      MoveBack(left == kBytes ? kHalf : 0);
      left = 0;
    } else if (ioctl(ends[0], FIONREAD, &there) == 0) {
      MoveBack(there);
    }
  }
  printf("moved %ld\n", moved);
  return 0;
}

static int Alone(void) {
  const pid_t child = fork();
  if (child == 0) {
    AwaitBytes(ends[0], kReadAtOnce);
    puts("ready");
    AwaitLine();
    for (;;) MoveBack(kBytes);
  }
  Move(NULL);
  printf("moved %ld\n", moved);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  return 0;
}

static int Loop(void) {
  const pid_t child = fork();
  if (child == 0) {
    char line[100];
    while (read(STDIN_FILENO, line, sizeof line) < 0) continue;
    _exit(0);
  }
  const pid_t reader = fork();
  if (reader == 0) {
    for (;; usleep(100)) MoveBack(kReadAtOnce);
  }
  puts("ready");
  int too_short = 0;
  for (int writes = 1; waitpid(child, NULL, WNOHANG) == 0; ++writes) {
    if (write(ends[1], bytes, kBytes) != kBytes) ++too_short;
    if (writes == 20) puts("20 writes");
  }
  printf("short writes: %d\n", too_short);
  kill(reader, SIGKILL);
  waitpid(reader, NULL, 0);
  return 0;
}

int main(int count, char** arguments) {
  what = count > 1 ? arguments[1] : "";
  setvbuf(stdout, NULL, _IOLBF, 0);
  const int is_socket = strcmp(what, "send") == 0 || strcmp(what, "receive") == 0;
  if ((is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) != 0) return 7;
  return strcmp(what, "alone") == 0 ? Alone() : strcmp(what, "loop") == 0 ? Loop() : InAThread();
}
