#include "report/export/lock_names.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/elf/demangle.h"
#include "report/export/lock_comments.h"

namespace holdfast {
namespace {

struct Wanted {
  uint64_t elf_address;
  size_t number;
  std::string name;  // mangled
  uint64_t offset;   // into the symbol
};

std::string BuildIdOf(Elf* elf) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type != SHT_NOTE || header.sh_size > (1 << 20)) continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    GElf_Nhdr note;
    size_t name = 0, description = 0;
    for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name, &description)) > 0;) {
      const char* bytes = static_cast<const char*>(data->d_buf);
      if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || std::string_view(bytes + name, 3) != "GNU") continue;
      std::string id;
      for (size_t i = 0; i < std::min<size_t>(note.n_descsz, 64); ++i) {
        id += fmt::format("{:02x}", static_cast<unsigned char>(bytes[description + i]));
      }
      return id;
    }
  }
  return "";
}

constexpr uint64_t kMostSymbolBytes = uint64_t{256} << 20;

void FindNames(Elf* elf, std::vector<Wanted>* wanted) {
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM) ||
        header.sh_size > kMostSymbolBytes) {
      continue;
    }
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    for (size_t i = 0; i < data->d_size / sizeof(Elf64_Sym); ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      if (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_shndx == SHN_UNDEF) continue;
      for (Wanted& one : *wanted) {
        if (one.elf_address - symbol.st_value >= std::max<uint64_t>(symbol.st_size, 1) || !one.name.empty()) continue;
        const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (name == nullptr || *name == '\0' || std::string_view(name).size() > 4096) continue;
        one.name = std::string_view(name).substr(0, std::string_view(name).find('@', 1));
        one.offset = one.elf_address - symbol.st_value;
      }
    }
  }
}

// Only a regular file: the path comes from a table that anyone of the same user may have written. read(2), no mapping:
// a file that is cut short meanwhile would be SIGBUS.
void NameIn(const ModuleInfo& module, std::vector<Wanted>* wanted, Profile* profile) {
  if (!module.path.starts_with('/')) return;
  const int fd = open(module.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status;
  if (fd < 0) return;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    elf_version(EV_CURRENT);
    Elf* elf = elf_begin(fd, ELF_C_READ, nullptr);
    if (elf != nullptr && elf_kind(elf) == ELF_K_ELF && gelf_getclass(elf) == ELFCLASS64 &&
        BuildIdOf(elf) == module.build_id) {
      FindNames(elf, wanted);
    }
    elf_end(elf);
  }
  close(fd);
  for (const Wanted& one : *wanted) {
    if (one.name.empty()) continue;
    const std::string demangled = Demangle(one.name);
    const std::string offset = one.offset == 0 ? "" : fmt::format("+{}", one.offset);
    profile->AddComment(fmt::format("lock {} name: {}{} ({})", one.number, demangled.empty() ? one.name : demangled,
                                    offset, BaseName(module.path)));
  }
}

}  // namespace

void NameLocks(const Snapshot& snapshot, Profile* profile) {
  const std::vector<const LockInfo*> locks = LocksToWrite(snapshot);
  std::map<const ModuleInfo*, std::vector<Wanted>> by_module;
  for (size_t i = 0; i < locks.size(); ++i) {
    if (locks[i]->block_stack != kNoStack) continue;
    for (const ModuleInfo& module : snapshot.modules) {
      if (module.unloaded || locks[i]->address < module.start || locks[i]->address >= module.end) continue;
      by_module[&module].push_back({locks[i]->address - module.bias, i + 1, "", 0});
      break;
    }
  }
  for (auto& [module, wanted] : by_module) NameIn(*module, &wanted, profile);
}

}  // namespace holdfast
