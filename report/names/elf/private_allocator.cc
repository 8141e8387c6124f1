#include "report/names/elf/private_allocator.h"

#include <elf.h>
#include <fcntl.h>

#include <memory>
#include <optional>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/allocator_text.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"

namespace holdfast {
namespace {

bool ListsSymbol(std::string_view names, std::string_view name) {
  for (size_t at = names.find(name); at != std::string_view::npos; at = names.find(name, at + 1)) {
    const size_t end = at + name.size();
    if (at > 0 && names[at - 1] == '\0' && end < names.size() && names[end] == '\0') return true;
  }
  return false;
}

// Python's own copy of mimalloc serves Python objects, if anything. Those are described as Python's.
bool IsPython(std::string_view library) { return library.starts_with("libpython"); }

}  // namespace

std::string PrivateAllocatorText(std::string_view library, const std::string& path, const DynamicNames& names) {
  const bool replaces_malloc = names.defines.contains("malloc") && names.defines.contains("free");
  std::string what;
  if (replaces_malloc) {
    if (!names.is_symbolic) return "";
    what = "a malloc of its own, bound by -Bsymbolic or protected visibility";
  } else if (!names.own_allocator.empty()) {
    what = fmt::format("an allocator of its own ({})", names.own_allocator);
  } else if (names.has_hidden_malloc) {
    what = "a hidden malloc of its own";
  } else if (MayHavePrivateAllocator(path) && !IsPython(library)) {
    const std::string allocator = AllocatorByText(path);
    if (!allocator.empty()) what = allocator + " linked in";
  }
  if (what.empty()) return "";
  if (names.defines.contains(names.own_allocator))
    return fmt::format("{} has {}: calls of it by {} itself, and by libraries that dlopen loads, are not seen", library,
                       what, library);
  return fmt::format("{} has {}: what {} itself takes from it is not seen", library, what, library);
}

bool MayHavePrivateAllocator(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr || !elf->is_readable()) return false;
  for (const Elf64_Shdr& section : elf->sections()) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= elf->sections().size()) continue;
    const std::optional<std::string> names = elf->BytesOf(elf->sections()[section.sh_link], ElfSymbols::kMaxNameBytes);
    return names.has_value() && ListsSymbol(*names, "madvise") &&
           (ListsSymbol(*names, "mmap") || ListsSymbol(*names, "mmap64"));
  }
  return false;
}

}  // namespace holdfast
