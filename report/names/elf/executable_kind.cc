#include "report/names/elf/executable_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/processors.h"

namespace holdfast {
namespace {

// The kernel reads this many bytes to recognize a file (BINPRM_BUF_SIZE).
constexpr size_t kFirstBytes = 256;
constexpr uint64_t kMaxDynamicBytes = 1 << 20;
constexpr uint64_t kMaxStringBytes = 32 << 20;
constexpr uint64_t kMaxInterpreterBytes = 4096;  // PATH_MAX, the kernel's limit

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case kOwnMachine:
      return "";
#if !defined(__x86_64__)
    case EM_X86_64:
      return "x86-64";
#endif
    case EM_386:
      return "x86";
#if !defined(__aarch64__)
    case EM_AARCH64:
      return "aarch64";
#endif
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

// The relevant entries of the dynamic section.
struct Dynamic {
  std::string strings;
  std::vector<uint64_t> needed;  // offsets into `strings`
  uint64_t own_name = UINT64_MAX;
};

Dynamic ReadDynamic(const ElfFile& elf) {
  Dynamic result;
  const auto segments = elf.segments();
  const auto dynamic_segment =
      std::find_if(segments.begin(), segments.end(), [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
  if (dynamic_segment == segments.end()) return result;
  const std::string dynamic =
      elf.ReadUpTo(dynamic_segment->p_offset, std::min(dynamic_segment->p_filesz, kMaxDynamicBytes));
  uint64_t strings_address = 0, strings_bytes = 0;
  Elf64_Dyn entry;
  for (size_t at = 0; dynamic.size() - at >= sizeof entry; at += sizeof entry) {
    memcpy(&entry, dynamic.data() + at, sizeof entry);
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
        elf.ReadUpTo(segment.p_offset + within, std::min({strings_bytes, segment.p_filesz - within, kMaxStringBytes}));
  }
  return result;
}

// Recognizes a sanitizer by a needed library, or by the exported names of a linked-in runtime.
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

// musl 1.2.2 added _Fork together with the support for another malloc. Its dynamic linker is its libc. False: unknown.
bool IsOldMusl(const std::string& linker) {
  const FileDescriptor file(open(linker.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  const std::string strings = elf != nullptr ? ReadDynamic(*elf).strings : "";
  const auto has = [&strings](std::string_view name) {
    return strings.find('\0' + std::string(name) + '\0') != std::string::npos;
  };
  return has("pthread_create") && !has("_Fork");
}

ExecutableKind ReadElf(int fd, std::string_view first) {
  ExecutableKind file{.kind = ExecutableKind::Kind::kBadElf};
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(fd, first);
  if (elf == nullptr || (elf->type() != ET_EXEC && elf->type() != ET_DYN)) return file;
  file.is_64_bit = elf->is_64_bit();
  file.machine = MachineName(elf->machine());
  if (!file.is_64_bit || !file.machine.empty() || !elf->is_little_endian()) {
    file.kind = ExecutableKind::Kind::kElf;
    return file;
  }
  if (elf->segments().empty()) return file;  // the kernel does not run such a file either
  for (const Elf64_Phdr& segment : elf->segments()) {
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_filesz < 2 || segment.p_filesz > kMaxInterpreterBytes) return file;
    const std::string path = elf->ReadUpTo(segment.p_offset, segment.p_filesz);
    if (path.size() != segment.p_filesz || path.back() != '\0') return file;
    file.interpreter = TextAt(path, 0);
    break;
  }
  file.kind = ExecutableKind::Kind::kElf;
  const Dynamic dynamic = ReadDynamic(*elf);
  file.is_musl = file.interpreter.find("ld-musl") != std::string::npos;
  for (const uint64_t offset : dynamic.needed) {
    const std::string needed = TextAt(dynamic.strings, offset);
    file.is_musl = file.is_musl || needed == "libc.so" || needed.starts_with("libc.musl-");
  }
  file.is_old_musl = file.is_musl && !file.interpreter.empty() && IsOldMusl(file.interpreter);
  if (file.interpreter.empty()) {
    file.is_loader = TextAt(dynamic.strings, dynamic.own_name) == BaseName(kOwnLoader);
  } else {
    file.sanitizer = FindSanitizer(dynamic);
  }
  return file;
}

// "#! /usr/bin/env python3 -u\n" → "/usr/bin/env", "python3 -u"
ExecutableKind ReadScript(std::string_view first) {
  ExecutableKind file{.kind = ExecutableKind::Kind::kScript};
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

ExecutableKind ReadExecutableKind(const std::string& path) {
  // O_NONBLOCK, because the path may lead to a pipe.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return {.kind = ExecutableKind::Kind::kUnreadable};
  std::array<char, kFirstBytes> bytes;
  struct stat info;
  const ssize_t got =
      fstat(file.get(), &info) == 0 && info.st_size > 0 ? pread(file.get(), bytes.data(), bytes.size(), 0) : 0;
  const std::string_view first(bytes.data(), got > 0 ? static_cast<size_t>(got) : 0);
  if (first.starts_with(ELFMAG)) return ReadElf(file.get(), first);
  if (first.starts_with("#!")) return ReadScript(first);
  return {.kind =
              first.find('\0') == std::string_view::npos ? ExecutableKind::Kind::kText : ExecutableKind::Kind::kOther};
}

}  // namespace holdfast
