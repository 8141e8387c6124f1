#include "report/elf/debug_file.h"

#include <elf.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/elf/elf_notes.h"

namespace holdfast {
namespace {

class Reader {
 public:
  Reader(DebugFile* file, uint64_t max_unpacked) : file_(*file), left_(max_unpacked) {
    elf_version(EV_CURRENT);
    elf_ = elf_begin(file_.fd.get(), ELF_C_READ, nullptr);  // never mapped: see report/dwarf/section.h
  }
  ~Reader() { elf_end(elf_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  absl::Status Read() {
    GElf_Ehdr header;
    size_t names = 0;
    if (elf_ == nullptr || elf_kind(elf_) != ELF_K_ELF || gelf_getehdr(elf_, &header) == nullptr) {
      return absl::InvalidArgumentError("not an ELF file");
    }
    if (header.e_machine != EM_X86_64 || gelf_getclass(elf_) != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
      return absl::InvalidArgumentError("not an x86-64 ELF file");
    }
    if (elf_getshdrstrndx(elf_, &names) != 0) return absl::OkStatus();  // no sections
    struct stat status;
    if (fstat(file_.fd.get(), &status) != 0) return absl::Status(absl::ErrnoToStatusCode(errno), std::strerror(errno));
    const auto file_size = static_cast<uint64_t>(status.st_size);
    for (Elf_Scn* section = elf_nextscn(elf_, nullptr); section != nullptr; section = elf_nextscn(elf_, section)) {
      GElf_Shdr shdr;
      if (gelf_getshdr(section, &shdr) == nullptr) continue;
      if (shdr.sh_type == SHT_NOTE && file_.build_id.empty()) file_.build_id = BuildIdOfNotes(section, shdr);
      if (shdr.sh_type == SHT_SYMTAB) file_.has_symtab = true;
      const char* name = elf_strptr(elf_, names, shdr.sh_name);
      if (name == nullptr || shdr.sh_type == SHT_NOBITS || shdr.sh_size == 0 || shdr.sh_offset >= file_size) continue;
      shdr.sh_size = std::min<uint64_t>(shdr.sh_size, file_size - shdr.sh_offset);
      if (absl::Status status = Take(name, shdr); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Take(std::string_view name, const GElf_Shdr& header) {
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

  absl::StatusOr<dwarf::Section> Unpack(const GElf_Shdr& header, bool zdebug) {
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

  void TakeLink(std::string_view name, const GElf_Shdr& header) {
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
  Elf* elf_ = nullptr;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DebugFile>> OpenDebugFile(FileDescriptor fd, uint64_t max_unpacked) {
  auto file = std::make_shared<DebugFile>();
  file->fd = std::move(fd);
  if (absl::Status status = Reader(file.get(), max_unpacked).Read(); !status.ok()) return status;
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
