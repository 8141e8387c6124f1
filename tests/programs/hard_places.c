// Changes the process's environment: its root, /proc, /dev/shm, namespaces, the treatment of its children. `hard_places
// CASE`; prints what happened. Allocates and forks before and after the change.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

KNOWN void* before_it(void) { return malloc(100); }
KNOWN void* after_it(void) { return malloc(30); }
KNOWN void* in_child(void) { return malloc(40); }

static char* itself;

static void Before(void) {
  for (int i = 0; i < 50; ++i) free(before_it());
  Expect("before_it", 50, 5000, 0, 0);
}

// What was allocated in a changed place, by a child too, which makes a table of its own there if it can.
static void After(void) {
  for (int i = 0; i < 20; ++i) free(after_it());
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 20; ++i) free(in_child());
    _exit(3);
  }
  int status = -1;
  waitpid(child, &status, 0);
  printf("child: %d\n", WEXITSTATUS(status));
}

static void Said(const char* what, long result) {
  printf("%s: %ld%s%s\n", what, result, result < 0 ? ", " : "", result < 0 ? strerror(errno) : "");
}

// Runs the rest of the program in a child with its own mounts. The caller goes on when the child has ended.
static int OwnMounts(void) {
  const pid_t child = fork();
  if (child != 0) {
    int status = -1;
    waitpid(child, &status, 0);
    printf("ended: %d\n", status);
    return 0;
  }
  Said("unshare", unshare(CLONE_NEWNS));
  Said("private", mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
  return 1;
}

static void NewRoot(void) {
  Before();
  char folder[] = "/tmp/holdfast-root.XXXXXX";
  if (!mkdtemp(folder)) return;
  if (OwnMounts()) {
    Said("mount", mount("root", folder, "tmpfs", 0, "size=1m"));
    Said("chdir", chdir(folder));
    Said("old", mkdir("old", 0700));
    Said("pivot", syscall(SYS_pivot_root, ".", "old"));
    Said("chdir", chdir("/"));
    Said("umount", umount2("/old", MNT_DETACH));
    After();
    exit(0);
  }
  rmdir(folder);
}

static void NoProc(void) {
  Before();
  if (!OwnMounts()) return;
  Said("umount", umount2("/proc", MNT_DETACH));
  After();
  execl(itself, itself, "plain", (char*)NULL);
}

static void ReadOnlyMemory(void) {
  Before();
  if (!OwnMounts()) return;
  Said("bind", mount("/dev/shm", "/dev/shm", NULL, MS_BIND, NULL));
  Said("read-only", mount(NULL, "/dev/shm", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
  After();
  execl(itself, itself, "plain", (char*)NULL);
}

static void NoMemoryFolder(void) {
  Before();
  if (!OwnMounts()) return;
  Said("umount", umount2("/dev/shm", MNT_DETACH));
  After();
  execl(itself, itself, "plain", (char*)NULL);
}

static void Namespaces(void) {
  Before();
  Said("unshare", unshare(CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWPID));
  const int own = open("/proc/self/ns/uts", O_RDONLY);
  Said("setns", setns(own, CLONE_NEWUTS));
  close(own);
  After();  // the child is PID 1 of the new namespace
}

// Nothing is sampled before: what a first sample starts must not become PID 1 of the new namespace, and end there.
static void FirstInNamespace(void) {
  Said("unshare", syscall(SYS_unshare, CLONE_NEWPID));
  After();
}

static void Plain(void) {
  Before();
  After();
}

static void NotDumpable(void) {
  Before();
  Said("dumpable", prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
  After();
  execl(itself, itself, "plain", (char*)NULL);
}

static void LockedMemory(void) {
  Before();
  Said("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
  After();
}

static void LockedFromTheStart(void) {
  Said("mlockall", mlockall(MCL_CURRENT | MCL_FUTURE));
  Before();
  After();
}

// Little address space at first, so that the table is small; plenty in the child, which makes a table in the same place.
static void RoomOnlyLater(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = (rlim_t)200 << 20;
  Said("setrlimit", setrlimit(RLIMIT_AS, &limit));
  Before();
  limit.rlim_cur = before;
  Said("setrlimit", setrlimit(RLIMIT_AS, &limit));
  After();
}

// All children come back to it, and it waits for all that come.
static void Subreaper(void) {
  Said("subreaper", prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0));
  Before();
  for (int i = 0; i < 10; ++i) {
    if (fork() == 0) {
      if (fork() == 0) _exit(1);  // an orphan
      _exit(2);
    }
  }
  int count = 0;
  while (waitpid(-1, NULL, 0) > 0) ++count;
  printf("%d children came, then %s\n", count, strerror(errno));
}

// Nobody waits; the kernel takes children away.
static void IgnoredChildren(void) {
  signal(SIGCHLD, SIG_IGN);
  Before();
  for (int i = 0; i < 10; ++i) {
    if (fork() == 0) _exit(i);
  }
  const pid_t none = wait(NULL);
  printf("wait: %d, %s\n", (int)none, strerror(errno));
}

static volatile sig_atomic_t ended;
static void CountsEnds(int signal) {
  (void)signal;
  ++ended;
}

// One SIGCHLD for its one child, and none for what is not its own.
static void CountedChildren(void) {
  const struct sigaction action = {.sa_handler = CountsEnds};
  sigaction(SIGCHLD, &action, NULL);
  Before();
  printf("ended before: %d\n", (int)ended);
  if (fork() == 0) _exit(0);
  wait(NULL);
  printf("ended: %d\n", (int)ended);
}

static void* Spawns(void* count) {
  for (int i = 0; i < 25; ++i) {
    free(after_it());
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", (char*)NULL);
      _exit(127);
    }
    int status = -1;
    if (waitpid(child, &status, 0) == child && status == 0) __atomic_add_fetch((int*)count, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static void VforkStorm(void) {
  Before();
  static int good;
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Spawns, &good);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  printf("%d of 100 children ended well\n", good);
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  itself = argv[0];
  setvbuf(stdout, NULL, _IONBF, 0);
  static const struct {
    const char* name;
    void (*run)(void);
  } cases[] = {{"new_root", NewRoot},
               {"no_proc", NoProc},
               {"read_only_memory", ReadOnlyMemory},
               {"no_memory_folder", NoMemoryFolder},
               {"namespaces", Namespaces},
               {"first_in_namespace", FirstInNamespace},
               {"plain", Plain},
               {"not_dumpable", NotDumpable},
               {"locked_memory", LockedMemory},
               {"locked_from_the_start", LockedFromTheStart},
               {"room_only_later", RoomOnlyLater},
               {"subreaper", Subreaper},
               {"ignored_children", IgnoredChildren},
               {"counted_children", CountedChildren},
               {"vfork_storm", VforkStorm}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (!strcmp(which, cases[i].name)) return cases[i].run(), 0;
  }
  return 99;
}
