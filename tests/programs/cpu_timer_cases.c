// Programs that a signal in the wrong place breaks: each case burns CPU time, so that a CPU timer fires in the middle,
// and compares every result with what POSIX says without signals. Prints what differs; exit status 1 if anything does.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static atomic_int wrong;
#define EXPECT(condition)                                                  \
  do {                                                                     \
    if (!(condition)) {                                                    \
      const int error = errno;                                             \
      printf("line %d: %s (%s)\n", __LINE__, #condition, strerror(error)); \
      atomic_store(&wrong, 1);                                             \
    }                                                                      \
  } while (0)

static double CpuSeconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

__attribute__((noinline)) void BurnCpu(double seconds) {
  static volatile unsigned sink;
  const double end = CpuSeconds() + seconds;
  do {
    for (unsigned i = 0; i < 2000; ++i) sink += i * i;
  } while (CpuSeconds() < end);
}

static pthread_t Start(void* (*function)(void*), void* argument) {
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, function, argument) == 0);
  return thread;
}

// ---- Calls that a signal interrupts, or cuts short ----

enum { kLarge = 1 << 20 };
static int pipes[2], sockets[2], wake[2];

static void* Drain(void* unused) {
  (void)unused;
  static char buffer[kLarge];
  while (read(pipes[0], buffer, sizeof buffer) > 0) BurnCpu(0.0005);
  return NULL;
}
static void* Echo(void* unused) {
  (void)unused;
  char byte;
  while (read(wake[0], &byte, 1) == 1) {
    BurnCpu(0.002);
    EXPECT(send(sockets[1], "x", 1, 0) == 1);
  }
  return NULL;
}

static void Calls(double seconds) {
  static char buffer[kLarge];
  EXPECT(pipe(pipes) == 0 && pipe(wake) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pthread_t drain = Start(Drain, NULL), echo = Start(Echo, NULL);
  const int zero = open("/dev/zero", O_RDONLY), events = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  EXPECT(epoll_ctl(events, EPOLL_CTL_ADD, sockets[0], &event) == 0);
  sem_t never;
  sem_init(&never, 0, 0);
  int word = 0;
  for (int round = 0; CpuSeconds() < seconds; ++round) {
    char byte;
    EXPECT(read(zero, buffer, sizeof buffer) == sizeof buffer);
    EXPECT(getrandom(buffer, sizeof buffer, 0) == sizeof buffer);
    EXPECT(write(pipes[1], buffer, sizeof buffer) == sizeof buffer);
    EXPECT(write(wake[1], "x", 1) == 1);
    struct pollfd ready = {.fd = sockets[0], .events = POLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(sockets[0], &set);
    sigset_t all;
    memset(&all, 0xff, sizeof all);
    switch (round % 5) {
      case 0:
        EXPECT(poll(&ready, 1, 60000) == 1);
        break;
      case 1:
        EXPECT(ppoll(&ready, 1, NULL, &all) == 1);
        break;
      case 2:
        EXPECT(select(sockets[0] + 1, &set, NULL, NULL, NULL) == 1);
        break;
      case 3:
        EXPECT(epoll_wait(events, &event, 1, 60000) == 1);
        break;
      case 4:
        EXPECT(epoll_pwait(events, &event, 1, 60000, &all) == 1);
        break;
    }
    EXPECT(recv(sockets[0], &byte, 1, 0) == 1);
    struct timespec left = {0, 0};
    const struct timespec little = {0, 200000};
    EXPECT(nanosleep(&little, &left) == 0);
    EXPECT(clock_nanosleep(CLOCK_MONOTONIC, 0, &little, NULL) == 0);
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    EXPECT(sem_timedwait(&never, &soon) == -1 && errno == ETIMEDOUT);
    EXPECT(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &little, NULL, 0) == -1 && errno == ETIMEDOUT);
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGUSR2);
    EXPECT(sigtimedwait(&none, NULL, &little) == -1 && errno == EAGAIN);
    BurnCpu(0.001);
  }
  close(pipes[1]);
  close(wake[1]);
  pthread_join(drain, NULL);
  pthread_join(echo, NULL);
}

// ---- Threads that block signals, or wait for them ----

