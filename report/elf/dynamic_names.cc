#include "report/elf/dynamic_names.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "report/elf/elf_symbols.h"
#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

// Allocators under names of their own, as programs link them in: blocks of these never pass through malloc.
constexpr std::string_view kOwnAllocators[] = {"_rjem_malloc", "_rjem_je_malloc", "je_malloc", "jemalloc_malloc",
                                               "tc_malloc_skip_new_handler", "mi_heap_malloc", "rpmalloc"};

class Reader {
 public:
  Reader(Elf* elf, ObjectFile* object) : elf_(elf), object_(object) {}

  absl::Status Read() {
    size_t names = 0;
    if (elf_kind(elf_) != ELF_K_ELF || elf_getshdrstrndx(elf_, &names) != 0) return absl::InvalidArgumentError("not an ELF file");
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf_, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      const char* name = elf_strptr(elf_, names, header.sh_name);
      if (name != nullptr && strcmp(name, ".go.buildinfo") == 0) object_->is_go = true;
      if (header.sh_type == SHT_NOTE) ReadNotes(section);
      if (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB) continue;
      if (header.sh_size > ElfSymbols::kMaxSymbolBytes) return absl::InvalidArgumentError("its symbol table is too large");
      ReadSymbols(section, header);
    }
    return absl::OkStatus();
  }

 private:
  void ReadNotes(Elf_Scn* section) {
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || data->d_size > (1 << 20)) return;
    GElf_Nhdr note;
    size_t name_at, text_at;
    for (size_t at = 0; (at = gelf_getnote(data, at, &note, &name_at, &text_at)) > 0;) {
      const auto* bytes = static_cast<const char*>(data->d_buf);
      if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(bytes + name_at, "GNU", 4) != 0) continue;
      object_->build_id = absl::BytesToHexString(absl::string_view(bytes + text_at, note.n_descsz));
    }
  }

  void ReadSymbols(Elf_Scn* section, const GElf_Shdr& header) {
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) return;
    const bool dynamic = header.sh_type == SHT_DYNSYM;
    if (!dynamic) object_->has_symtab = true;
    const size_t count = data->d_size / sizeof(Elf64_Sym);
    for (size_t i = 1; i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
      const int type = GELF_ST_TYPE(symbol.st_info);
      if (type != STT_FUNC && type != STT_GNU_IFUNC && !(type == STT_NOTYPE && symbol.st_shndx == SHN_UNDEF)) continue;
      const char* name = elf_strptr(elf_, header.sh_link, symbol.st_name);
      if (name == nullptr || *name == '\0') continue;
      if (dynamic) {
        (symbol.st_shndx == SHN_UNDEF ? object_->needs : object_->defines).insert(name);
      }
      if (symbol.st_shndx != SHN_UNDEF && object_->own_allocator.empty() &&
          std::find(std::begin(kOwnAllocators), std::end(kOwnAllocators), name) != std::end(kOwnAllocators)) {
        object_->own_allocator = name;
      }
    }
  }

  Elf* elf_;
  ObjectFile* object_;
};

}  // namespace

absl::StatusOr<ObjectFile> ReadObjectFile(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot be read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file");
  elf_version(EV_CURRENT);
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_begin(file.get(), ELF_C_READ, nullptr), elf_end);
  if (elf == nullptr) return absl::InvalidArgumentError("not an ELF file");
  ObjectFile object;
  if (const absl::Status status = Reader(elf.get(), &object).Read(); !status.ok()) return status;
  return object;
}

}  // namespace holdfast
