// An ELF file that holds debug information, or leads to it: its DWARF sections and its links to other files.
//
//   .debug_info …        the sections themselves; in a .dwo or .dwp they are called .debug_info.dwo …
//   .gnu_debuglink       name and checksum of a separate debug file
//   .gnu_debugaltlink    path and build id of what several debug files share (dwz)
//
// The file is hostile: sections are read in pieces with bounds checked (report/dwarf/section.h).
#ifndef HOLDFAST_REPORT_ELF_DEBUG_FILE_H_
#define HOLDFAST_REPORT_ELF_DEBUG_FILE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

  // Compressed sections are unpacked by SectionsOf alone: whoever wants the symbols does not pay for them.
  struct Packed {
    dwarf::Section dwarf::Sections::*place;
    uint64_t offset, size;
    bool zdebug;  // .zdebug_*, with a header of its own
  };
  std::vector<Packed> packed;
  uint64_t max_unpacked = 0;

  // Whether it has them; SectionsOf tells whether they can be read.
  bool has_lines() const { return Has(&dwarf::Sections::info) && Has(&dwarf::Sections::abbrev); }

 private:
  bool Has(dwarf::Section dwarf::Sections::*place) const {
    return !(sections.*place).empty() ||
           std::any_of(packed.begin(), packed.end(), [&](const Packed& one) { return one.place == place; });
  }
};

// Takes the descriptor of a regular file. `max_unpacked`: how many bytes SectionsOf may unpack, in all.
absl::StatusOr<std::shared_ptr<DebugFile>> OpenDebugFile(FileDescriptor fd, uint64_t max_unpacked);

// The sections, which keep their file open. Unpacks those that are compressed; the error says why that failed. The
// file's symbols can be had all the same.
absl::StatusOr<std::shared_ptr<dwarf::Sections>> SectionsOf(std::shared_ptr<DebugFile> file);

// The checksum that .gnu_debuglink has of a file; nullopt when it cannot be read.
std::optional<uint32_t> DebuglinkCrc(int fd);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_DEBUG_FILE_H_
