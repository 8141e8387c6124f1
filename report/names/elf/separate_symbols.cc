#include "report/names/elf/separate_symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "fmt/format.h"

namespace holdfast {
namespace {

// The name in .gnu_debuglink; "": none.
std::string DebugLinkOf(const ElfFile& elf) {
  constexpr uint64_t kMaxBytes = 260;  // the longest name, its end, and a checksum
  for (const Elf64_Shdr& section : elf.sections()) {
    if (elf.NameOf(section) != ".gnu_debuglink") continue;
    const std::optional<std::string> bytes = elf.BytesOf(section, kMaxBytes);
    const std::string name = bytes ? bytes->substr(0, bytes->find('\0')) : "";
    return name.find('/') == std::string::npos ? name : "";
  }
  return "";
}

// The process knows its file by the path without links.
std::string FolderWithoutLinks(const std::string& root, const std::string& path) {
  char* const real = root.empty() ? realpath(path.c_str(), nullptr) : nullptr;
  std::string folder = real != nullptr ? real : path;
  free(real);
  return folder.substr(0, folder.rfind('/') + 1);
}

bool HasSymbols(const ElfFile& elf) {
  return std::any_of(elf.sections().begin(), elf.sections().end(),
                     [](const Elf64_Shdr& section) { return section.sh_type == SHT_SYMTAB; });
}

}  // namespace

SeparateSymbols OpenSeparateSymbols(const ElfFile& program, const std::string& root, const std::string& path) {
  constexpr char kRoot[] = "/usr/lib/debug";
  const std::string id = program.BuildId(), link = DebugLinkOf(program), folder = FolderWithoutLinks(root, path);
  if (id.size() < 4) return {};
  std::vector<std::string> candidates = {fmt::format("{}/.build-id/{}/{}.debug", kRoot, id.substr(0, 2), id.substr(2))};
  if (!link.empty())
    candidates.insert(candidates.end(),
                      {folder + link, folder + ".debug/" + link, kRoot + folder + link, kRoot + ("/" + link)});
  for (const std::string& candidate : candidates) {
    SeparateSymbols found;
    found.file = FileDescriptor(open((root + candidate).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat info;
    if (!found.file.valid() || fstat(found.file.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    found.elf = ElfFile::Open(found.file.get());
    if (found.elf != nullptr && found.elf->BuildId() == id && HasSymbols(*found.elf)) return found;
  }
  return {};
}

}  // namespace holdfast
