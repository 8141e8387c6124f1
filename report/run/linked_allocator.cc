#include "report/run/linked_allocator.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/value_units.h"
#include "report/names/elf/allocator_text.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"
#include "report/names/elf/inlined_allocator.h"
#include "report/names/elf/processors.h"
#include "report/names/elf/separate_symbols.h"
#include "report/observe/table/entry_text.h"
#include "sampler/entries/allocator_symbols.h"
#include "sampler/entries/entry_plan.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;

std::unique_ptr<ElfFile> OpenElf(const std::string& path, FileDescriptor* file) {
  *file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::unique_ptr<ElfFile> elf = file->valid() ? ElfFile::Open(file->get()) : nullptr;
  return elf != nullptr && elf->is_x86_64() ? std::move(elf) : nullptr;
}

// A copy of an executable's segments, at their distances from each other, with its symbols.
class FileImage {
 public:
  // False: it is not an executable that can be judged.
  bool Read(const std::string& path, const std::string& root, Entries wanted, bool expects_allocator) {
    FileDescriptor descriptor;
    const std::unique_ptr<ElfFile> elf = OpenElf(path, &descriptor);
    if (elf == nullptr) return false;
    uint64_t low = UINT64_MAX, high = 0;
    for (const Elf64_Phdr& segment : elf->segments()) {
      if (segment.p_type != PT_LOAD || segment.p_filesz == 0) continue;
      if (segment.p_vaddr > UINT64_MAX / 2 || segment.p_filesz > kMaxImageBytes) return false;
      low = std::min(low, segment.p_vaddr);
      high = std::max(high, segment.p_vaddr + segment.p_filesz);
    }
    if (low >= high || high - low > kMaxImageBytes) return false;
    // Addresses are in the same place of a page as in the process: a jump may not cross its end.
    constexpr uintptr_t kPage = 4096;
    bytes_.resize(high - low + 2 * kPage);
    image_.bias = (reinterpret_cast<uintptr_t>(bytes_.data()) + kPage - low / kPage * kPage) / kPage * kPage;
    for (const Elf64_Phdr& segment : elf->segments()) {
      const uintptr_t start = image_.bias + segment.p_vaddr;
      if (segment.p_type == PT_GNU_EH_FRAME) image_.unwind_table = start;
      if (segment.p_type != PT_LOAD || segment.p_filesz == 0 || (segment.p_flags & PF_R) == 0 ||
          image_.segment_count == ExecutableImage::kMaxSegments)
        continue;
      if (!elf->Read(segment.p_offset, segment.p_filesz, reinterpret_cast<char*>(start))) return false;
      image_.segments[image_.segment_count++] = {start, start + segment.p_filesz, (segment.p_flags & PF_X) != 0,
                                                 (segment.p_flags & PF_W) != 0};
    }
    FindRestartable(*elf);
    if (expects_allocator) found_.ExpectSome();
    ReadSymbols(*elf, SHT_DYNSYM, &exported_, &image_.dynamic, [](size_t, size_t) { return SymbolReading::kAll; });
    image_.exported = image_.dynamic;
    const auto how = [this, wanted](size_t symbol_bytes, size_t name_bytes) {
      if (wanted == Entries::kNo) return SymbolReading::kNone;
      const auto reading = HowToReadSymbols(symbol_bytes, name_bytes, DefinesPlainNames(image_.exported), wanted);
      if (reading == SymbolReading::kNone) unread_bytes_ = symbol_bytes + name_bytes;
      return reading;
    };
    if (!ReadSymbols(*elf, SHT_SYMTAB, &all_, &image_.all, how)) {
      const SeparateSymbols debug = OpenSeparateSymbols(*elf, root, path.substr(root.size()));
      if (debug.elf != nullptr && ReadSymbols(*debug.elf, SHT_SYMTAB, &all_, &image_.all, how))
        image_.all.is_separate = true;
    }
    return true;
  }

  const ExecutableImage& image() const { return image_; }
  // Of .symtab and its names, if they are too large to be read in a process.
  size_t unread_bytes() const { return image_.all.count == 0 ? unread_bytes_ : 0; }

 private:
  struct Symbols {
    std::vector<Elf64_Sym> symbols;
    std::string names;
  };

