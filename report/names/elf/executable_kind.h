// Classifies an executable by its first bytes: enough to know whether the library can be loaded into it.
//
// The file is untrusted: every offset and size is checked against the file. Reads are copies, so truncating the file
// meanwhile causes a short read, not SIGBUS. At most a few MiB are read.
#ifndef HOLDFAST_REPORT_NAMES_ELF_EXECUTABLE_KIND_H_
#define HOLDFAST_REPORT_NAMES_ELF_EXECUTABLE_KIND_H_

#include <string>

namespace holdfast {

struct ExecutableKind {
  enum class Kind {
    kUnreadable,  // executable, but not readable: unknown
    kElf,
    kBadElf,  // begins like an ELF file but is invalid
    kScript,  // #! INTERPRETER [ARGUMENT]
    kText,    // no #!: execvp and shells pass it to /bin/sh
    kOther,   // only the kernel knows (binfmt_misc)
  };
  Kind kind = Kind::kOther;

  // kScript: the program that the kernel starts, and its only argument (may be empty). kElf: the dynamic loader; "" =
  // static.
  std::string interpreter = {}, argument = {};

  // kElf
  bool is_64_bit = true;
  std::string machine = {};    // "" = the tool's own, otherwise a name for messages
  bool is_musl = false;        // uses the C library musl, by its loader or a needed library
  bool is_old_musl = false;    // before 1.2.2: its aligned functions fail below another malloc
  bool is_loader = false;      // glibc's dynamic loader, which also loads the library into the program given to it
  std::string sanitizer = {};  // "AddressSanitizer", "ThreadSanitizer" …; "" = none
};

ExecutableKind ReadExecutableKind(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_EXECUTABLE_KIND_H_
