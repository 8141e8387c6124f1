// The build id of an ELF file, from a note section.
#ifndef HOLDFAST_REPORT_ELF_ELF_NOTES_H_
#define HOLDFAST_REPORT_ELF_ELF_NOTES_H_

#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <cstring>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace holdfast {

// At most 64 bytes of it: build ids have 20, or 8.
inline std::string Hexadecimal(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes.substr(0, 64)) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Lower-case hexadecimal; "" when the notes of this section hold none, or are damaged.
inline std::string BuildIdOfNotes(Elf_Scn* section, const GElf_Shdr& header) {
  if (header.sh_type != SHT_NOTE || header.sh_size > (1 << 20)) return {};
  Elf_Data* data = elf_getdata(section, nullptr);
  if (data == nullptr || data->d_buf == nullptr) return {};
  GElf_Nhdr note;
  size_t name = 0, description = 0;
  for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &description)) > 0;) {
    const char* bytes = static_cast<const char*>(data->d_buf);
    if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || std::memcmp(bytes + name, "GNU", 4) != 0) continue;
    return Hexadecimal({bytes + description, note.n_descsz});
  }
  return {};
}

// The same, of the file; "" when it has none.
inline std::string BuildIdOf(Elf* elf) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    if (std::string id = BuildIdOfNotes(section, header); !id.empty()) return id;
  }
  return {};
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_ELF_NOTES_H_
