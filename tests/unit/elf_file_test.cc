// ElfFile on complete and on damaged files: parts outside the file are missing, and nothing else is read.
#include "report/names/elf/elf_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

std::string OwnBytes() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The first bytes of a file with a header, two segments, and sections: none, "GNU" notes with the id ab cd, names.
struct Made {
  Elf64_Ehdr header = {};
  Elf64_Phdr segments[2] = {};
  Elf64_Shdr sections[3] = {};
  struct {
    Elf64_Nhdr note = {4, 2, NT_GNU_BUILD_ID};
    char name[4] = {'G', 'N', 'U', '\0'};
    unsigned char id[4] = {0xab, 0xcd, 0, 0};
  } notes;
  char names[16] = "\0.notes\0.names";

  Made() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_phoff = offsetof(Made, segments);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    header.e_shoff = offsetof(Made, sections);
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = 3;
    header.e_shstrndx = 2;
    sections[1] = {.sh_name = 1, .sh_type = SHT_NOTE, .sh_offset = offsetof(Made, notes), .sh_size = sizeof notes};
    sections[2] = {.sh_name = 8, .sh_type = SHT_STRTAB, .sh_offset = offsetof(Made, names), .sh_size = sizeof names};
  }
  std::string Bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};

std::unique_ptr<ElfFile> Changed(const std::function<void(Made&)>& change) {
  Made made;
  change(made);
  return ElfFile::InMemory(made.Bytes());
}

TEST(ElfFile, AWholeFileHasSegmentsSectionsNamesAndABuildId) {
  const auto file = Changed([](Made&) {});
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->is_x86_64());
  EXPECT_EQ(file->type(), ET_DYN);
  EXPECT_EQ(file->segments().size(), 2u);
  ASSERT_EQ(file->sections().size(), 3u);
  EXPECT_EQ(file->NameOf(file->sections()[1]), ".notes");
  EXPECT_EQ(file->NameOf(file->sections()[0]), "");
  EXPECT_EQ(file->BuildId(), "abcd");
  EXPECT_EQ(file->TextAt(file->sections()[2], 8, 6), ".names");
  EXPECT_EQ(file->TextAt(file->sections()[2], 8, 5), "") << "longer than asked for";
}

TEST(ElfFile, ADescriptorGivesTheSame) {
  const FileDescriptor fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto file = ElfFile::Open(fd.get());
  const auto memory = ElfFile::InMemory(OwnBytes());
  ASSERT_NE(file, nullptr);
  ASSERT_NE(memory, nullptr);
  EXPECT_FALSE(file->BuildId().empty());
  EXPECT_EQ(file->BuildId(), memory->BuildId());
  ASSERT_EQ(file->sections().size(), memory->sections().size());
  for (size_t i = 0; i < file->sections().size(); ++i) {
    EXPECT_EQ(file->NameOf(file->sections()[i]), memory->NameOf(memory->sections()[i]));
  }
}

// As `strip --strip-section-headers` leaves them: the program still runs, and its dynamic linker finds the same symbols.
TEST(ElfFile, WithoutASectionTableItsSegmentsTellItsSymbolsAndBuildId) {
  std::string bytes = OwnBytes();
  const auto whole = ElfFile::InMemory(bytes);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.e_shoff = header.e_shnum = header.e_shstrndx = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  const auto file = ElfFile::InMemory(bytes);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->BuildId(), whole->BuildId());
  const auto exported = [](const ElfFile& elf) {
    std::vector<std::string> names;
    for (const Elf64_Shdr& section : elf.sections()) {
      const auto table = section.sh_type == SHT_DYNSYM ? elf.SymbolsOf(section, 64 << 20) : std::nullopt;
      if (!table) continue;
      for (const Elf64_Sym& symbol : table->symbols) names.push_back(elf.TextAt(*table->names, symbol.st_name, 10'000));
    }
    return names;
  };
  EXPECT_GT(exported(*whole).size(), 10u);
  EXPECT_EQ(exported(*file), exported(*whole));
  const auto relocations = [](const ElfFile& elf) {
    uint64_t most = 0;
    for (const Elf64_Shdr& section : elf.sections()) most += section.sh_type == SHT_RELA ? section.sh_size : 0;
    return most;
  };
  EXPECT_EQ(relocations(*file), relocations(*whole));
}

TEST(ElfFile, CutAnywhereItHasWhatIsThere) {
  const std::string whole = Made().Bytes();
  for (size_t size = 0; size <= whole.size(); ++size) {
    const auto file = ElfFile::InMemory(whole.substr(0, size));
    if (size < sizeof(Elf32_Ehdr)) {
      EXPECT_EQ(file, nullptr) << size;
      continue;
    }
    ASSERT_NE(file, nullptr) << size;
    EXPECT_EQ(file->segments().size(), size < offsetof(Made, sections) ? 0u : 2u) << size;
    EXPECT_EQ(file->sections().size(), size < offsetof(Made, notes) ? 0u : 3u) << size;
    EXPECT_EQ(file->BuildId(), size < offsetof(Made, names) ? "" : "abcd") << size;
    for (const Elf64_Shdr& section : file->sections()) file->NameOf(section);
  }
}

TEST(ElfFile, TablesOutsideTheFileAreIgnored) {
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_phoff = UINT64_MAX - 8; })->segments().empty());
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_phnum = 65535; })->segments().empty());
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_phentsize = 1; })->segments().empty());
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_shoff = UINT64_MAX; })->sections().empty());
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_shentsize = 0; })->sections().empty());
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_ident[EI_CLASS] = ELFCLASS32; })->sections().empty());
  EXPECT_TRUE(Changed([](Made& made) { made.header.e_ident[EI_DATA] = ELFDATA2MSB; })->segments().empty());
  EXPECT_EQ(Changed([](Made& made) { made.header.e_ident[EI_CLASS] = 7; }), nullptr);
  EXPECT_EQ(ElfFile::InMemory("!<arch>\n" + Made().Bytes()), nullptr);
}