static void* BlocksAll(void* raw) {
  sigset_t all;
  memset(&all, 0xff, sizeof all);
  if (raw != NULL) {
    EXPECT(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8) == 0);
  } else {
    EXPECT(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
  }
  BurnCpu(0.1);
  return NULL;
}

static void* Waits(void* unused) {
  (void)unused;
  sigset_t set;
  sigfillset(&set);
  int taken = 0, number = 0;
  EXPECT(sigwait(&set, &number) == 0 && number == SIGRTMIN + 5);
  for (taken = 1; taken < 40; ++taken) {
    BurnCpu(0.002);
    siginfo_t info;
    EXPECT(sigwaitinfo(&set, &info) == SIGRTMIN + 5);
  }
  return NULL;
}

static void Masks(double seconds) {
  (void)seconds;
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 5);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  const pthread_t waits = Start(Waits, NULL);
  for (int i = 0; i < 40; ++i) {
    EXPECT(pthread_sigqueue(waits, SIGRTMIN + 5, (union sigval){0}) == 0);
    BurnCpu(0.001);
  }
  pthread_join(waits, NULL);
  pthread_join(Start(BlocksAll, NULL), NULL);
  pthread_join(Start(BlocksAll, &set), NULL);
  sigset_t all;
  memset(&all, 0xff, sizeof all);
  const int descriptor = signalfd(-1, &all, SFD_NONBLOCK);
  BurnCpu(0.05);
  struct signalfd_siginfo read_info;
  EXPECT(read(descriptor, &read_info, sizeof read_info) == -1 && errno == EAGAIN);
  raise(SIGUSR1);
  EXPECT(read(descriptor, &read_info, sizeof read_info) == sizeof read_info && read_info.ssi_signo == SIGUSR1);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  EXPECT(sigismember(&before, SIGUSR1) == 1 && sigismember(&before, SIGUSR2) == 0);
}

// ---- pthread_cancel: the timers use its signal ----

static atomic_int cleaned;
static void Clean(void* unused) {
  (void)unused;
  sigset_t mask;
  EXPECT(syscall(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &mask, 8) == 0);
  EXPECT(sigismember(&mask, SIGUSR1) == 0 && sigismember(&mask, SIGTERM) == 0);
  BurnCpu(0.02);
  atomic_fetch_add(&cleaned, 1);
}
static void* Asynchronous(void* unused) {
  (void)unused;
  pthread_cleanup_push(Clean, NULL);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (;;) BurnCpu(1);
  pthread_cleanup_pop(0);
  return NULL;
}
static void* Deferred(void* unused) {
  (void)unused;
  pthread_cleanup_push(Clean, NULL);
  for (;;) {
    BurnCpu(0.001);
    pthread_testcancel();
  }
  pthread_cleanup_pop(0);
  return NULL;
}
static void* Blocked(void* unused) {
  (void)unused;
  pthread_cleanup_push(Clean, NULL);
  BurnCpu(0.01);
  for (;;) pause();
  pthread_cleanup_pop(0);
  return NULL;
}

