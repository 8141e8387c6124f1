#include "report/names/elf/dynamic_names.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"
#include "sampler/entries/entry_plan.h"

namespace holdfast {
namespace {

// Functions of statically linked allocators with their own names. Their blocks never pass through malloc.
constexpr std::string_view kOwnAllocators[] = {
    "_rjem_malloc",   "_rjem_je_malloc",        "je_malloc",     "jemalloc_malloc", "tc_malloc_skip_new_handler",
    "mi_heap_malloc", "TCMallocInternalMalloc", "sn_rust_alloc", "sn_malloc",       "rpmalloc"};

// Namespaces with locks that spin, as names are mangled: how these begin, and what they contain as well.
constexpr struct {
  std::string_view start, part, scope;
} kScopes[] = {{"_ZN3tbb", "", "tbb"},
               {"_ZN5folly", "", "folly"},
               {"_ZN16parking_lot_core", "", "parking_lot_core"},
               {"_ZN4absl", "5Mutex", "absl"}};

void AddScope(std::string_view name, DynamicNames* object) {
  for (const auto& [start, part, scope] : kScopes) {
    if (name.starts_with(start) && name.find(part) != name.npos) object->scopes.emplace(scope);
  }
}

// The symbols that .symtab defines.
struct Hidden {
  bool allocates = false, frees = false;
};

void TakeSymbols(const ElfFile& elf, const Elf64_Shdr& section, DynamicNames* object, Hidden* hidden) {
  const auto table = elf.SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
  if (!table) return;
  const bool dynamic = section.sh_type == SHT_DYNSYM;
  if (!dynamic) object->has_symtab = true;
  const auto names = elf.BytesOf(*table->names, ElfSymbols::kMaxNameBytes);
  if (!names) return;
  if (!dynamic && MayNameAllocator(names->data(), names->size())) object->may_name_allocator = true;
  for (size_t i = 1; i < table->symbols.size(); ++i) {
    const Elf64_Sym& symbol = table->symbols[i];
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && !(type == STT_NOTYPE && symbol.st_shndx == SHN_UNDEF)) continue;
    if (symbol.st_name >= names->size()) continue;
    const char* name = names->c_str() + symbol.st_name;
    if (*name == '\0') continue;
    if (dynamic) {
      (symbol.st_shndx == SHN_UNDEF ? object->needs : object->defines).insert(name);
      if (strcmp(name, "malloc") == 0 && ELF64_ST_VISIBILITY(symbol.st_other) == STV_PROTECTED)
        object->is_symbolic = true;
    }
    if (symbol.st_shndx != SHN_UNDEF && object->own_allocator.empty() &&
        std::find(std::begin(kOwnAllocators), std::end(kOwnAllocators), name) != std::end(kOwnAllocators)) {
      object->own_allocator = name;
    }
    if (strncmp(name, "rawAlloc__system", strlen("rawAlloc__system")) == 0) object->has_nims_heap = true;
    if (name[0] == '_' && name[1] == 'Z') AddScope(name, object);
    if (!dynamic && symbol.st_shndx != SHN_UNDEF) {
      hidden->allocates = hidden->allocates || strcmp(name, "malloc") == 0;
      hidden->frees = hidden->frees || strcmp(name, "free") == 0;
    }
    if (symbol.st_shndx != SHN_UNDEF && StartsOpenMpRegion(name)) object->has_openmp = true;
    const bool throws = strcmp(name, "__cxa_throw") == 0 || strcmp(name, "_Unwind_RaiseException") == 0;
    if (throws && !dynamic && symbol.st_shndx != SHN_UNDEF) object->throws_itself = true;
  }
}

bool IsSymbolic(const ElfFile& elf, const Elf64_Shdr& section) {
  constexpr uint64_t kMaxDynamicBytes = 1 << 20;
  const auto bytes = elf.BytesOf(section, kMaxDynamicBytes);
  Elf64_Dyn entry;
  for (size_t at = 0; bytes && at + sizeof entry <= bytes->size(); at += sizeof entry) {
    memcpy(&entry, bytes->data() + at, sizeof entry);
    if (entry.d_tag == DT_SYMBOLIC || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_SYMBOLIC) != 0)) return true;
  }
  return false;
}

}  // namespace

bool DynamicNames::may_have_own_allocator() const {
  const bool gets = std::any_of(std::begin(kGetMemory), std::end(kGetMemory),
                                [this](const char* name) { return needs.contains(name); });
  return gets && needs.contains(kGivesMemoryBack);
}

bool StartsOpenMpRegion(std::string_view function) {
  constexpr std::string_view kStarts[] = {"GOMP_parallel", "GOMP_teams_reg", "__kmpc_fork_"};
  return std::any_of(std::begin(kStarts), std::end(kStarts),
                     [function](std::string_view start) { return function.starts_with(start); });
}

absl::StatusOr<DynamicNames> ReadDynamicNames(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, "cannot be read");
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("not a regular file");
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(file.get());
  if (elf == nullptr) return absl::InvalidArgumentError("not an ELF file");
  DynamicNames object;
  object.build_id = elf->BuildId();
  Hidden hidden;
  for (const Elf64_Shdr& section : elf->sections()) {
    if (elf->NameOf(section) == ".go.buildinfo") object.is_go = true;
    if (section.sh_type == SHT_DYNAMIC && IsSymbolic(*elf, section)) object.is_symbolic = true;
    if (section.sh_type != SHT_DYNSYM && section.sh_type != SHT_SYMTAB) continue;
    if (section.sh_size > ElfSymbols::kMaxSymbolBytes)
      return absl::InvalidArgumentError("its symbol table is too large");
    TakeSymbols(*elf, section, &object, &hidden);
  }
  object.has_hidden_malloc =
      hidden.allocates && hidden.frees && !(object.defines.contains("malloc") && object.defines.contains("free"));
  for (const char* name : {"__cxa_throw", "_Unwind_RaiseException"}) {
    if (object.defines.contains(name)) object.throws_itself = false;  // its calls are seen
  }
  return object;
}

}  // namespace holdfast
