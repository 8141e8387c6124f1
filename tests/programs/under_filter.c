// Runs a program below a seccomp filter, as a container or systemd would.
//   under_filter kill NUMBER… -- PROGRAM…     these system calls are the end of who makes them
//   under_filter allow NUMBER… -- PROGRAM…    all others are
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMost = 400 };

int main(int argc, char** argv) {
  static struct sock_filter filter[kMost * 2 + 4];
  unsigned short length = 0;
  if (argc < 2) return 98;
  const int allows = strcmp(argv[1], "allow") == 0;
  const unsigned listed = allows ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS;
  const unsigned others = allows ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW;
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  int at = 2;
  for (; at < argc && strcmp(argv[at], "--") != 0 && at < kMost; ++at) {
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)atoi(argv[at]), 0, 1);
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
  if (at + 1 >= argc) return 98;
  const struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("under_filter");
    return 97;
  }
  execvp(argv[at + 1], argv + at + 1);
  return 127;
}
