#include "report/names/elf/own_mappings.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include <memory>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"

namespace holdfast {

std::string OwnMappingsText(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr || !elf->is_readable()) return "";
  constexpr const char* kFunctions[] = {"mmap", "mmap64", "munmap", "mremap"};
  for (const Elf64_Shdr& section : elf->sections()) {
    if (section.sh_type != SHT_DYNSYM) continue;
    const auto table = elf->SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
    const auto names = table ? elf->BytesOf(*table->names, ElfSymbols::kMaxNameBytes) : std::nullopt;
    if (!names) return "";
    for (const char* function : kFunctions) {
      for (const Elf64_Sym& symbol : table->symbols) {
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names->size() ||
            strcmp(names->c_str() + symbol.st_name, function) != 0)
          continue;
        return fmt::format(
            "the executable defines {} itself, as gperftools' tcmalloc does: calls of it are not in map profiles",
            function);
      }
    }
  }
  return "";
}

}  // namespace holdfast
