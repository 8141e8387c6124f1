// Prints how each call that can block ends when a signal comes: with EINTR after the handler, or not at all. With CPU
// samples, the signal of the thread's timer is due at the same time, and comes first: the lines must not change.
//
//     ended_calls none|tick       each call three times; tick: with the timer's own signal queued while the call is stopped
//     ended_calls ROUNDS [CALL]   many times, with the signals that come by themselves; prints only what differs
//
// The parent stops its child in the call, queues the signals, and lets the child go on: so they are all pending when the
// kernel decides what happens to the call.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kTimersSignal = 32, kLarge = 1 << 20 };

// What both processes see.
static struct {
  atomic_int begun, ended;  // rounds
  atomic_int handled;       // signals of this round
  int result;               // 0, or the error
  int handled_in_call;
  int has_tick;
  siginfo_t tick;  // a signal of the child's timer
  int owned;       // a lock that the parent owns, with priority inheritance
  sem_t go, never;
} * shared;

static char folder[64], lock_path[96], fifo_path[4000], large[kLarge];
static int empty[2], full[2], pair[2], stuffed[2], timed[2], listener, events, queue, semaphores, locked[2], file;
static struct sockaddr_un crowded;
static socklen_t crowded_length = sizeof crowded;
static mqd_t messages = (mqd_t)-1;
static aio_context_t aio;
static pid_t parent, sleeper;
static sigset_t nothing;

static void OnSignal(int number) {
  (void)number;
  atomic_fetch_add(&shared->handled, 1);
}
static void OnRelease(int number) { (void)number; }

// ---- The calls ----

static long Read(void) { return read(empty[0], large, 1); }
static long ReadV(void) {
  struct iovec into = {large, 1};
  return readv(empty[0], &into, 1);
}
static long Write(void) { return write(full[1], large, sizeof large); }
static long OpenFifo(void) { return open(fifo_path, O_RDONLY); }
static long Connect(void) {
  const int client = socket(AF_UNIX, SOCK_STREAM, 0);
  const int result = connect(client, (struct sockaddr*)&crowded, crowded_length), error = errno;
  close(client);
  errno = error;
  return result;
}
static long Accept(void) { return accept(listener, NULL, NULL); }
static long Accept4(void) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC); }
static long Recv(void) { return recv(pair[0], large, 1, 0); }
static long RecvMsg(void) {
  struct iovec into = {large, 1};
  struct msghdr header = {.msg_iov = &into, .msg_iovlen = 1};
  return recvmsg(pair[0], &header, 0);
}
static long RecvTimed(void) { return recv(timed[0], large, 1, 0); }
static long Send(void) { return send(stuffed[0], large, sizeof large, 0); }
static long SendMsg(void) {
  struct iovec from = {large, sizeof large};
  struct msghdr header = {.msg_iov = &from, .msg_iovlen = 1};
  return sendmsg(stuffed[0], &header, 0);
}
static long Splice(void) { return splice(empty[0], NULL, full[1], NULL, 1, 0); }
static long Futex(void) {
  int word = 0;
  return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}
