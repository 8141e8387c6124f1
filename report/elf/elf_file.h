// An ELF file: its headers, segments, sections and build id, with every offset and size checked against the file. What
// reads ELF files stands on it: elf_symbols, executable_kind, dynamic_names, debug_file, build_id_index, and
// export/lock_names.
//
//   FileDescriptor fd = …;
//   const std::unique_ptr<ElfFile> file = ElfFile::Open(fd.get());      // null: not an ELF file
//   for (const Elf64_Shdr& section : file->sections()) {
//     if (file->NameOf(section) == ".gnu_debuglink") { auto bytes = file->BytesOf(section, 4096); … }
//   }
//
// The file is hostile: it is read with pread(2), never mapped (a mapped file that is cut short meanwhile is SIGBUS), and
// only what is asked for: Open reads the first 64 bytes, tables come with their first use. A table that does not lie in
// the file as a whole, or is larger than a limit, is an empty one. Only 64-bit little-endian files have tables here.
// One thread at a time.
#ifndef HOLDFAST_REPORT_ELF_ELF_FILE_H_
#define HOLDFAST_REPORT_ELF_ELF_FILE_H_

#include <elf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// At most 64 bytes of it, lower case: build ids have 20, or 8.
std::string Hexadecimal(std::string_view bytes);

class ElfFile {
 public:
  static constexpr uint64_t kMaxTableBytes = 64
                                             << 20;  // of segments, of sections, of sections' names: 1,000,000 sections
  static constexpr uint64_t kMaxNoteBytes = 1 << 20;  // of one section of notes
  static constexpr size_t kMaxNoteSections = 64;

  // `fd` stays the caller's and open. `first`: the file's first bytes, 64 or more or all, if somebody has them already.
  static std::unique_ptr<ElfFile> Open(int fd, std::string_view first = {});
  static std::unique_ptr<ElfFile> InMemory(std::string bytes);
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  // Of every ELF file, whatever its class and byte order.
  bool is_64_bit() const { return header_.e_ident[EI_CLASS] == ELFCLASS64; }
  bool is_little_endian() const { return header_.e_ident[EI_DATA] == ELFDATA2LSB; }
  uint16_t type() const { return type_; }
  uint16_t machine() const { return machine_; }
  // 64 bits and little-endian, with the whole of a header: what has tables here.
  bool is_readable() const { return readable_; }
  bool is_x86_64() const { return readable_ && machine_ == EM_X86_64; }

  uint64_t size() const { return size_; }  // of the file
  std::span<const Elf64_Phdr> segments() const;
  std::span<const Elf64_Shdr> sections() const;
  std::string_view NameOf(const Elf64_Shdr& section) const;  // "" when it has none

  // The whole of [offset, offset + size); false when the file does not have it.
  bool Read(uint64_t offset, uint64_t size, char* to) const;
  // As much of it as the file has.
  std::string ReadUpTo(uint64_t offset, uint64_t size) const;

  // Whether a section's bytes are in the file: it has some, at most `most`, and they are not compressed.
  bool HasBytes(const Elf64_Shdr& section, uint64_t most) const;
  std::optional<std::string> BytesOf(const Elf64_Shdr& section, uint64_t most) const;
  // Of a section of symbols of at most `most` bytes, and where their names are; nothing when either is damaged.
  struct Symbols {
    std::vector<Elf64_Sym> symbols;
    const Elf64_Shdr* names;  // one of sections()
  };
  std::optional<Symbols> SymbolsOf(const Elf64_Shdr& section, uint64_t most) const;
  // The text at `offset` of a section of strings; "" when it is longer than `most` or does not end.
  std::string TextAt(const Elf64_Shdr& strings, uint64_t offset, size_t most) const;

  // Lower-case hexadecimal; "" when the notes hold none, or are damaged.
  std::string BuildId() const;

 private:
  ElfFile() = default;
  bool Begin(std::string_view first);
  size_t ReadAt(uint64_t offset, uint64_t size, char* to) const;
  template <typename T>
  std::vector<T> Table(uint64_t offset, uint64_t count) const;

  int fd_ = -1;  // < 0: in memory_
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

#endif  // HOLDFAST_REPORT_ELF_ELF_FILE_H_
