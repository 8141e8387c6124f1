// Runs a program below a seccomp filter, like a container or systemd.
//   under_filter kill NUMBER… -- PROGRAM…     these system calls kill the caller
//   under_filter allow NUMBER… -- PROGRAM…    all others do
//   under_filter answer NUMBER/ARGUMENT/VALUE/ERRNO… -- PROGRAM…
//       these system calls do nothing and return this error, or 0, if the argument (0 to 5) has this value; ARGUMENT 9: always.
//       Older kernels and emulators behave like this
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMax = 400 };

static struct sock_filter filter[kMax * 4 + 4];
static unsigned short length = 0;

static void Add(struct sock_filter instruction) { filter[length++] = instruction; }

static void AddLoad(size_t offset) { Add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); }

static void AddAnswer(const char* text) {
  unsigned number = 0, argument = 0, value = 0, error = 0;
  if (sscanf(text, "%u/%u/%u/%u", &number, &argument, &value, &error) != 4) exit(98);
  const int always = argument > 5;
  AddLoad(offsetof(struct seccomp_data, nr));
  Add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, always ? 1 : 3));
  if (!always) {
    AddLoad(offsetof(struct seccomp_data, args) + argument * sizeof(__u64));
    Add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
  }
  Add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
}

int main(int argc, char** argv) {
  if (argc < 2) return 98;
  const int allows = strcmp(argv[1], "allow") == 0, answers = strcmp(argv[1], "answer") == 0;
  const unsigned listed = allows ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS;
  const unsigned others = allows ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
  AddLoad(offsetof(struct seccomp_data, nr));
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--") != 0 && at < kMax; ++at) {
    if (answers) {
      AddAnswer(argv[at]);
      continue;
    }
    Add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(argv[at]), 0, 1));
    Add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed));
  }
  Add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others));
  if (at + 1 >= argc) return 98;
  const struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("under_filter");
    return 97;
  }
  execvp(argv[at + 1], argv + at + 1);
  return 127;
}
