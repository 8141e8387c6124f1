#include "report/names/elf/inlined_allocator.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"
#include "sampler/entries/call_shape.h"

namespace holdfast {
namespace {

// Called by malloc and its like if their quick part has no block.
constexpr std::string_view kSlowParts[] = {"_mi_malloc_generic", "je_malloc_default", "_rjem_je_malloc_default",
                                           "_ZN8tcmalloc11ThreadCache21FetchFromCentralCacheEjiPFPvmE"};
// How names of functions begin that belong to these allocators. Two are in jemalloc's operator new; those from retry_malloc
// on are in gperftools' tcmalloc, where clang leaves out the L in names of static functions.
constexpr std::string_view kOwnStarts[] = {"mi_",
                                           "_mi_",
                                           "je_",
                                           "_rjem_",
                                           "_Z13fallback_impl",
                                           "_ZL9handleOOM",
                                           "_ZN12_GLOBAL__N_1L12retry_malloc",
                                           "_ZN12_GLOBAL__N_112retry_malloc",
                                           "_ZN12_GLOBAL__N_1L15do_malloc_pages",
                                           "_ZN12_GLOBAL__N_115do_malloc_pages",
                                           "_ZN12_GLOBAL__N_1L9do_malloc",
                                           "_ZN12_GLOBAL__N_19do_malloc",
                                           "_ZN12_GLOBAL__N_1L11do_memalign",
                                           "_ZN12_GLOBAL__N_111do_memalign",
                                           "_ZN11MallocBlock",
                                           "tc_",
                                           "_ZN8tcmalloc",
                                           "_ZN22TCMallocImplementation"};

class InlinedAllocatorSearch {
 public:
  explicit InlinedAllocatorSearch(const ElfFile& elf) : elf_(elf) {
    for (const Elf64_Shdr& section : elf.sections()) {
      if (section.sh_type == SHT_SYMTAB) TakeSymbols(section);
    }
  }

  bool FindsOne() const {
    if (slow_parts_.empty()) return false;
    uint64_t left = kMaxCodeBytes;
    for (const Elf64_Phdr& segment : elf_.segments()) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      for (uint64_t done = 0; done < segment.p_filesz && left > 0; done += kPieceBytes) {
        const std::string piece =
            elf_.ReadUpTo(segment.p_offset + done, std::min(segment.p_filesz - done, kPieceBytes + kLongestCall));
        if (IsIn(piece, segment.p_vaddr + done)) return true;
        left -= std::min(left, kPieceBytes);
      }
    }
    return false;
  }

 private:
  static constexpr uint64_t kMaxCodeBytes = 256 << 20, kPieceBytes = 1 << 20, kLongestCall = 6;
  static constexpr size_t kMaxSlowParts = 16;
  struct Range {
    uint64_t start, end;
  };

  void TakeSymbols(const Elf64_Shdr& section) {
    const auto table = elf_.SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
    const auto names = table ? elf_.BytesOf(*table->names, ElfSymbols::kMaxNameBytes) : std::nullopt;
    if (!names) return;
    static const auto* const kNames = [] {
      auto* all = new absl::flat_hash_set<std::string_view>;
      for (const NamedCall& call : kNamedCalls) all->insert(call.text);
      return all;
    }();
    for (const Elf64_Sym& symbol : table->symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names->size())
        continue;
      std::string_view name(names->c_str() + symbol.st_name);
      name = name.substr(0, name.find('.'));  // of `_mi_malloc_generic.constprop.0`
      if (std::find(std::begin(kSlowParts), std::end(kSlowParts), name) != std::end(kSlowParts))
        slow_parts_.push_back(symbol.st_value);
      const bool is_own =
          kNames->contains(name) || std::any_of(std::begin(kOwnStarts), std::end(kOwnStarts),
                                                [name](std::string_view start) { return name.starts_with(start); });
      if (is_own) own_.push_back({symbol.st_value, symbol.st_value + symbol.st_size});
    }
    if (slow_parts_.size() > kMaxSlowParts) slow_parts_.clear();  // none has more
    std::sort(own_.begin(), own_.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  }

  // Looks at every byte, as an instruction may begin there. By chance 4 bytes lead to one address once in 4 billion.
  bool IsIn(std::string_view code, uint64_t address) const {
    for (size_t at = 0; at + kLongestCall <= code.size(); ++at) {
      const auto byte = static_cast<uint8_t>(code[at]);
      const bool is_conditional = byte == 0x0f && (static_cast<uint8_t>(code[at + 1]) & 0xf0) == 0x80;
      if (byte != 0xe8 && byte != 0xe9 && !is_conditional) continue;  // call, jmp, jcc
      const size_t distance_at = at + (is_conditional ? 2 : 1);
      int32_t distance;
      memcpy(&distance, code.data() + distance_at, sizeof distance);
      const uint64_t target = address + distance_at + sizeof distance + static_cast<uint64_t>(int64_t{distance});
      if (std::find(slow_parts_.begin(), slow_parts_.end(), target) == slow_parts_.end()) continue;
      if (!IsOwn(address + at)) return true;
    }
    return false;
  }

  // Names of one function have one range, and functions do not overlap.
  bool IsOwn(uint64_t address) const {
    const auto after = std::upper_bound(own_.begin(), own_.end(), address,
                                        [](uint64_t at, const Range& range) { return at < range.start; });
    return after != own_.begin() && address < std::prev(after)->end;
  }

  const ElfFile& elf_;
  std::vector<uint64_t> slow_parts_;
  std::vector<Range> own_;
};

}  // namespace

std::string InlinedAllocatorText(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr || !elf->is_x86_64() || !InlinedAllocatorSearch(*elf).FindsOne()) return "";
  return "the executable's allocator is inlined into functions of the program (-flto): allocations are undercounted, and "
         "freed blocks may count as live";
}

}  // namespace holdfast
