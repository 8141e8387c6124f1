// An ELF file: its headers, segments, sections and build id. Every offset and size is checked against the file. All
// code that reads ELF files uses this class: elf_symbols, executable_kind, dynamic_names, debug_file, build_id_index
// and export/lock_names.
//
//   FileDescriptor fd = …;
//   const std::unique_ptr<ElfFile> file = ElfFile::Open(fd.get());      // null: not an ELF file
//   for (const Elf64_Shdr& section : file->sections()) {
//     if (file->NameOf(section) == ".gnu_debuglink") { auto bytes = file->BytesOf(section, 4096); … }
//   }
//
// The file is untrusted. It is read with pread(2) and never mapped, because truncating a mapped file causes SIGBUS.
// Only requested parts are read: Open reads the first 64 bytes, each table is read on first use. A table that is not
// entirely in the file, or exceeds a limit, is empty. Only 64-bit little-endian files have tables here.
// One thread at a time.
#ifndef HOLDFAST_REPORT_NAMES_ELF_ELF_FILE_H_
#define HOLDFAST_REPORT_NAMES_ELF_ELF_FILE_H_

#include <elf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Returns the build id in a notes section, in hexadecimal; "" if it has none. `alignment`: of its notes, 4 or 8.
std::string BuildIdIn(std::string_view notes, uint64_t alignment);
// Formats at most 64 bytes in lower case. Build ids have 20 bytes, or 8.
std::string Hexadecimal(std::string_view bytes);

class ElfFile {
 public:
  static constexpr uint64_t kMaxTableBytes = 64 << 20;  // segments, sections or section names: 1,000,000 sections
  static constexpr uint64_t kMaxNoteBytes = 1 << 20;    // for one section of notes
  static constexpr size_t kMaxNoteSections = 64;

  // The caller keeps `fd` open. `first`: the file's first bytes if already read, 64 or more, or the whole file.
  static std::unique_ptr<ElfFile> Open(int fd, std::string_view first = {});
  static std::unique_ptr<ElfFile> InMemory(std::string bytes);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // These functions work for every ELF file, whatever its class and byte order.
  bool is_64_bit() const { return header_.e_ident[EI_CLASS] == ELFCLASS64; }
  bool is_little_endian() const { return header_.e_ident[EI_DATA] == ELFDATA2LSB; }
  uint16_t type() const { return type_; }
  uint16_t machine() const { return machine_; }
  // Returns true for 64-bit little-endian files with a complete header. Only these have tables here.
  bool is_readable() const { return readable_; }
  bool is_x86_64() const { return readable_ && machine_ == EM_X86_64; }

  uint64_t size() const { return size_; }  // bytes of the file
  std::span<const Elf64_Phdr> segments() const;
  std::span<const Elf64_Shdr> sections() const;  // without section headers: unnamed ones, as the segments show them
  std::string_view NameOf(const Elf64_Shdr& section) const;  // "" = none

  // Reads all of [offset, offset + size). Returns false if the file does not contain the whole range.
  bool Read(uint64_t offset, uint64_t size, char* to) const;
  // Reads at most `size` bytes, fewer at the end of the file.
  std::string ReadUpTo(uint64_t offset, uint64_t size) const;

  // Returns whether the section has uncompressed bytes in the file, from 1 to `most`.
  bool HasBytes(const Elf64_Shdr& section, uint64_t most) const;
  std::optional<std::string> BytesOf(const Elf64_Shdr& section, uint64_t most) const;
  // The symbols of a symbol section of at most `most` bytes, and the section with their names. Nothing if either is
  // damaged.
  struct Symbols {
    std::vector<Elf64_Sym> symbols;
    const Elf64_Shdr* names;  // points into sections()
  };
  std::optional<Symbols> SymbolsOf(const Elf64_Shdr& section, uint64_t most) const;
  // Returns the text at `offset` of a string section; "" if it is longer than `most` or unterminated.
  std::string TextAt(const Elf64_Shdr& strings, uint64_t offset, size_t most) const;

  // Lower-case hexadecimal; "" if the notes have no build id or are damaged.
  std::string BuildId() const;

 private:
  ElfFile() = default;
  bool Begin(std::string_view first);
  size_t ReadAt(uint64_t offset, uint64_t size, char* to) const;
  template <typename T>
  std::vector<T> Table(uint64_t offset, uint64_t count) const;

  int fd_ = -1;  // < 0: use memory_
  std::string memory_;
  uint64_t size_ = 0;
  Elf64_Ehdr header_ = {};
  bool readable_ = false;
  uint16_t type_ = 0, machine_ = 0;
  mutable std::optional<std::vector<Elf64_Phdr>> segments_;
  mutable std::optional<std::vector<Elf64_Shdr>> sections_;
  mutable std::optional<std::string> section_names_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_ELF_FILE_H_
