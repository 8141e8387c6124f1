// What a program or library asks of prctl, syscall and dlopen, by the constants in its code: whether it can make its process a
// subreaper (prctl(PR_SET_CHILD_SUBREAPER)), and whether it opens plugins with RTLD_DEEPBIND.
//
//     mov $36,%edi … call prctl@plt            kCalls; also as a jump, through the GOT, or to a prctl that is linked in
//     mov $36,%edi … mov $157,%eax … syscall   kCalls: its own system call
//     mov $157,%edi … mov $36,%esi … call syscall@plt         kCalls; with Go's registers too
//     mov %ebx,%edi … call prctl@plt           kComputed: the option, or the number of a system call, is not in the code
//     mov $15,%edi … call prctl@plt            kNone: another option
//     mov $10,%esi … call dlopen@plt           opens deep: RTLD_NOW | RTLD_DEEPBIND
//
// A constant is looked for in the 96 bytes before a call. Code that is made at run time, and a prctl that is found by dlsym under
// a name that is not in the file, are not seen.
// The file is hostile: it is read as elf_file.h does. Any thread.
#ifndef HOLDFAST_REPORT_ELF_CALL_ARGUMENTS_H_
#define HOLDFAST_REPORT_ELF_CALL_ARGUMENTS_H_

#include <optional>
#include <string>

namespace holdfast {

enum class SubreaperCall {
  kNone,
  kComputed,  // a call with arguments that cannot be read from the code
  kCalls,
};

// Nothing: the file cannot be read, or is no program of this machine.
// `only_imported`: of a library without a call of prctl or syscall by name the code is not searched.
std::optional<SubreaperCall> FindSubreaperCall(const std::string& path, bool only_imported = false);

// Whether a call of dlopen passes RTLD_DEEPBIND. Flags that are computed are not known: false.
bool OpensPluginsDeep(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_CALL_ARGUMENTS_H_
