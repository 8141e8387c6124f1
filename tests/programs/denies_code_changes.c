// Forbids changes of executable memory, as the first argument says, then executes the rest with
// LD_PRELOAD=$THEN_PRELOAD:
//
//     mdwe          PR_SET_MDWE (Linux 6.3); exit status 77 where the kernel has none
//     systemd       MemoryDenyWriteExecute's filter: no mapping that is writable and executable, no mprotect to executable
//     only_memfd    no /proc/self/mem, and no mprotect to executable
//     only_mprotect no /proc/self/mem, and no memfd
//     all           nothing of all this: nothing can be changed
//     second_page   only /proc/self/mem, and nothing at an offset of 0x800 to 0x81f in a page
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define DENY BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
// The next `skipped` instructions are for this call only.
#define OF_CALL(number, skipped) LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, skipped)
#define DENY_IF_SET(argument, bits) LOAD(args[argument]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1), DENY
#define DENY_IF(argument, mask, value)                                                                               \
  LOAD(args[argument]), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), \
      DENY
#define FORBID(...)                                          \
  do {                                                       \
    const struct sock_filter added[] = {__VA_ARGS__};        \
    memcpy(filter + count, added, sizeof added);             \
    count += (unsigned short)(sizeof added / sizeof *added); \
  } while (0)

static struct sock_filter filter[64];
static unsigned short count;

static int Install(void) {
  FORBID(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const struct sock_fprog program = {count, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int main(int words, char** arguments) {
  if (words < 3) return 2;
  const char* how = arguments[1];
  const int all = strcmp(how, "all") == 0, systemd = strcmp(how, "systemd") == 0;
  const int second = strcmp(how, "second_page") == 0, memfd = strcmp(how, "only_memfd") == 0;
  const int protect = strcmp(how, "only_mprotect") == 0;
  if (strcmp(how, "mdwe") == 0 && prctl(65 /*PR_SET_MDWE*/, 1, 0, 0, 0) != 0) return 77;
  // The dynamic linker itself maps code from files, and opens them for reading.
  if (memfd || protect || all) FORBID(OF_CALL(SYS_openat, 4), DENY_IF(2, O_ACCMODE | O_CREAT, O_RDWR));
  if (protect || all || second) FORBID(OF_CALL(SYS_memfd_create, 1), DENY);
  if (systemd || memfd || all || second) FORBID(OF_CALL(SYS_mprotect, 3), DENY_IF_SET(2, PROT_EXEC));
  if (systemd) FORBID(OF_CALL(SYS_mmap, 4), DENY_IF(2, PROT_EXEC | PROT_WRITE, PROT_EXEC | PROT_WRITE));
  if (second) FORBID(OF_CALL(SYS_pwrite64, 4), DENY_IF(3, 0xfe0, 0x800));
  if (count > 0 && !Install()) return 77;
  const char* preload = getenv("THEN_PRELOAD");
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  execv(arguments[2], arguments + 2);
  return 127;
}
