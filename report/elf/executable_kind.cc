#include "report/elf/executable_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

// The kernel reads so much of a file to see what it is (BINPRM_BUF_SIZE).
constexpr size_t kFirstBytes = 256;
constexpr uint64_t kMostDynamicBytes = 1 << 20;
constexpr uint64_t kMostStringBytes = 32 << 20;
constexpr uint64_t kMostInterpreterBytes = 4096;  // PATH_MAX, as the kernel

// Up to `size` bytes at `offset`; fewer where the file ends.
std::string ReadAt(int fd, uint64_t offset, uint64_t size) {
  if (offset > INT64_MAX - size) return "";
  struct stat info;
  if (fstat(fd, &info) != 0 || offset >= static_cast<uint64_t>(info.st_size)) return "";
  std::string bytes(std::min(size, static_cast<uint64_t>(info.st_size) - offset), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

template <typename T>
std::vector<T> ReadArray(int fd, uint64_t offset, uint64_t bytes) {
  const std::string raw = ReadAt(fd, offset, bytes);
  std::vector<T> result(raw.size() / sizeof(T));
  if (!result.empty()) memcpy(result.data(), raw.data(), result.size() * sizeof(T));
  return result;
}

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "";
    case EM_386:
      return "x86";
    case EM_AARCH64:
      return "aarch64";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    default:
      return fmt::format("ELF machine {}", machine);
  }
}

std::string TextAt(std::string_view strings, uint64_t offset) {
  if (offset >= strings.size()) return "";
  const std::string_view rest = strings.substr(offset);
  return std::string(rest.substr(0, rest.find('\0')));
}

struct SanitizerMark {
  std::string_view library, symbol, name;
};
constexpr std::array<SanitizerMark, 4> kSanitizers = {{
    {"libasan.so", "__asan_init", "AddressSanitizer"},
    {"libtsan.so", "__tsan_init", "ThreadSanitizer"},
    {"libmsan.so", "__msan_init", "MemorySanitizer"},
    {"libhwasan.so", "__hwasan_init", "HWAddressSanitizer"},
}};

// What the dynamic section says.
struct Dynamic {
  std::string strings;
  std::vector<uint64_t> needed;  // offsets into `strings`
  uint64_t own_name = UINT64_MAX;
};

Dynamic ReadDynamic(int fd, const std::vector<Elf64_Phdr>& segments) {
  Dynamic result;
  const auto dynamic_segment =
      std::find_if(segments.begin(), segments.end(), [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
  if (dynamic_segment == segments.end()) return result;
  const auto dynamic =
      ReadArray<Elf64_Dyn>(fd, dynamic_segment->p_offset, std::min(dynamic_segment->p_filesz, kMostDynamicBytes));
  uint64_t strings_address = 0, strings_bytes = 0;
  for (const Elf64_Dyn& entry : dynamic) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) strings_bytes = entry.d_un.d_val;
    if (entry.d_tag == DT_NEEDED) result.needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_SONAME) result.own_name = entry.d_un.d_val;
  }
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || strings_address < segment.p_vaddr) continue;
    const uint64_t within = strings_address - segment.p_vaddr;
    if (within >= segment.p_filesz || segment.p_offset > INT64_MAX - within) continue;
    result.strings =
        ReadAt(fd, segment.p_offset + within, std::min({strings_bytes, segment.p_filesz - within, kMostStringBytes}));
  }
  return result;
}

// A sanitizer's runtime is a needed library, or is linked in and exports its names.
std::string FindSanitizer(const Dynamic& dynamic) {
  for (const SanitizerMark& mark : kSanitizers) {
    for (const uint64_t offset : dynamic.needed) {
      if (TextAt(dynamic.strings, offset).starts_with(mark.library)) return std::string(mark.name);
    }
    if (dynamic.strings.find('\0' + std::string(mark.symbol) + '\0') != std::string::npos) {
      return std::string(mark.name);
    }
  }
  return "";
}

ProgramFile ReadElf(int fd, const std::string& first) {
  ProgramFile file{.kind = ProgramFile::Kind::kBadElf};
  // Class, byte order, type and machine lie at the same place in every kind of ELF file.
  if (first.size() < sizeof(Elf32_Ehdr)) return file;
  const auto little_endian = first[EI_DATA] == ELFDATA2LSB;
  const auto two_bytes = [&](size_t at) {
    const auto low = static_cast<uint8_t>(first[little_endian ? at : at + 1]);
    const auto high = static_cast<uint8_t>(first[little_endian ? at + 1 : at]);
    return static_cast<uint16_t>(low | high << 8);
  };
  const uint16_t type = two_bytes(offsetof(Elf64_Ehdr, e_type));
  if ((type != ET_EXEC && type != ET_DYN) || (first[EI_CLASS] != ELFCLASS32 && first[EI_CLASS] != ELFCLASS64))
    return file;
  file.is_64_bit = first[EI_CLASS] == ELFCLASS64;
  file.machine = MachineName(two_bytes(offsetof(Elf64_Ehdr, e_machine)));
  if (!file.is_64_bit || !file.machine.empty() || !little_endian) {
    file.kind = ProgramFile::Kind::kElf;
    return file;
  }
  Elf64_Ehdr header;
  if (first.size() < sizeof header) return file;
  memcpy(&header, first.data(), sizeof header);
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) return file;  // as the kernel
  const auto segments = ReadArray<Elf64_Phdr>(fd, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  if (segments.size() != header.e_phnum) return file;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_filesz < 2 || segment.p_filesz > kMostInterpreterBytes) return file;
    const std::string path = ReadAt(fd, segment.p_offset, segment.p_filesz);
    if (path.size() != segment.p_filesz || path.back() != '\0') return file;
    file.interpreter = TextAt(path, 0);
    break;
  }
  file.kind = ProgramFile::Kind::kElf;
  const Dynamic dynamic = ReadDynamic(fd, segments);
  if (file.interpreter.empty()) {
    file.is_loader = TextAt(dynamic.strings, dynamic.own_name) == "ld-linux-x86-64.so.2";
  } else {
    file.sanitizer = FindSanitizer(dynamic);
  }
  return file;
}

// "#! /usr/bin/env python3 -u\n" → "/usr/bin/env", "python3 -u"
ProgramFile ReadScript(std::string_view first) {
  ProgramFile file{.kind = ProgramFile::Kind::kScript};
  std::string_view line = first.substr(2);
  line = line.substr(0, line.find('\n'));
  line = line.substr(0, line.find('\0'));
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  const auto trim = [&] {
    while (!line.empty() && blank(line.front())) line.remove_prefix(1);
    while (!line.empty() && blank(line.back())) line.remove_suffix(1);
  };
  trim();
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  file.interpreter = std::string(line.substr(0, end));
  line.remove_prefix(end);
  trim();
  file.argument = std::string(line);
  return file;
}

}  // namespace

ProgramFile ReadProgramFile(const std::string& path) {
  // Not blocking: the path may be a pipe.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return {.kind = ProgramFile::Kind::kUnreadable};
  const std::string first = ReadAt(file.get(), 0, kFirstBytes);
  if (first.starts_with(ELFMAG)) return ReadElf(file.get(), first);
  if (first.starts_with("#!")) return ReadScript(first);
  return {.kind = first.find('\0') == std::string::npos ? ProgramFile::Kind::kText : ProgramFile::Kind::kOther};
}

}  // namespace holdfast