  bool ReadSymbols(const ElfFile& elf, uint32_t type, Symbols* to, SymbolList* list, auto how) {
    for (const Elf64_Shdr& section : elf.sections()) {
      if (section.sh_type != type) continue;
      auto read = elf.SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
      const SymbolReading reading = read ? how(section.sh_size, read->names->sh_size) : SymbolReading::kNone;
      if (reading == SymbolReading::kNone) return false;
      if (reading == SymbolReading::kGlobal) {  // as the process does, so that the answer is the same
        const auto bytes_of = [](void* context, uint64_t offset, void* to, size_t bytes) {
          return static_cast<const ElfFile*>(context)->Read(offset, bytes, static_cast<char*>(to));
        };
        const auto searched = found_.Search(section, *read->names, bytes_of, const_cast<ElfFile*>(&elf));
        if (searched == AllocatorSymbols::Result::kTooLarge) unread_bytes_ = section.sh_size + read->names->sh_size;
        if (searched != AllocatorSymbols::Result::kDone) return false;
        *list = found_.list();
        return true;
      }
      auto names = elf.BytesOf(*read->names, ElfSymbols::kMaxNameBytes);
      if (!names) return false;
      to->symbols = std::move(read->symbols);
      to->names = *std::move(names);
      *list = {to->symbols.data(), to->symbols.size(), to->names.c_str(), to->names.size()};
      return true;
    }
    return false;
  }

  // As interpose/entries/executable_file.cc does in memory. The words of a file are 0 where the dynamic linker writes
  // addresses.
  void FindRestartable(const ElfFile& elf) {
    for (const Elf64_Shdr& section : elf.sections()) {
      if (elf.NameOf(section) != "__rseq_cs" || (section.sh_flags & SHF_ALLOC) == 0) continue;
      const auto words = WordsOf(elf, section);
      for (size_t i = 0; i + 4 <= words.size() && image_.restartable_count < ExecutableImage::kMaxRestartable; i += 4) {
        const uintptr_t start = image_.bias + words[i + 1];
        image_.restartable[image_.restartable_count++] = {start, start + words[i + 2], image_.bias + words[i + 3]};
      }
    }
  }

  static std::vector<uint64_t> WordsOf(const ElfFile& elf, const Elf64_Shdr& section) {
    constexpr uint64_t kMaxBytes = 1 << 20;
    const auto bytes = elf.BytesOf(section, kMaxBytes);
    std::vector<uint64_t> words(bytes ? bytes->size() / sizeof(uint64_t) : 0);
    if (words.empty()) return words;
    memcpy(words.data(), bytes->data(), words.size() * sizeof(uint64_t));
    for (const Elf64_Shdr& relocations : elf.sections()) {
      if (relocations.sh_type != SHT_RELA || (relocations.sh_flags & SHF_ALLOC) == 0) continue;
      const auto table = elf.BytesOf(relocations, ElfSymbols::kMaxSymbolBytes);
      Elf64_Rela one;
      for (size_t at = 0; table && at + sizeof one <= table->size(); at += sizeof one) {
        memcpy(&one, table->data() + at, sizeof one);
        const uint64_t word = (one.r_offset - section.sh_addr) / sizeof(uint64_t);
        if (ELF64_R_TYPE(one.r_info) == R_X86_64_RELATIVE && one.r_offset >= section.sh_addr && word < words.size())
          words[word] = static_cast<uint64_t>(one.r_addend);
      }
    }
    return words;
  }

  std::vector<uint8_t> bytes_;
  Symbols exported_, all_;
  AllocatorSymbols found_;
  ExecutableImage image_;
  size_t unread_bytes_ = 0;
};

// Whether a debug file may name an allocator in a stripped executable.
bool MayBeNamedElsewhere(const std::string& path, const std::string& root, const DynamicNames& names) {
  if (names.has_symtab || !names.may_have_own_allocator()) return false;
  FileDescriptor file;
  const std::unique_ptr<ElfFile> elf = OpenElf(path, &file);
  return elf != nullptr && OpenSeparateSymbols(*elf, root, path.substr(root.size())).elf != nullptr;
}

struct FileOutcome {
  EntryOutcome at_start, late;
  size_t unread_bytes = 0;
};

FileOutcome OutcomeFor(const std::string& path, const std::string& root, Entries wanted, const DynamicNames& names) {
  FileOutcome found;
  found.at_start = found.late = {EntryReason::kOtherProcessor, 0, 0};  // as interpose/entries/not_redirected.cc
  if (kOwnMachine != EM_X86_64) return found;
  const auto file = std::make_unique<FileImage>();
  const auto plan = std::make_unique<EntryPlan>();
  const bool expects = ImportsSpeakForAllocator([&names](const char* name) { return names.needs.contains(name); });
  if (file->Read(path, root, wanted, expects)) MakeEntryPlan(file->image(), wanted, plan.get());
  found.unread_bytes = file->unread_bytes();
  found.at_start = found.late = plan->outcome;
  if (const int site = FirstAcrossPages(*plan); site >= 0 && plan->outcome.is_redirected())
    found.late = {EntryReason::kCrossesPage, static_cast<uint32_t>(plan->sites[site].name) + 1, plan->outcome.count};
  return found;
}

}  // namespace