TEST(ElfFile, TheFirstSectionTellsTheirNumberWhereTheHeaderCannot) {
  const auto more = [](uint64_t count) {
    return Changed([count](Made& made) {
      made.header.e_shnum = 0;
      made.header.e_shstrndx = SHN_XINDEX;
      made.sections[0].sh_size = count;
      made.sections[0].sh_link = 2;
    });
  };
  EXPECT_EQ(more(3)->sections().size(), 3u);
  EXPECT_EQ(more(3)->NameOf(more(3)->sections()[1]), ".notes");
  for (const uint64_t lie : {uint64_t{4}, uint64_t{1} << 58, UINT64_MAX}) EXPECT_TRUE(more(lie)->sections().empty());
}

TEST(ElfFile, SectionsThatAreNotInTheFileHaveNoBytes) {
  const auto bytes = [](const std::function<void(Elf64_Shdr&)>& change) {
    const auto file = Changed([&](Made& made) { change(made.sections[1]); });
    return file->BytesOf(file->sections()[1], 1 << 20).has_value();
  };
  EXPECT_TRUE(bytes([](Elf64_Shdr&) {}));
  EXPECT_FALSE(bytes([](Elf64_Shdr& section) { section.sh_size = 1000; }));
  EXPECT_FALSE(bytes([](Elf64_Shdr& section) { section.sh_size = UINT64_MAX; }));
  EXPECT_FALSE(bytes([](Elf64_Shdr& section) { section.sh_offset = UINT64_MAX - 4; }));
  EXPECT_FALSE(bytes([](Elf64_Shdr& section) { section.sh_type = SHT_NOBITS; }));
  EXPECT_FALSE(bytes([](Elf64_Shdr& section) { section.sh_flags = SHF_COMPRESSED; }));
  const auto file = Changed([](Made&) {});
  EXPECT_FALSE(file->BytesOf(file->sections()[1], 4).has_value()) << "larger than asked for";
  EXPECT_FALSE(file->SymbolsOf(file->sections()[1], 1 << 20).has_value()) << "its link is no section of strings";
}

TEST(ElfFile, DamagedNotesHaveNoBuildId) {
  const auto id = [](uint32_t name_size, uint32_t text_size, uint64_t alignment) {
    return Changed([&](Made& made) {
             made.notes.note.n_namesz = name_size;
             made.notes.note.n_descsz = text_size;
             made.sections[1].sh_addralign = alignment;
           })
        ->BuildId();
  };
  EXPECT_EQ(id(4, 2, 4), "abcd");
  EXPECT_EQ(id(4, 2, 8), "abcd") << "12 + 4 bytes are a multiple of 8 as well";
  EXPECT_EQ(id(4, 5, 4), "");
  EXPECT_EQ(id(3, 2, 4), "");
  EXPECT_EQ(id(UINT32_MAX, 2, 4), "");
  EXPECT_EQ(id(4, UINT32_MAX, 8), "");
}

}  // namespace
}  // namespace holdfast
