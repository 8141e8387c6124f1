#include "report/show/tracing_rights.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace holdfast {
namespace {

void SetCapabilities(unsigned bits) {
  __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct data[2] = {{.effective = bits, .permitted = bits, .inheritable = 0}, {}};
  if (syscall(SYS_capset, &head, data) == 0) return;
  // Root in a container may lack this one. It keeps none of the others, either.
  const __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &head, none);
}

}  // namespace

TracingRights::TracingRights(bool wanted) : has_(wanted && geteuid() == 0) {
  if (has_) prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
}

void TracingRights::Use() const {
  if (has_ && geteuid() != 0) SetCapabilities(1U << CAP_SYS_PTRACE);
}

void TracingRights::GiveUp() const {
  if (has_ && geteuid() != 0) SetCapabilities(0);
}

}  // namespace holdfast