Entries EntriesWanted() {
  const char* value = getenv("HOLDFAST_ENTRIES");
  return EntriesNamed(value != nullptr ? value : "");
}

Entries EntriesNamed(std::string_view text) {
  return text == "yes" || text == "1" ? Entries::kYes : text == "no" || text == "0" ? Entries::kNo : Entries::kAuto;
}

LinkedAllocator LinkedAllocatorOf(const std::string& path, const DynamicNames& names, Entries wanted,
                                  const std::string& root) {
  LinkedAllocator allocator;
  const std::string by_text = AllocatorByText(path);
  allocator.replaces_malloc = names.defines.contains("malloc") && names.defines.contains("free");
  if (!allocator.replaces_malloc && !names.has_hidden_malloc && names.own_allocator.empty() &&
      !names.may_name_allocator && by_text.empty() && !MayBeNamedElsewhere(path, root, names))
    return allocator;
  if (allocator.replaces_malloc && wanted != Entries::kYes &&
      MayPassCallsOn([&names](const char* name) { return names.needs.contains(name); })) {
    allocator.is_there = allocator.is_seen = allocator.may_lack = true;
    allocator.text = EntryText({EntryReason::kMayPassOn, kName_malloc + 1, 1});
    return allocator;
  }
  if (!allocator.replaces_malloc && !names.has_hidden_malloc && !names.may_have_own_allocator()) {
    if (names.own_allocator.empty()) return allocator;
    allocator.is_there = allocator.is_seen = allocator.may_lack = true;
    allocator.text = NamedLikeAllocatorText(names.own_allocator);
    return allocator;
  }
  const FileOutcome file = OutcomeFor(path, root, wanted, names);
  const size_t unread_bytes = file.unread_bytes;
  EntryOutcome outcome = file.at_start;
  if (outcome.is_redirected() && !file.late.is_redirected()) allocator.why_not_late = EntryText(file.late);
  if (!outcome.has_allocator() && names.has_hidden_malloc) outcome = {EntryReason::kHidden, kName_malloc + 1, 1};
  if (!allocator.replaces_malloc && !outcome.has_allocator() && names.own_allocator.empty() && by_text.empty())
    return allocator;
  allocator.is_there = true;
  allocator.is_redirected = outcome.is_redirected();
  allocator.is_seen = outcome.is_redirected() || MayPassOn(outcome);
  const std::string name = by_text.empty() ? "an allocator" : by_text;
  if (MayPassOn(outcome)) {
    allocator.may_lack = true;
    allocator.text = EntryText(outcome);
  } else if (allocator.is_seen) {
    allocator.text = fmt::format("{} has {} linked in; {}", BaseName(path), name, EntryText(outcome));
    allocator.may_lack = outcome.lacks_names();
    if (allocator.may_lack) allocator.text += "; " + WhyIncomplete(outcome);
    if (const InlinedAllocator inlined = InlinedAllocatorOf(path, root);
        inlined.is_inlined || (!allocator.may_lack && !inlined.text.empty())) {
      allocator.may_lack = true;
      allocator.text += "; " + inlined.text;
    }
  } else if (outcome.has_allocator()) {
    allocator.text = fmt::format("{} has {} linked in; {}", BaseName(path), name, EntryText(outcome));
  } else if (allocator.replaces_malloc) {
    allocator.text = fmt::format(
        "{} defines malloc and free itself ({} is linked into it): its calls do not pass through the library, so there "
        "is no heap profile of what it allocates; link the allocator as a shared library",
        BaseName(path), name);
  } else if (unread_bytes > 0) {
    allocator.text = fmt::format(
        "{} has an allocator of its own ({}): what it takes from that is not seen, because {} of symbols are not read; "
        "--entries yes reads them",
        BaseName(path), names.own_allocator.empty() ? name : names.own_allocator,
        FormatSize(static_cast<int64_t>(unread_bytes)));
  } else if (!names.own_allocator.empty()) {
    allocator.text = fmt::format("{} has an allocator of its own ({}): what it takes from that is not seen",
                                 BaseName(path), names.own_allocator);
  } else {
    allocator.text = fmt::format("{} has {}", BaseName(path), LinkedWithoutNames(by_text, names.build_id));
  }
  return allocator;
}

}  // namespace holdfast