static long FutexTimed(void) {
  int word = 0;
  const struct timespec minute = {60, 0};
  return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &minute, NULL, 0);
}
static long FutexPi(void) {
  const long result = syscall(SYS_futex, &shared->owned, FUTEX_LOCK_PI, 0, NULL, NULL, 0), error = errno;
  if (result == 0) {
    syscall(SYS_futex, &shared->owned, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    shared->owned = parent;
  }
  errno = (int)error;
  return result;
}
static long SemWait(void) { return sem_wait(&shared->never); }
static long SemTimedWait(void) {
  struct timespec later;
  clock_gettime(CLOCK_REALTIME, &later);
  later.tv_sec += 60;
  return sem_timedwait(&shared->never, &later);
}
static long Wait4(void) { return wait4(sleeper, NULL, 0, NULL); }
static long WaitId(void) {
  siginfo_t info;
  return waitid(P_PID, (id_t)sleeper, &info, WEXITED);
}
static long Flock(void) { return flock(locked[1], LOCK_EX); }
static long SetLkw(void) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  return fcntl(file, F_SETLKW, &lock);
}
static long OfdSetLkw(void) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 1};
  return fcntl(locked[1], F_OFD_SETLKW, &lock);
}
static long MqReceive(void) { return mq_receive(messages, large, sizeof large, NULL); }
static long MsgRcv(void) {
  struct {
    long type;
    char text[8];
  } into;
  return msgrcv(queue, &into, sizeof into.text, 0, 0);
}
static long SemOp(void) {
  struct sembuf take = {0, -1, 0};
  return semop(semaphores, &take, 1);
}
static const struct timespec minute = {60, 0};
static long NanoSleep(void) { return nanosleep(&minute, NULL); }
static long ClockNanoSleep(void) {
  errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &minute, NULL);
  return errno == 0 ? 0 : -1;
}
static long Poll(void) {
  struct pollfd wanted = {empty[0], POLLIN, 0};
  return poll(&wanted, 1, -1);
}
static long Select(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(empty[0], &set);
  return select(empty[0] + 1, &set, NULL, NULL, NULL);
}
static long EpollWait(void) {
  struct epoll_event event;
  return epoll_wait(events, &event, 1, -1);
}
static long Pause(void) { return pause(); }
static long SigTimedWait(void) {
  sigset_t other;
  sigemptyset(&other);
  sigaddset(&other, SIGUSR2);
  return sigtimedwait(&other, NULL, &minute);
}
static long GetEvents(void) {
  struct io_event event;
  return syscall(SYS_io_getevents, aio, 1L, 1L, &event, NULL);
}
// With a mask of their own.
static long SigSuspend(void) { return sigsuspend(&nothing); }
static long PPoll(void) {
  struct pollfd wanted = {empty[0], POLLIN, 0};
  return ppoll(&wanted, 1, NULL, &nothing);
}
static long PSelect(void) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(empty[0], &set);
  return pselect(empty[0] + 1, &set, NULL, NULL, NULL, &nothing);
}
static long EpollPWait(void) {
  struct epoll_event event;
  return epoll_pwait(events, &event, 1, -1, &nothing);
}
static long RawSigSuspend(void) { return syscall(SYS_rt_sigsuspend, &nothing, 8L); }
static long RawPPoll(void) {
  struct pollfd wanted = {empty[0], POLLIN, 0};
  return syscall(SYS_ppoll, &wanted, 1L, NULL, &nothing, 8L);
}

enum How { kUsual, kStopped, kMasked };
static const struct {
  const char* name;
  long (*function)(void);
  enum How how;  // kStopped: a stop lets it go on, too. kMasked: the signal is blocked around the call
} calls[] = {
    {"read", Read, kStopped},
    {"readv", ReadV, kStopped},
    {"write", Write, kStopped},
    {"open", OpenFifo, kStopped},
    {"connect", Connect, kStopped},
    {"accept", Accept, kStopped},
    {"accept4", Accept4, kStopped},
    {"recv", Recv, kStopped},
    {"recvmsg", RecvMsg, kStopped},
    {"recv-timed", RecvTimed, kUsual},
    {"send", Send, kStopped},
    {"sendmsg", SendMsg, kStopped},
    {"splice", Splice, kStopped},
    {"futex", Futex, kStopped},
    {"futex-timed", FutexTimed, kUsual},
    {"futex-pi", FutexPi, kStopped},
    {"sem_wait", SemWait, kStopped},
    {"sem_timedwait", SemTimedWait, kUsual},
    {"wait4", Wait4, kStopped},
    {"waitid", WaitId, kStopped},
    {"flock", Flock, kStopped},
    {"fcntl", SetLkw, kStopped},
    {"fcntl-ofd", OfdSetLkw, kStopped},
    {"mq_receive", MqReceive, kStopped},
    {"msgrcv", MsgRcv, kUsual},
    {"semop", SemOp, kUsual},
    {"nanosleep", NanoSleep, kUsual},
    {"clock_nanosleep", ClockNanoSleep, kUsual},
    {"poll", Poll, kUsual},
    {"select", Select, kUsual},
    {"epoll_wait", EpollWait, kUsual},
    {"pause", Pause, kUsual},
    {"sigtimedwait", SigTimedWait, kUsual},
    {"io_getevents", GetEvents, kUsual},
    {"sigsuspend", SigSuspend, kMasked},
    {"ppoll", PPoll, kMasked},
    {"pselect", PSelect, kMasked},
    {"epoll_pwait", EpollPWait, kMasked},
    {"raw-sigsuspend", RawSigSuspend, kMasked},
    {"raw-ppoll", RawPPoll, kMasked},
};
enum { kCalls = sizeof calls / sizeof *calls };

