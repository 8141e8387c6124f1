// Whether an executable can make itself a subreaper: whether its code calls prctl(PR_SET_CHILD_SUBREAPER).
//
//     mov $36,%edi … call prctl@plt            also as a jump, through the GOT, or to a prctl that is linked in
//     mov $36,%edi … mov $157,%eax … syscall   its own system call
//     mov $36,%esi … mov $157,%edi             syscall(SYS_prctl, …), with Go's registers too
//
// The constant and the call are looked for within 96 bytes. A program that computes the constant, or that calls prctl in
// one of its libraries, is not recognized.
// The file is hostile: it is read as elf_file.h does. Any thread.
#ifndef HOLDFAST_REPORT_ELF_SUBREAPER_CALL_H_
#define HOLDFAST_REPORT_ELF_SUBREAPER_CALL_H_

#include <optional>
#include <string>

namespace holdfast {

// Nothing: the file cannot be read, or is no program of this machine.
std::optional<bool> CallsForSubreaper(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_SUBREAPER_CALL_H_
