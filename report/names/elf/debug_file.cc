#include "report/names/elf/debug_file.h"

#include <elf.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/processors.h"

namespace holdfast {
namespace {

class DebugFileReader {
 public:
  explicit DebugFileReader(DebugFile* file) : file_(*file), left_(file->max_unpacked) {}

  absl::Status Read() {
    const std::unique_ptr<ElfFile> elf = ElfFile::Open(file_.fd.get());
    if (elf == nullptr) return absl::InvalidArgumentError("not an ELF file");
    if (!HasNamesHere(*elf)) return absl::InvalidArgumentError("not an ELF file of x86-64 or arm64");
    file_.build_id = elf->BuildId();
    for (Elf64_Shdr section : elf->sections()) {
      if (section.sh_type == SHT_SYMTAB) file_.has_symtab = true;
      if (section.sh_type == SHT_NOBITS || section.sh_size == 0 || section.sh_offset >= elf->size()) continue;
      section.sh_size = std::min<uint64_t>(section.sh_size, elf->size() - section.sh_offset);
      Take(elf->NameOf(section), section);
    }
    return absl::OkStatus();
  }

  absl::Status UnpackAll() {
    for (const DebugFile::Packed& packed : std::exchange(file_.packed, {})) {
      auto section = Unpack(packed);
      if (!section.ok()) {
        file_.sections = {};
        file_.packed.clear();
        return section.status();
      }
      file_.sections.*packed.place = *std::move(section);
    }
    return absl::OkStatus();
  }

 private:
  void Take(std::string_view name, const Elf64_Shdr& header) {
    if (name == ".gnu_debuglink" || name == ".gnu_debugaltlink") return TakeLink(name, header);
    if (name == ".debug_cu_index") {
      file_.sections.cu_index = dwarf::Section::InFile(file_.fd.get(), header.sh_offset, header.sh_size);
      return;
    }
    const bool zdebug = name.starts_with(".zdebug_");
    if (!zdebug && !name.starts_with(".debug_")) return;
    name.remove_prefix(zdebug ? 8 : 7);
    if (name.ends_with(".dwo")) name.remove_suffix(4);
    using Sections = dwarf::Sections;
    static constexpr std::pair<std::string_view, dwarf::Section Sections::*> kKnown[] = {
        {"info", &Sections::info},         {"abbrev", &Sections::abbrev},     {"str", &Sections::str},
        {"line_str", &Sections::line_str}, {"line", &Sections::line},         {"str_offsets", &Sections::str_offsets},
        {"ranges", &Sections::ranges},     {"rnglists", &Sections::rnglists}, {"addr", &Sections::addr},
    };
    for (const auto& [known_name, place] : kKnown) {
      if (name != known_name || !(file_.sections.*place).empty()) continue;
      if (zdebug || (header.sh_flags & SHF_COMPRESSED) != 0) {
        file_.packed.push_back({place, header.sh_offset, header.sh_size, zdebug});
      } else {
        file_.sections.*place = dwarf::Section::InFile(file_.fd.get(), header.sh_offset, header.sh_size);
      }
    }
  }

  absl::StatusOr<dwarf::Section> Unpack(const DebugFile::Packed& packed) {
    // .zdebug_* begins with "ZLIB" and the size in 8 bytes, big-endian.
    unsigned char begin[sizeof(Elf64_Chdr)] = {};
    const size_t header_size = packed.zdebug ? 12 : sizeof(Elf64_Chdr);
    if (packed.size < header_size || pread(file_.fd.get(), begin, header_size, static_cast<off_t>(packed.offset)) !=
                                         static_cast<ssize_t>(header_size)) {
      return absl::DataLossError("a damaged compressed section");
    }
    uint64_t size = 0;
    auto method = dwarf::Compression::kZlib;
    if (packed.zdebug) {
      for (int i = 4; i < 12; ++i) size = size << 8 | begin[i];
    } else {
      Elf64_Chdr compression;
      std::memcpy(&compression, begin, sizeof(compression));
      constexpr uint32_t kZstd = 2;  // ELFCOMPRESS_ZSTD, which glibc defines since 2.37
      if (compression.ch_type == kZstd) {
        method = dwarf::Compression::kZstd;
      } else if (compression.ch_type != ELFCOMPRESS_ZLIB) {
        return absl::UnimplementedError(
            fmt::format("debug information in compression {}, which is neither zlib nor zstd", compression.ch_type));
      }
      size = compression.ch_size;
    }
    if (size > left_) {
      return absl::ResourceExhaustedError(fmt::format("{} MiB of compressed debug information", size >> 20));
    }
    left_ -= size;
    return dwarf::Section::Unpack(method, file_.fd.get(), packed.offset + header_size, packed.size - header_size, size);
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
  file->max_unpacked = max_unpacked;
  if (absl::Status status = DebugFileReader(file.get()).Read(); !status.ok()) return status;
  return file;
}

absl::StatusOr<std::shared_ptr<dwarf::Sections>> SectionsOf(std::shared_ptr<DebugFile> file) {
  if (absl::Status status = DebugFileReader(file.get()).UnpackAll(); !status.ok()) return status;
  dwarf::Sections* sections = &file->sections;
  return std::shared_ptr<dwarf::Sections>(std::move(file), sections);
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