// A handler without SA_RESTART, with it, or no signal at all.
enum Kind { kEnds, kRestarts, kNoSignal, kKinds };
static const char* const kinds[] = {"no SA_RESTART", "SA_RESTART", "no signal"};
// Only some calls go on by themselves after a stop.
static enum Kind KindOf(int call, int round) {
  const enum Kind kind = (enum Kind)(round % kKinds);
  return kind == kNoSignal && calls[call].how != kStopped ? kEnds : kind;
}

// ---- The child makes the calls ----

static void Fill(int descriptor) {
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  while (write(descriptor, large, sizeof large) > 0 || write(descriptor, large, 1) > 0) {
  }
  fcntl(descriptor, F_SETFL, 0);
}

static void Prepare(void) {
  pipe(empty);
  pipe(full);
  socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
  socketpair(AF_UNIX, SOCK_STREAM, 0, stuffed);
  socketpair(AF_UNIX, SOCK_STREAM, 0, timed);
  const struct timeval long_time = {60, 0};
  setsockopt(timed[0], SOL_SOCKET, SO_RCVTIMEO, &long_time, sizeof long_time);
  Fill(full[1]);
  Fill(stuffed[0]);
  listener = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un any = {.sun_family = AF_UNIX};
  bind(listener, (struct sockaddr*)&any, sizeof(sa_family_t));
  listen(listener, 1);
  // A socket with as many callers as may wait.
  const int busy = socket(AF_UNIX, SOCK_STREAM, 0);
  bind(busy, (struct sockaddr*)&any, sizeof(sa_family_t));
  listen(busy, 0);
  getsockname(busy, (struct sockaddr*)&crowded, &crowded_length);
  const int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  connect(caller, (struct sockaddr*)&crowded, crowded_length);
  events = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(events, EPOLL_CTL_ADD, empty[0], &event);
  queue = msgget(IPC_PRIVATE, 0600);
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 1};
  for (int i = 0; i < 2; ++i) locked[i] = open(lock_path, O_RDWR);
  flock(locked[0], LOCK_EX);
  fcntl(locked[0], F_OFD_SETLK, &lock);
  struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
  char name[32];
  snprintf(name, sizeof name, "/ended_calls.%d", (int)getpid());
  messages = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
  mq_unlink(name);
  syscall(SYS_io_setup, 1L, &aio);
  sleeper = fork();
  if (sleeper == 0) {
    for (;;) pause();
  }
}

static void Burn(double seconds) {
  struct timespec now;
  double end = 0, at;
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    at = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (end == 0) end = at + seconds;
  } while (at < end);
}

// Takes one signal of the timer.
static int TakeTick(void) {
  const unsigned long set = 1ul << (kTimersSignal - 1);
  const struct timespec none = {0, 0};
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, NULL, 8L);
  for (int i = 0; i < 20 && !shared->has_tick; ++i) {
    Burn(0.005);
    shared->has_tick = syscall(SYS_rt_sigtimedwait, &set, &shared->tick, &none, 8L) == kTimersSignal;
  }
  syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, 8L);
  return shared->has_tick;
}

static void MakeCalls(int first, int last, int rounds) {
  struct sigaction release = {.sa_handler = OnRelease};
  sigaction(SIGUSR1, &release, NULL);
  for (int call = first; call < last; ++call) {
    for (int round = 0; round < rounds; ++round) {
      const enum Kind kind = KindOf(call, round);
      struct sigaction action = {.sa_handler = OnSignal, .sa_flags = kind == kRestarts ? SA_RESTART : 0};
      sigaction(SIGALRM, &action, NULL);
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGALRM);
      if (calls[call].how == kMasked) sigprocmask(SIG_BLOCK, &set, NULL);
      while (sem_wait(&shared->go) != 0) {
      }
      atomic_store(&shared->handled, 0);
      atomic_fetch_add(&shared->begun, 1);
      const long result = calls[call].function();
      shared->result = result < 0 ? errno : 0;
      shared->handled_in_call = atomic_load(&shared->handled);
      sigprocmask(SIG_UNBLOCK, &set, NULL);
      atomic_fetch_add(&shared->ended, 1);
    }
  }
}

// ---- The parent sends the signals ----

