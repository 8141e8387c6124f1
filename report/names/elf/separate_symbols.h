// The file with the symbols of a stripped program, found as the library finds it when the program starts
// (interpose/entries/executable_file.cc). For /usr/bin/app with build id 12ab… and app.debug in .gnu_debuglink:
//
//   /usr/lib/debug/.build-id/12/ab….debug
//   /usr/bin/app.debug, /usr/bin/.debug/app.debug, /usr/lib/debug/usr/bin/app.debug, /usr/lib/debug/app.debug
//
// The file must have the program's build id: a checksum of a large file would take too long at each start. DebugFileFinder
// searches further. Files are untrusted; see elf_file.h.
#ifndef HOLDFAST_REPORT_NAMES_ELF_SEPARATE_SYMBOLS_H_
#define HOLDFAST_REPORT_NAMES_ELF_SEPARATE_SYMBOLS_H_

#include <memory>
#include <string>

#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"

namespace holdfast {

struct SeparateSymbols {
  FileDescriptor file;
  std::unique_ptr<ElfFile> elf;  // has .symtab; null: there is no such file
};

// `path`: where the process sees the program's file, below `root`. `program`: the file itself.
SeparateSymbols OpenSeparateSymbols(const ElfFile& program, const std::string& root, const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_SEPARATE_SYMBOLS_H_