static void Cancel(double seconds) {
  (void)seconds;
  BurnCpu(0.02);
  for (int i = 0; i < 5; ++i) {
    void* (*const kinds[])(void*) = {Asynchronous, Deferred, Blocked};
    for (int k = 0; k < 3; ++k) {
      const pthread_t thread = Start(kinds[k], NULL);
      BurnCpu(0.02);
      EXPECT(pthread_cancel(thread) == 0);
      void* result = NULL;
      EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
  }
  EXPECT(atomic_load(&cleaned) == 15);
  BurnCpu(0.1);
}

// ---- Processes ----

static void Processes(double seconds) {
  (void)seconds;
  for (volatile int i = 0; i < 5; ++i) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      BurnCpu(0.03);
      _exit(7);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    child = vfork();
    if (child == 0) {
      execl("/proc/self/exe", "cpu_timer_cases", "burn", NULL);
      _exit(1);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char* arguments[] = {"cpu_timer_cases", "burn", NULL};
    extern char** environ;
    EXPECT(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
    BurnCpu(0.01);
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      BurnCpu(0.03);
      syscall(SYS_exit_group, 8);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 8);
  }
  EXPECT(setuid(getuid()) == 0);
  BurnCpu(0.05);
}

// ---- Small alternate stacks ----

static atomic_int handled;
static sigjmp_buf back;
static char* top;
static size_t frame_bytes;
static void OnMeasure(int number) {
  (void)number;
  frame_bytes = (size_t)(top - (char*)__builtin_frame_address(0));
}
static void OnUser(int number) {
  (void)number;
  BurnCpu(0.004);
  atomic_fetch_add(&handled, 1);
}
static void OnFault(int number) {
  (void)number;
  BurnCpu(0.004);
  siglongjmp(back, 1);
}

static void AlternateStacks(double seconds) {
  (void)seconds;
  // The kernel's frame has the processor's registers.
  enum { kRegion = 65536 };
  char* const region = aligned_alloc(4096, kRegion);
  stack_t stack = {.ss_sp = region, .ss_size = kRegion};
  top = region + kRegion;
  struct sigaction measure = {.sa_handler = OnMeasure, .sa_flags = SA_ONSTACK};
  EXPECT(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &measure, NULL) == 0);
  raise(SIGUSR1);
  // 2 KiB, or as much as that needs, and a little for the handler: not enough for two signals.
  const size_t bytes = frame_bytes + 768 > 2048 ? frame_bytes + 768 : 2048;
  memset(region, 0x5a, kRegion);
  stack.ss_sp = region + kRegion - bytes;
  stack.ss_size = bytes;
  EXPECT(sigaltstack(&stack, NULL) == 0);
  struct sigaction action = {.sa_handler = OnUser, .sa_flags = SA_ONSTACK}, seen;
  sigaddset(&action.sa_mask, SIGHUP);
  EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
  EXPECT(sigaction(SIGUSR1, NULL, &seen) == 0 && seen.sa_handler == OnUser);
  EXPECT(memcmp(&seen.sa_mask, &action.sa_mask, 8) == 0);
  action.sa_handler = OnFault;
  EXPECT(sigaction(SIGSEGV, &action, NULL) == 0);
  char* const page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 60; ++i) {
    raise(SIGUSR1);
    if (sigsetjmp(back, 1) == 0) {
      *(volatile char*)page = 1;
      EXPECT(0);
    }
    BurnCpu(0.002);
  }
  EXPECT(atomic_load(&handled) == 60);
  size_t same = 0;  // bytes below the stack that nobody has written
  while (same < kRegion - bytes && region[same] == 0x5a) ++same;
  EXPECT(same == kRegion - bytes);
  stack.ss_sp = region;
  stack.ss_size = kRegion;
  EXPECT(sigaltstack(&stack, NULL) == 0);
  for (volatile int i = 0; i < 20; ++i) {
    raise(SIGUSR1);
    if (sigsetjmp(back, 1) == 0) *(volatile char*)page = 1;
  }
  BurnCpu(0.05);
}

// Jumps out of a handler without the signal mask; the thread allows the signal itself, and can still be cancelled.
static void OnFaultAtOnce(int number) {
  (void)number;
  siglongjmp(back, 1);
}
static int never[2];
static atomic_int reads;
#define SS_AUTODISARM_FLAG ((int)(1U << 31))
static int stack_flags;
static void* JumpsAndReads(void* page) {
  const stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536, .ss_flags = stack_flags};
  EXPECT(sigaltstack(&stack, NULL) == 0);
  for (volatile int i = 0; i < 3; ++i) {
    if (sigsetjmp(back, 0) == 0) *(volatile char*)page = 1;
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    pthread_sigmask(SIG_UNBLOCK, &fault, NULL);
    BurnCpu(0.03);
  }
  atomic_store(&reads, 1);
  char byte;
  return read(never[0], &byte, 1) < 0 ? page : NULL;
}

