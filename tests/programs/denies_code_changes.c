// Forbids changes of executable memory, as the first argument says, then executes the rest:
//
//     mdwe      PR_SET_MDWE (Linux 6.3); exit status 77 where the kernel has none
//     systemd   MemoryDenyWriteExecute's filter: no mapping that is writable and executable, no mprotect to executable
//     all       neither of both, and no /proc/self/mem: nothing can be changed
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define DENY BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static int Filter(struct sock_filter* filter, unsigned short count) {
  const struct sock_fprog program = {count, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  if (strcmp(arguments[1], "mdwe") == 0 && prctl(65 /*PR_SET_MDWE*/, 1, 0, 0, 0) != 0) return 77;
  struct sock_filter filter[] = {
      LOAD(nr),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      LOAD(args[2]),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      DENY,
      LOAD(nr),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
      LOAD(args[2]),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, PROT_EXEC | PROT_WRITE),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_EXEC | PROT_WRITE, 0, 1),
      DENY,
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  // The dynamic linker itself maps code from files, and opens them for reading.
  struct sock_filter all[] = {
      LOAD(nr),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
      DENY,
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
      LOAD(args[2]),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_ACCMODE | O_CREAT),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDWR, 0, 1),
      DENY,
      LOAD(nr),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      LOAD(args[2]),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
      DENY,
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  if (strcmp(arguments[1], "systemd") == 0 && !Filter(filter, sizeof filter / sizeof *filter)) return 77;
  if (strcmp(arguments[1], "all") == 0 && !Filter(all, sizeof all / sizeof *all)) return 77;
  execv(arguments[2], arguments + 2);
  return 127;
}