static char StateOf(pid_t process) {
  char name[64], text[512];
  snprintf(name, sizeof name, "/proc/%d/stat", (int)process);
  const int descriptor = open(name, O_RDONLY);
  const ssize_t got = read(descriptor, text, sizeof text - 1);
  close(descriptor);
  text[got > 0 ? got : 0] = '\0';
  const char* const after = strrchr(text, ')');
  return after == NULL ? 'Z' : after[2];
}

// How a round ends: 0, an error, or kWaits if the call goes on until it is released.
enum { kWaits = -1 };
static int Round(pid_t child, int call, enum Kind kind, int number, int stops) {
  sem_post(&shared->go);
  while (atomic_load(&shared->begun) != number || StateOf(child) != 'S') sched_yield();
  int status;
  if (stops) {
    kill(child, SIGSTOP);
    waitpid(child, &status, WUNTRACED);
  }
  if (kind != kNoSignal) kill(child, SIGALRM);
  if (stops) {
    if (shared->has_tick) syscall(SYS_rt_tgsigqueueinfo, child, child, kTimersSignal, &shared->tick);
    kill(child, SIGCONT);
  }
  int waits = 0;
  while (atomic_load(&shared->ended) != number) {
    if (StateOf(child) != 'S' || atomic_load(&shared->ended) == number) {
      sched_yield();
      continue;
    }
    waits = 1;
    if (calls[call].function == FutexPi) {
      syscall(SYS_futex, &shared->owned, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
    } else {
      kill(child, SIGUSR1);
    }
  }
  return waits ? kWaits : shared->result;
}

// What happens without a profiler.
static int Expected(int call, enum Kind kind) {
  if (calls[call].function == FutexPi) return kWaits;
  return kind == kEnds || calls[call].how != kStopped ? EINTR : kWaits;
}

int main(int count, char** arguments) {
  const int is_sampled = count > 1 && atoi(arguments[1]) > 0, has_tick = count > 1 && strcmp(arguments[1], "tick") == 0;
  int first = 0, last = kCalls;
  const int rounds = is_sampled ? atoi(arguments[1]) : kKinds;
  for (int call = 0; count > 2 && call < kCalls; ++call) {
    if (strcmp(arguments[2], calls[call].name) == 0) first = call, last = call + 1;
  }
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  sem_init(&shared->go, 1, 0);
  sem_init(&shared->never, 1, 0);
  parent = getpid();
  shared->owned = parent;
  const char* const temporary = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.40s/ended_calls.XXXXXX", temporary != NULL ? temporary : "/tmp");
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(lock_path, sizeof lock_path, "%s/lock", folder);
  // A long way for the kernel: a timer is likely to expire in the call.
  strcpy(fifo_path, folder);
  while (strlen(fifo_path) < sizeof fifo_path - 20) strcat(fifo_path, "/.");
  strcat(fifo_path, "/fifo");
  mkfifo(fifo_path, 0600);
  file = open(lock_path, O_CREAT | O_RDWR, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
  fcntl(file, F_SETLK, &lock);
  const pid_t child = fork();
  if (child == 0) {
    Prepare();
    if (has_tick && !TakeTick()) puts("no timer has sent its signal");
    fflush(stdout);
    sem_post(&shared->never);
    MakeCalls(first, last, rounds);
    kill(sleeper, SIGKILL);
    msgctl(queue, IPC_RMID, NULL);
    semctl(semaphores, 0, IPC_RMID);
    Burn(0.02);
    _exit(0);
  }
  // Its preparations include waits, too.
  while (sem_wait(&shared->never) != 0) {
  }
  int number = 0, different = 0;
  for (int call = first; call < last; ++call) {
    for (int round = 0; round < rounds; ++round) {
      const enum Kind kind = KindOf(call, round);
      const int result = Round(child, call, kind, ++number, !is_sampled);
      const int expected = Expected(call, kind), handled = kind == kNoSignal ? 0 : 1;
      const int is_other = result != expected || shared->handled_in_call != handled;
      different += is_other;
      if (!is_sampled || is_other)
        printf("%s, %s: %s, %d handled\n", calls[call].name, kinds[kind],
               result == kWaits ? "waits on" : strerror(result), shared->handled_in_call);
    }
  }
  int status;
  waitpid(child, &status, 0);
  unlink(fifo_path);
  unlink(lock_path);
  rmdir(folder);
  if (is_sampled) printf("%d of %d differ\n", different, number);
  return different != 0 || status != 0;
}