static void Jumps(double seconds) {
  (void)seconds;
  struct sigaction action = {.sa_handler = OnFaultAtOnce, .sa_flags = SA_ONSTACK};
  EXPECT(pipe(never) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
  char* const page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const pthread_t thread = Start(JumpsAndReads, page);
  while (atomic_load(&reads) == 0) usleep(1000);
  usleep(20000);
  EXPECT(pthread_cancel(thread) == 0);
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 10;
  void* result = NULL;
  EXPECT(pthread_timedjoin_np(thread, &result, &end) == 0);
  EXPECT(result == PTHREAD_CANCELED);
}

// The same with a stack that disarms itself: after the first jump the thread has none.
static void JumpsOffDisarmed(double seconds) {
  stack_flags = SS_AUTODISARM_FLAG;
  Jumps(seconds);
}

// A handler that jumps within itself, and then needs its alternate stack nearly to the end: no second signal fits there.
static char* stack_end;  // the lowest address
static jmp_buf inside;
__attribute__((noinline)) static void UseAllButLittle(size_t little) {
  volatile char used[(char*)__builtin_frame_address(0) - stack_end - little];
  used[0] = 1;
  BurnCpu(0.1);
  used[1] = used[0];
}
static void OnUserWithin(int number) {
  (void)number;
  if (setjmp(inside) == 0) longjmp(inside, 1);
  UseAllButLittle(frame_bytes - 256);
}
static void JumpsWithin(double seconds) {
  (void)seconds;
  enum { kStack = 16384 };
  char* const guarded = mmap(NULL, 2 * kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_end = guarded + kStack;
  EXPECT(mprotect(stack_end, kStack, PROT_READ | PROT_WRITE) == 0);
  top = stack_end + kStack;
  for (int disarms = 0; disarms < 2; ++disarms) {
    const stack_t stack = {.ss_sp = stack_end, .ss_size = kStack, .ss_flags = disarms ? SS_AUTODISARM_FLAG : 0};
    struct sigaction measure = {.sa_handler = OnMeasure, .sa_flags = SA_ONSTACK};
    EXPECT(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &measure, NULL) == 0);
    BurnCpu(0.001);  // what it calls is bound now
    raise(SIGUSR1);
    if (setjmp(inside) == 0) longjmp(inside, 1);
    struct sigaction action = {.sa_handler = OnUserWithin, .sa_flags = SA_ONSTACK};
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
  }
  BurnCpu(0.05);  // outside of handlers, for the profile
}

// ---- Coroutines ----

enum { kCoroutines = 8, kCoroutineStack = 16384 };
static ucontext_t here, coroutines[kCoroutines];
static int turns[kCoroutines];
static void Coroutine(int number) {
  for (; turns[number] < 20; ++turns[number]) {
    BurnCpu(0.001);
    free(malloc(100000));
    swapcontext(&coroutines[number], &here);
  }
}
static void Coroutines(double seconds) {
  (void)seconds;
  for (int i = 0; i < kCoroutines; ++i) {
    getcontext(&coroutines[i]);
    coroutines[i].uc_stack.ss_sp = malloc(kCoroutineStack);
    coroutines[i].uc_stack.ss_size = kCoroutineStack;
    coroutines[i].uc_link = &here;
    makecontext(&coroutines[i], (void (*)(void))Coroutine, 1, i);
  }
  for (int turn = 0; turn < 21; ++turn) {
    for (int i = 0; i < kCoroutines; ++i) {
      if (turns[i] < 20) EXPECT(swapcontext(&here, &coroutines[i]) == 0);
    }
  }
  for (int i = 0; i < kCoroutines; ++i) EXPECT(turns[i] == 20);
}

// ---- The program's own timers ----

static atomic_int profs, alarms, called;
static void OnProf(int number, siginfo_t* info, void* context) {
  (void)info;
  (void)context;
  atomic_fetch_add(number == SIGPROF ? &profs : &alarms, 1);
}
static void Called(union sigval value) { atomic_fetch_add(&called, value.sival_int == 42); }
static void Timers(double seconds) {
  (void)seconds;
  BurnCpu(0.1);  // with a timer of its own, a program takes no samples
  struct sigaction action = {.sa_sigaction = OnProf, .sa_flags = SA_SIGINFO | SA_RESTART};
  EXPECT(sigaction(SIGPROF, &action, NULL) == 0 && sigaction(SIGRTMIN + 3, &action, NULL) == 0);
  const struct itimerval every = {{0, 5000}, {0, 5000}};
  EXPECT(setitimer(ITIMER_PROF, &every, NULL) == 0);
  timer_t cpu, real;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3};
  EXPECT(timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &cpu) == 0);
  struct sigevent call = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = Called};
  call.sigev_value.sival_int = 42;
  EXPECT(timer_create(CLOCK_MONOTONIC, &call, &real) == 0);
  const struct itimerspec often = {{0, 5000000}, {0, 5000000}};
  EXPECT(timer_settime(cpu, 0, &often, NULL) == 0 && timer_settime(real, 0, &often, NULL) == 0);
  while (atomic_load(&profs) < 10 || atomic_load(&alarms) < 10 || atomic_load(&called) < 10) BurnCpu(0.01);
  EXPECT(timer_delete(cpu) == 0 && timer_delete(real) == 0);
}

