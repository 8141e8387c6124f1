// Reads from constants in a program's or library's code how it calls prctl, syscall and dlopen: whether it can make its
// process a subreaper (prctl(PR_SET_CHILD_SUBREAPER)), and whether it opens plugins with RTLD_DEEPBIND.
//
//     mov $36,%edi … call prctl@plt            kCalls; also as a jump, through the GOT, or to a statically linked prctl
//     mov $36,%edi … mov $157,%eax … syscall   kCalls: a direct system call
//     mov $157,%edi … mov $36,%esi … call syscall@plt         kCalls; also with Go's registers
//     mov %ebx,%edi … call prctl@plt           kComputed: the option, or the number of a system call, is not in the code
//     mov $15,%edi … call prctl@plt            kNone: another option
//     mov $10,%esi … call dlopen@plt           opens deep: RTLD_NOW | RTLD_DEEPBIND
//
// Code of other processors than x86-64 is not decoded: a file that imports prctl or syscall, or imports nothing because it
// is static, counts as kComputed, and no dlopen counts as deep.
// Constants are searched in the 96 bytes before a call. Code generated at run time is not seen, nor is a prctl found by
// dlsym under a name that is not in the file.
// The file is untrusted and is read as in elf_file.h. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_CALL_ARGUMENTS_H_
#define HOLDFAST_REPORT_NAMES_ELF_CALL_ARGUMENTS_H_

#include <optional>
#include <string>

namespace holdfast {

enum class SubreaperCall {
  kNone,
  kComputed,  // some arguments are not constants in the code
  kCalls,
};

// Returns nothing if the file cannot be read or is not a program or library for this machine. `only_imported`: do not
// search the code of a library that imports neither prctl nor syscall.
std::optional<SubreaperCall> FindSubreaperCall(const std::string& path, bool only_imported = false);

// Returns whether a call of dlopen passes RTLD_DEEPBIND. Computed flags are unknown and count as false.
bool OpensPluginsDeep(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_CALL_ARGUMENTS_H_
