#include "report/builder/symbols_in_memory.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/names/elf/elf_file.h"
#include "report/observe/table/headers_of_module.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaxTable = 16 << 20;  // for symbols, and for names
constexpr uint64_t kMaxNotes = 64 << 10;
constexpr uint32_t kMaxSymbols = kMaxTable / sizeof(Elf64_Sym), kMaxBuckets = 1 << 20;

class ModuleInMemory {
 public:
  ModuleInMemory(pid_t pid, const ModuleInfo& module) : memory_(pid), module_(module) {}

  // Returns the bytes of the file; "" if it cannot be made.
  std::string Make() {
    segments_ = ReadProgramHeaders(memory_, module_.start, &head_);
    if (segments_.empty()) return "";
    ReadNotesAndDynamic();
    const std::optional<uint32_t> count = CountSymbols();
    if (!count.has_value() || symbols_ == 0 || names_ == 0 || names_size_ == 0 || names_size_ > kMaxTable) return "";
    std::string symbols(*count * sizeof(Elf64_Sym), '\0'), names(names_size_, '\0');
    if (!memory_.Read(symbols_, symbols.data(), symbols.size()) || !memory_.Read(names_, names.data(), names.size()))
      return "";
    return File(symbols, names);
  }

 private:
  void ReadNotesAndDynamic() {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_NOTE && segment.p_memsz <= kMaxNotes) {
        std::string notes(segment.p_memsz, '\0');
        // Use one notes section for one segment, because segments differ in alignment.
        if (notes_.empty() && memory_.Read(module_.bias + segment.p_vaddr, notes.data(), notes.size()) &&
            !BuildIdIn(notes, segment.p_align == 8 ? 8 : 4).empty()) {
          notes_ = notes;
          notes_align_ = segment.p_align;
        }
      }
      if (segment.p_type != PT_DYNAMIC) continue;
      for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= std::min<uint64_t>(segment.p_memsz, kMaxNotes);
           at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn one;
        if (!memory_.Read(module_.bias + segment.p_vaddr + at, &one, sizeof one) || one.d_tag == DT_NULL) break;
        // The loader has relocated these addresses if the section is writable.
        const uint64_t address = one.d_un.d_ptr < module_.start ? one.d_un.d_ptr + module_.bias : one.d_un.d_ptr;
        if (one.d_tag == DT_SYMTAB) symbols_ = address;
        if (one.d_tag == DT_STRTAB) names_ = address;
        if (one.d_tag == DT_STRSZ) names_size_ = one.d_un.d_val;
        if (one.d_tag == DT_HASH) hash_ = address;
        if (one.d_tag == DT_GNU_HASH) gnu_hash_ = address;
      }
    }
  }

  // No table has the number of symbols, but the hash tables name the last symbol.
  std::optional<uint32_t> CountSymbols() const {
    uint32_t words[4];
    if (hash_ != 0 && memory_.Read(hash_, words, 2 * sizeof(uint32_t)))
      return words[1] <= kMaxSymbols ? std::optional(words[1]) : std::nullopt;
    if (gnu_hash_ == 0 || !memory_.Read(gnu_hash_, words, sizeof words)) return std::nullopt;
    const uint32_t buckets = words[0], first = words[1], bloom = words[2];
    if (buckets > kMaxBuckets || bloom > kMaxBuckets) return std::nullopt;
    const uint64_t buckets_at = gnu_hash_ + sizeof words + bloom * sizeof(uint64_t);
    std::vector<uint32_t> heads(buckets);
    if (!memory_.Read(buckets_at, heads.data(), heads.size() * sizeof(uint32_t))) return std::nullopt;
    uint32_t last = heads.empty() ? 0 : *std::max_element(heads.begin(), heads.end());
    if (last < first) return first;
    const uint64_t chains_at = buckets_at + buckets * sizeof(uint32_t);
    for (; last < kMaxSymbols; ++last) {
      uint32_t chain = 1;
      if (!memory_.Read(chains_at + (last - first) * sizeof(uint32_t), &chain, sizeof chain)) return std::nullopt;
      if ((chain & 1) != 0) return last + 1;
    }
    return std::nullopt;
  }

  std::string File(const std::string& symbols, const std::string& names) const {
    constexpr char kSectionNames[] = "\0.note.gnu.build-id\0.dynsym\0.dynstr\0.shstrtab";
    std::string file(sizeof(Elf64_Ehdr), '\0');
    file.append(reinterpret_cast<const char*>(segments_.data()), segments_.size() * sizeof(Elf64_Phdr));
    std::vector<Elf64_Shdr> sections(1);
    const auto add = [&](uint32_t name, uint32_t type, std::string_view bytes, uint64_t align) {
      file.resize((file.size() + 15) / 16 * 16);
      Elf64_Shdr section = {};
      section.sh_name = name;
      section.sh_type = type;
      section.sh_offset = file.size();
      section.sh_size = bytes.size();
      section.sh_addralign = align;
      sections.push_back(section);
      file += bytes;
    };
    add(1, SHT_NOTE, notes_, notes_align_);
    add(20, SHT_DYNSYM, symbols, 8);
    sections.back().sh_link = 3;
    sections.back().sh_entsize = sizeof(Elf64_Sym);
    add(28, SHT_STRTAB, names, 1);
    add(36, SHT_STRTAB, std::string_view(kSectionNames, sizeof kSectionNames), 1);
    file.resize((file.size() + 15) / 16 * 16);
    Elf64_Ehdr head = head_;
    head.e_phoff = sizeof(Elf64_Ehdr);
    head.e_shoff = file.size();
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shnum = static_cast<uint16_t>(sections.size());
    head.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
    memcpy(file.data(), &head, sizeof head);
    file.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
    return file;
  }

  const ProcessMemory memory_;
  const ModuleInfo& module_;
  Elf64_Ehdr head_ = {};
  std::vector<Elf64_Phdr> segments_;
  std::string notes_;
  uint64_t notes_align_ = 4;
  uint64_t symbols_ = 0, names_ = 0, names_size_ = 0, hash_ = 0, gnu_hash_ = 0;
};

}  // namespace

FileDescriptor SymbolsInMemory(pid_t pid, const ModuleInfo& module) {
  const std::string bytes = ModuleInMemory(pid, module).Make();
  if (bytes.empty()) return {};
  return FileInMemory(bytes);
}

}  // namespace holdfast