// A profiler of the program's own (gprof): its signals reach threads that compute, and main sleeps its whole time.
static atomic_int may_end;
static void* ComputesUntilTold(void* unused) {
  free(malloc(1 << 20));
  while (!atomic_load(&may_end)) BurnCpu(0.01);
  return unused;
}
static void Profiler(double seconds) {
  (void)seconds;
  struct sigaction action = {.sa_sigaction = OnProf, .sa_flags = SA_SIGINFO | SA_RESTART};
  EXPECT(sigaction(SIGPROF, &action, NULL) == 0);
  const struct itimerval every = {{0, 5000}, {0, 5000}}, none = {{0, 0}, {0, 0}};
  EXPECT(setitimer(ITIMER_PROF, &every, NULL) == 0);
  const pthread_t computes = Start(ComputesUntilTold, NULL);
  while (atomic_load(&profs) < 50 && !atomic_load(&wrong)) {
    const struct timespec while_it_computes = {0, 50000000};
    EXPECT(nanosleep(&while_it_computes, NULL) == 0);
  }
  EXPECT(setitimer(ITIMER_PROF, &none, NULL) == 0);
  atomic_store(&may_end, 1);
  EXPECT(pthread_join(computes, NULL) == 0);
}

// The same by timers of timer_create, on the CPU clock of the process and on that of the thread that computes.
static clockid_t clock_of_computing;
static void* ComputesByItsClock(void* unused) {
  EXPECT(pthread_getcpuclockid(pthread_self(), &clock_of_computing) == 0);
  while (!atomic_load(&may_end)) {
    BurnCpu(0.01);
    free(malloc(1 << 20));
  }
  return unused;
}
static void PosixProfiler(double seconds) {
  (void)seconds;
  struct sigaction action = {.sa_sigaction = OnProf, .sa_flags = SA_SIGINFO | SA_RESTART};
  EXPECT(sigaction(SIGALRM, &action, NULL) == 0);
  const pthread_t computes = Start(ComputesByItsClock, NULL);
  const struct timespec while_it_computes = {0, 50000000};
  EXPECT(nanosleep(&while_it_computes, NULL) == 0);
  clockid_t of_process;
  EXPECT(clock_getcpuclockid(0, &of_process) == 0);
  const clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, of_process, clock_of_computing};
  for (int i = 0; i < 3; ++i) {
    timer_t timer;
    EXPECT(timer_create(clocks[i], NULL, &timer) == 0);
    const struct itimerspec every = {{0, 5000000}, {0, 5000000}};
    EXPECT(timer_settime(timer, 0, &every, NULL) == 0);
    while (atomic_load(&alarms) < 30 * (i + 1) && !atomic_load(&wrong))
      EXPECT(nanosleep(&while_it_computes, NULL) == 0);
    EXPECT(timer_delete(timer) == 0);
  }
  puts("deleted");
  fflush(stdout);
  if (seconds > 0) {
    getchar();
    BurnCpu(seconds);
    free(malloc(1 << 20));
  }
  atomic_store(&may_end, 1);
  EXPECT(pthread_join(computes, NULL) == 0);
}

static atomic_int ended;
static void* Allocates(void* unused) {
  while (!atomic_load(&ended)) {
    const struct timespec little = {0, 100000};
    free(malloc(100000));
    nanosleep(&little, NULL);
  }
  return unused;
}

// ---- A handler on an alternate stack that executes another program ----

