// What kind of executable a file is, by its first bytes: enough to know whether the library can be loaded into it.
//
// The file is hostile input: every offset and size in it is checked against the file, reads are copies (a file that is
// cut short meanwhile is a short read, not SIGBUS), and at most some MiB are read.
#ifndef HOLDFAST_REPORT_ELF_EXECUTABLE_KIND_H_
#define HOLDFAST_REPORT_ELF_EXECUTABLE_KIND_H_

#include <string>

namespace holdfast {

struct ExecutableKind {
  enum class Kind {
    kUnreadable,  // executable, but not readable: nothing is known
    kElf,
    kBadElf,  // begins as one and does not go on as one
    kScript,  // #! INTERPRETER [ARGUMENT]
    kText,    // no #!: what execvp and shells hand to /bin/sh
    kOther,   // only the kernel can tell (binfmt_misc)
  };
  Kind kind = Kind::kOther;

  // kScript: what the kernel starts, with this one argument (may be empty). kElf: the dynamic loader, empty = static.
  std::string interpreter = {}, argument = {};

  // kElf
  bool is_64_bit = true;
  std::string machine = {};    // empty = x86-64, else what to call it
  bool is_musl = false;        // of the C library musl: by its loader, or the library that it needs
  bool is_loader = false;      // glibc's dynamic loader: a program that is handed to it takes the library
  std::string sanitizer = {};  // "AddressSanitizer", "ThreadSanitizer" …, empty = none
};

ExecutableKind ReadExecutableKind(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_EXECUTABLE_KIND_H_
