// An ELF file that contains debug information or leads to it: its DWARF sections and its links to other files.
//
//   .debug_info …        the sections themselves; a .dwo or .dwp file calls them .debug_info.dwo …
//   .gnu_debuglink       name and checksum of a separate debug file
//   .gnu_debugaltlink    path and build id of a file that several debug files share (dwz)
//
// The file is untrusted: sections are read in pieces with bounds checks (report/names/dwarf/section.h).
#ifndef HOLDFAST_REPORT_NAMES_ELF_DEBUG_FILE_H_
#define HOLDFAST_REPORT_NAMES_ELF_DEBUG_FILE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/names/dwarf/unit.h"

namespace holdfast {

struct DebugFile {
  FileDescriptor fd;  // `sections` reads from this file
  dwarf::Sections sections;
  std::string build_id;   // lower-case hexadecimal; "" = none
  std::string debuglink;  // a file name; "" = none
  uint32_t debuglink_crc = 0;
  std::string altlink, altlink_build_id;  // a path; "" = none
  bool has_symtab = false;

  // Only SectionsOf unpacks compressed sections, so that reading symbols does not pay for them.
  struct Packed {
    dwarf::Section dwarf::Sections::*place;
    uint64_t offset, size;
    bool zdebug;  // .zdebug_*, which has its own header format
  };
  std::vector<Packed> packed;
  uint64_t max_unpacked = 0;

  // Returns whether the file has line tables. SectionsOf reports whether they can be read.
  bool has_lines() const { return Has(&dwarf::Sections::info) && Has(&dwarf::Sections::abbrev); }

 private:
  bool Has(dwarf::Section dwarf::Sections::*place) const {
    return !(sections.*place).empty() ||
           std::any_of(packed.begin(), packed.end(), [&](const Packed& one) { return one.place == place; });
  }
};

// Takes the descriptor of a regular file. `max_unpacked`: how many bytes SectionsOf may unpack in total.
absl::StatusOr<std::shared_ptr<DebugFile>> OpenDebugFile(FileDescriptor fd, uint64_t max_unpacked);

// Returns the sections, which keep their file open. Unpacks compressed sections; the error says why that failed. The
// file's symbols stay usable after an error.
absl::StatusOr<std::shared_ptr<dwarf::Sections>> SectionsOf(std::shared_ptr<DebugFile> file);

// Returns the file's checksum as in .gnu_debuglink; nullopt if the file cannot be read.
std::optional<uint32_t> DebuglinkCrc(int fd);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_DEBUG_FILE_H_