static void Executes(int number) {
  (void)number;
  execl("/proc/self/exe", "cpu_timer_cases", "executed", NULL);
  EXPECT(0);
}
static void ExecutesInHandler(double seconds) {
  BurnCpu(seconds);
  static char stack[1 << 16];
  const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = Executes, .sa_flags = SA_ONSTACK};
  EXPECT(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  raise(SIGUSR1);
}
// The signal mask is that of a program that was started by its parent, but for the handler's own signal.
static void Executed(double seconds) {
  (void)seconds;
  char line[200];
  FILE* const status = fopen("/proc/self/status", "r");
  unsigned long long blocked = 0;
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "SigBlk: %llx", &blocked);
  fclose(status);
  EXPECT(blocked == 1ULL << (SIGUSR1 - 1));
  BurnCpu(0.2);
}

// ---- Threads with little stack ----

static atomic_int has_begun;
static void* FillsItsStack(void* unused) {
  char filled[10000];
  memset(filled, 1, sizeof filled);
  volatile char* const touched = filled;
  atomic_fetch_add(&has_begun, 1);
  while (!atomic_load(&may_end)) {
    for (size_t i = 0; i < sizeof filled; i += 64) ++touched[i];
  }
  return unused;
}
// A thread that computes and has no room for a signal on its stack, until input comes.
static void LittleStacks(double seconds) {
  (void)seconds;
  pthread_attr_t small;
  EXPECT(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 16384) == 0);
  pthread_t thread;
  EXPECT(pthread_create(&thread, &small, FillsItsStack, NULL) == 0);
  const pthread_t allocates = Start(Allocates, NULL);
  while (atomic_load(&has_begun) == 0) sched_yield();
  puts("ready");
  fflush(stdout);
  getchar();
  atomic_store(&may_end, 1);
  atomic_store(&ended, 1);
  EXPECT(pthread_join(thread, NULL) == 0 && pthread_join(allocates, NULL) == 0);
}

// ---- A filter that kills for what timers need ----

static void Filter(double seconds) {
  (void)seconds;
  BurnCpu(0.05);
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_delete, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  BurnCpu(0.1);
  pthread_join(Start(BlocksAll, NULL), NULL);
}

// ---- Many threads, which end in every way ----

static void* Ends(void* how) {
  BurnCpu(0.0003);
  if ((intptr_t)how % 3 == 1) pthread_exit(NULL);
  if ((intptr_t)how % 3 == 2) {
    for (;;) pause();
  }
  return NULL;
}
static void Threads(double seconds) {
  (void)seconds;
  for (intptr_t i = 0; i < 300; ++i) {
    const pthread_t thread = Start(Ends, (void*)i);
    if (i % 3 == 2) EXPECT(pthread_cancel(thread) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
  }
  BurnCpu(0.05);
}

// ---- Live threads, more than may have timers ----

static pthread_barrier_t all_live;
static void* Lives(void* unused) {
  free(malloc(10));
  pthread_barrier_wait(&all_live);
  BurnCpu(0.001);
  return unused;
}
static void Together(double seconds) {
  (void)seconds;
  enum { kThreads = 32 };
  pthread_t threads[kThreads];
  pthread_barrier_init(&all_live, NULL, kThreads + 1);
  for (int i = 0; i < kThreads; ++i) threads[i] = Start(Lives, NULL);
  pthread_barrier_wait(&all_live);
  // The program has its own share left.
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_NONE};
  EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  for (int i = 0; i < kThreads; ++i) EXPECT(pthread_join(threads[i], NULL) == 0);
  free(malloc(1 << 20));
}

// ---- A filter from before the start ----

static void BelowFilter(double seconds) {
  (void)seconds;
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_timer_create, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof code / sizeof *code, code};
  EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
  execl("/proc/self/exe", "cpu_timer_cases", "burn", "0.05", NULL);
  EXPECT(0);
}

// ---- Made or ended at a moment that a test chooses ----

