// An ELF file that holds debug information, or leads to it: its DWARF sections and its links to other files.
//
//   .debug_info …        the sections themselves; in a .dwo or .dwp they are called .debug_info.dwo …
//   .gnu_debuglink       name and checksum of a separate debug file
//   .gnu_debugaltlink    path and build id of what several debug files share (dwz)
//
// The file is hostile: sections are read in pieces with bounds checked (report/dwarf/section.h).
#ifndef HOLDFAST_REPORT_ELF_DEBUG_FILE_H_
#define HOLDFAST_REPORT_ELF_DEBUG_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/dwarf/unit.h"

namespace holdfast {

struct DebugFile {
  FileDescriptor fd;  // the sections read from it
  dwarf::Sections sections;
  std::string build_id;   // lower-case hexadecimal; "" when there is none
  std::string debuglink;  // a file name; "" when there is none
  uint32_t debuglink_crc = 0;
  std::string altlink, altlink_build_id;  // a path; "" when there is none
  bool has_symtab = false;

  bool has_lines() const { return !sections.info.empty() && !sections.abbrev.empty(); }
};

// Takes the descriptor of a regular file. Compressed sections are unpacked up to `max_unpacked` bytes in all; with more
// it fails.
absl::StatusOr<std::shared_ptr<DebugFile>> OpenDebugFile(FileDescriptor fd, uint64_t max_unpacked);

// The sections, which keep their file open.
std::shared_ptr<dwarf::Sections> SectionsOf(std::shared_ptr<DebugFile> file);

// The checksum that .gnu_debuglink has of a file; nullopt when it cannot be read.
std::optional<uint32_t> DebuglinkCrc(int fd);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_DEBUG_FILE_H_
