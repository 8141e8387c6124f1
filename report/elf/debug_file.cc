#include "report/elf/debug_file.h"

#include <elf.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/elf/elf_file.h"

namespace holdfast {
namespace {

class DebugFileReader {
 public:
  DebugFileReader(DebugFile* file, uint64_t max_unpacked) : file_(*file), left_(max_unpacked) {}

  absl::Status Read() {
    const std::unique_ptr<ElfFile> elf = ElfFile::Open(file_.fd.get());
    if (elf == nullptr) return absl::InvalidArgumentError("not an ELF file");
    if (!elf->is_x86_64()) return absl::InvalidArgumentError("not an x86-64 ELF file");
    file_.build_id = elf->BuildId();
    for (Elf64_Shdr section : elf->sections()) {
      if (section.sh_type == SHT_SYMTAB) file_.has_symtab = true;
      if (section.sh_type == SHT_NOBITS || section.sh_size == 0 || section.sh_offset >= elf->size()) continue;
      section.sh_size = std::min<uint64_t>(section.sh_size, elf->size() - section.sh_offset);
      if (absl::Status status = Take(elf->NameOf(section), section); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(std::string_view name, const Elf64_Shdr& header) {
    if (name == ".gnu_debuglink" || name == ".gnu_debugaltlink") {
      TakeLink(name, header);
      return absl::OkStatus();
    }
    if (name == ".debug_cu_index") {
      file_.sections.cu_index = dwarf::Section::InFile(file_.fd.get(), header.sh_offset, header.sh_size);
      return absl::OkStatus();
    }
    const bool zdebug = name.starts_with(".zdebug_");
    if (!zdebug && !name.starts_with(".debug_")) return absl::OkStatus();
    name.remove_prefix(zdebug ? 8 : 7);
    if (name.ends_with(".dwo")) name.remove_suffix(4);
    dwarf::Sections& sections = file_.sections;
    const std::pair<std::string_view, dwarf::Section*> known[] = {
        {"info", &sections.info},         {"abbrev", &sections.abbrev},     {"str", &sections.str},
        {"line_str", &sections.line_str}, {"line", &sections.line},         {"str_offsets", &sections.str_offsets},
        {"ranges", &sections.ranges},     {"rnglists", &sections.rnglists}, {"addr", &sections.addr},
    };
    for (const auto& [known_name, place] : known) {
      if (name != known_name || !place->empty()) continue;
      auto section = zdebug || (header.sh_flags & SHF_COMPRESSED) != 0
                         ? Unpack(header, zdebug)
                         : dwarf::Section::InFile(file_.fd.get(), header.sh_offset, header.sh_size);
      if (!section.ok()) return section.status();
      *place = *std::move(section);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<dwarf::Section> Unpack(const Elf64_Shdr& header, bool zdebug) {
    // .zdebug_*: "ZLIB" and the size in 8 bytes, big-endian.
    unsigned char begin[sizeof(Elf64_Chdr)] = {};
    const size_t header_size = zdebug ? 12 : sizeof(Elf64_Chdr);
    if (header.sh_size < header_size ||
        pread(file_.fd.get(), begin, header_size, static_cast<off_t>(header.sh_offset)) !=
            static_cast<ssize_t>(header_size)) {
      return absl::DataLossError("a damaged compressed section");
    }
    uint64_t size = 0;
    if (zdebug) {
      for (int i = 4; i < 12; ++i) size = size << 8 | begin[i];
    } else {
      Elf64_Chdr compression;
      std::memcpy(&compression, begin, sizeof(compression));
      if (compression.ch_type != ELFCOMPRESS_ZLIB) {
        return absl::UnimplementedError("debug information that is compressed otherwise than with zlib");
      }
      size = compression.ch_size;
    }
    if (size > left_) {
      return absl::ResourceExhaustedError(fmt::format("{} MiB of compressed debug information", size >> 20));
    }
    left_ -= size;
    return dwarf::Section::Inflate(file_.fd.get(), header.sh_offset + header_size, header.sh_size - header_size, size);
  }

  void TakeLink(std::string_view name, const Elf64_Shdr& header) {
    std::string bytes;
    if (header.sh_size > 4096 ||
        !dwarf::Section::InFile(file_.fd.get(), header.sh_offset, header.sh_size).Read(0, header.sh_size, &bytes)) {
      return;
    }
    const size_t zero = bytes.find('\0');
    if (zero == std::string::npos || zero == 0) return;
    if (name == ".gnu_debugaltlink") {
      file_.altlink = bytes.substr(0, zero);
      file_.altlink_build_id = Hexadecimal(std::string_view(bytes).substr(zero + 1));
    } else if (bytes.size() >= 4) {
      file_.debuglink = bytes.substr(0, zero);
      std::memcpy(&file_.debuglink_crc, bytes.data() + bytes.size() - 4, 4);
    }
  }

  DebugFile& file_;
  uint64_t left_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DebugFile>> OpenDebugFile(FileDescriptor fd, uint64_t max_unpacked) {
  auto file = std::make_shared<DebugFile>();
  file->fd = std::move(fd);
  if (absl::Status status = DebugFileReader(file.get(), max_unpacked).Read(); !status.ok()) return status;
  return file;
}

std::shared_ptr<dwarf::Sections> SectionsOf(std::shared_ptr<DebugFile> file) {
  dwarf::Sections* sections = &file->sections;
  return {std::move(file), sections};
}

std::optional<uint32_t> DebuglinkCrc(int fd) {
  std::vector<unsigned char> buffer(1 << 20);
  uLong crc = crc32(0, nullptr, 0);
  for (off_t at = 0;;) {
    const ssize_t got = pread(fd, buffer.data(), buffer.size(), at);
    if (got < 0) return std::nullopt;
    if (got == 0) return static_cast<uint32_t>(crc);
    crc = crc32(crc, buffer.data(), static_cast<uInt>(got));
    at += got;
  }
}

}  // namespace holdfast