static void MakesTimer(double seconds) {
  (void)seconds;
  const pthread_t allocates = Start(Allocates, NULL);
  puts("ready");
  fflush(stdout);
  getchar();
  timer_t timer;
  EXPECT(timer_create(CLOCK_PROCESS_CPUTIME_ID, NULL, &timer) == 0);
  puts("made");
  fflush(stdout);
  getchar();
  atomic_store(&ended, 1);
  EXPECT(pthread_join(allocates, NULL) == 0);
}
// A thread computes, and ends when input comes.
static void* ComputesThenWaits(void* unused) {
  BurnCpu(0.3);
  puts("computed");
  fflush(stdout);
  while (!atomic_load(&may_end)) usleep(1000);
  return unused;
}
static void EndsAtChange(double seconds) {
  (void)seconds;
  // Which has the lower id, so its timer is changed first.
  const pthread_t allocates = Start(Allocates, NULL), computes = Start(ComputesThenWaits, NULL);
  getchar();
  atomic_store(&may_end, 1);
  EXPECT(pthread_join(computes, NULL) == 0);
  puts("joined");
  fflush(stdout);
  getchar();
  atomic_store(&ended, 1);
  EXPECT(pthread_join(allocates, NULL) == 0);
}
// libc has a thread that waits for its timers, and allocates.
static void SigevThread(double seconds) {
  (void)seconds;
  const pthread_t allocates = Start(Allocates, NULL);
  struct sigevent call = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = Called};
  call.sigev_value.sival_int = 42;
  timer_t timer;
  EXPECT(timer_create(CLOCK_MONOTONIC, &call, &timer) == 0);
  const struct itimerspec often = {{0, 1000000}, {0, 1000000}};
  EXPECT(timer_settime(timer, 0, &often, NULL) == 0);
  while (atomic_load(&called) < 20) usleep(1000);
  EXPECT(timer_delete(timer) == 0);
  puts("ready");
  fflush(stdout);
  getchar();
  atomic_store(&ended, 1);
  EXPECT(pthread_join(allocates, NULL) == 0);
}
static void AllocatesAtInput(double seconds) {
  (void)seconds;
  const pthread_t allocates = Start(Allocates, NULL);
  puts("ready");
  fflush(stdout);
  getchar();
  for (int i = 0; i < 20; ++i) free(malloc(1 << 20));
  puts("allocated");
  fflush(stdout);
  getchar();
  atomic_store(&ended, 1);
  EXPECT(pthread_join(allocates, NULL) == 0);
}
// Ends while all its threads live.
static void EndsWithThreads(double threads) {
  for (int i = 0; i < threads; ++i) Start(ComputesUntilTold, NULL);
  puts("ready");
  fflush(stdout);
  getchar();
  exit(0);
}

// ---- Switched on and off from outside ----

static void* Computes(void* unused) {
  while (!atomic_load(&ended)) BurnCpu(0.01);
  return unused;
}
// Overwrites its environment, as a server does for its title in the list of processes.
static void UntilInput(double seconds) {
  (void)seconds;
  for (char** entry = environ; *entry != NULL; ++entry) memset(*entry, 'x', strlen(*entry));
  const pthread_t computes = Start(Computes, NULL), allocates = Start(Allocates, NULL);
  puts("ready");
  fflush(stdout);
  getchar();
  BurnCpu(0.2);
  puts("computed");
  fflush(stdout);
  getchar();
  atomic_store(&ended, 1);
  pthread_join(computes, NULL);
  pthread_join(allocates, NULL);
}

static void Burn(double seconds) {
  free(malloc(100));
  BurnCpu(seconds > 0 ? seconds : 0.02);
}

int main(int count, char** arguments) {
  const struct {
    const char* name;
    void (*run)(double);
  } cases[] = {{"calls", Calls},
               {"masks", Masks},
               {"cancel", Cancel},
               {"processes", Processes},
               {"altstacks", AlternateStacks},
               {"jumps", Jumps},
               {"jumps-disarmed", JumpsOffDisarmed},
               {"jumps-within", JumpsWithin},
               {"coroutines", Coroutines},
               {"timers", Timers},
               {"profiler", Profiler},
               {"posix-profiler", PosixProfiler},
               {"executes", ExecutesInHandler},
               {"executed", Executed},
               {"little-stacks", LittleStacks},
               {"filter", Filter},
               {"threads", Threads},
               {"together", Together},
               {"below-filter", BelowFilter},
               {"makes-timer", MakesTimer},
               {"ends-at-change", EndsAtChange},
               {"sigev-thread", SigevThread},
               {"allocates-at-input", AllocatesAtInput},
               {"ends-with-threads", EndsWithThreads},
               {"until-input", UntilInput},
               {"burn", Burn}};
  for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; ++i) {
    if (strcmp(cases[i].name, arguments[1]) == 0) cases[i].run(count > 2 ? atof(arguments[2]) : 0);
  }
  return atomic_load(&wrong);
}
