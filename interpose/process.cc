// Functions that end the process, unload code, or forbid system calls.
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "interpose/operators.h"
#include "interpose/real.h"

using namespace holdfast;

extern "C" {

// exit() and a return from main reach the shim's destructor, quick_exit what it registered; these two reach nobody.
HOLDFAST_EXPORT void _exit(int status) {
  if (Ready()) {
    AwaitLastProfile();
    real._exit(status);
  }
  __builtin_trap();
}

HOLDFAST_EXPORT void _Exit(int status) noexcept {
  if (Ready()) {
    AwaitLastProfile();
    real._Exit(status);
  }
  __builtin_trap();
}

static int CloseModule(void* handle) {
  if (UNLIKELY(!Ready())) return -1;
  const int result = real.dlclose(handle);
  AfterUnload();
  ForgetOperatorsByModule();
  return result;
}

HOLDFAST_EXPORT int dlclose(void* handle) noexcept { return CloseModule(handle); }
// As programs from before glibc 2.34 call it.
HOLDFAST_EXPORT int holdfast_dlclose_2_2_5(void* handle) noexcept { return CloseModule(handle); }
asm(".symver holdfast_dlclose_2_2_5,dlclose@GLIBC_2.2.5,remove");

// Variadic in its header; by the calling convention the five registers are what a callee may look at.
HOLDFAST_EXPORT int prctl(int option, ...) noexcept {
  va_list list;
  va_start(list, option);
  const unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long), c = va_arg(list, unsigned long),
                      d = va_arg(list, unsigned long);
  va_end(list);
  if (UNLIKELY(!Ready())) return -1;
  if (option == PR_SET_SECCOMP) BeforeSeccomp();
  return real.prctl(option, a, b, c, d);
}

}  // extern "C"
