#include "report/names/elf/inlined_allocator.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/elf_symbols.h"
#include "report/names/elf/separate_symbols.h"
#include "sampler/entries/entry_plan.h"
#include "sampler/entries/instruction.h"

namespace holdfast {
namespace {

// Called by malloc, free and their like if their quick part has no block, or no room for one. The first two are jemalloc's
// without a prefix: a program may have functions of these names, which its free does not call.
constexpr std::string_view kSlowParts[] = {"malloc_default",
                                           "free_default",
                                           "_mi_malloc_generic",
                                           "_mi_free_generic",
                                           "je_malloc_default",
                                           "_rjem_je_malloc_default",
                                           "je_free_default",
                                           "_rjem_je_free_default",
                                           "je_tcache_alloc_small_hard",
                                           "_rjem_je_tcache_alloc_small_hard"};
// The same in C++, of each version and template: how the name begins, and a part of it.
constexpr struct {
  std::string_view start, part;
} kSlowPartsWith[] = {{"_ZN8tcmalloc11ThreadCache21FetchFromCentralCache", ""},
                      {"_ZN8tcmalloc17tcmalloc_internal", "slow_alloc_"},
                      {"_ZN8tcmalloc17tcmalloc_internal", "free_non_normal"},
                      {"_ZN8tcmalloc17tcmalloc_internal", "FreeSmallSlow"},
                      {"_ZN8snmalloc", "small_alloc"},
                      {"_ZN8snmalloc", "alloc_not_small"},
                      {"_ZN8snmalloc", "dealloc_"}};
bool IsSlowPart(std::string_view name) {
  return std::find(std::begin(kSlowParts), std::end(kSlowParts), name) != std::end(kSlowParts) ||
         std::any_of(std::begin(kSlowPartsWith), std::end(kSlowPartsWith), [name](const auto& one) {
           return name.starts_with(one.start) && name.find(one.part) != name.npos;
         });
}

class InlinedAllocatorSearch {
 public:
  enum class Found { kNoNames, kNoCalls, kOwnCalls, kProgramsCalls };

  // `symbols`: the same file, or its debug file.
  InlinedAllocatorSearch(const ElfFile& elf, const ElfFile& symbols) : elf_(elf) {
    for (const Elf64_Shdr& section : symbols.sections()) {
      if (section.sh_type == SHT_SYMTAB) TakeSymbols(symbols, section);
    }
    std::sort(functions_.begin(), functions_.end(), IsBefore);
    MergeOwn();
    for (const auto& [at, name] : slow_parts_) lowest_ = std::min(lowest_, at), highest_ = std::max(highest_, at);
  }

  Found Search() {
    if (functions_.empty()) return Found::kNoNames;
    if (slow_parts_.empty()) return Found::kNoCalls;
    uint64_t left = kMaxCodeBytes;
    for (const Elf64_Phdr& segment : elf_.segments()) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      if (segment.p_filesz > left) return Found::kNoCalls;
      left -= segment.p_filesz;
      for (uint64_t done = 0; done < segment.p_filesz; done += kPieceBytes) {
        const std::string piece =
            elf_.ReadUpTo(segment.p_offset + done, std::min(segment.p_filesz - done, kPieceBytes + kLongestCall));
        FindCalls(piece, segment, segment.p_vaddr + done);
      }
    }
    for (const std::string& part : called_by_program_) {
      if (part.starts_with("_Z") || called_by_own_.contains(part)) return Found::kProgramsCalls;
    }
    return called_by_own_.empty() ? Found::kNoCalls : Found::kOwnCalls;
  }

 private:
  static constexpr uint64_t kMaxCodeBytes = 256 << 20, kPieceBytes = 1 << 20, kLongestCall = 6;
  static constexpr uint64_t kMaxFunctionBytes = 1 << 20, kLongestInstruction = 15;
  struct Range {
    uint64_t start, end;
  };
  static bool IsBefore(const Range& a, const Range& b) { return a.start < b.start; }
  // The last one that begins at or before the address; null: none.
  static const Range* At(const std::vector<Range>& ranges, uint64_t address) {
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), Range{address, 0}, IsBefore);
    return after == ranges.begin() ? nullptr : &*std::prev(after);
  }

  void TakeSymbols(const ElfFile& symbols, const Elf64_Shdr& section) {
    const auto table = symbols.SymbolsOf(section, ElfSymbols::kMaxSymbolBytes);
    const auto names = table ? symbols.BytesOf(*table->names, ElfSymbols::kMaxNameBytes) : std::nullopt;
    if (!names) return;
    for (const Elf64_Sym& symbol : table->symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names->size())
        continue;
      std::string name(names->c_str() + symbol.st_name);
      name = name.substr(0, name.find('.'));  // of `_mi_malloc_generic.constprop.0`
      functions_.push_back({symbol.st_value, symbol.st_value + symbol.st_size});
      if (IsSlowPart(name)) slow_parts_.emplace(symbol.st_value, name);
      if (IsOfAllocator(name.c_str())) own_.push_back(functions_.back());
    }
  }

  // Names of one function have one range, and restartable sequences are within functions.
  void MergeOwn() {
    std::sort(own_.begin(), own_.end(), IsBefore);
    size_t kept = 0;
    for (const Range& one : own_) {
      if (kept > 0 && one.start <= own_[kept - 1].end)
        own_[kept - 1].end = std::max(own_[kept - 1].end, one.end);
      else
        own_[kept++] = one;
    }
    own_.resize(kept);
  }

  // Looks at every byte, as an instruction may begin there.
  void FindCalls(std::string_view code, const Elf64_Phdr& segment, uint64_t address) {
    for (size_t at = 0; at + kLongestCall <= code.size(); ++at) {
      const auto byte = static_cast<uint8_t>(code[at]);
      const bool is_conditional = byte == 0x0f && (static_cast<uint8_t>(code[at + 1]) & 0xf0) == 0x80;
      if (byte != 0xe8 && byte != 0xe9 && !is_conditional) continue;  // call, jmp, jcc
      const size_t distance_at = at + (is_conditional ? 2 : 1);
      int32_t distance;
      memcpy(&distance, code.data() + distance_at, sizeof distance);
      const uint64_t target = address + distance_at + sizeof distance + static_cast<uint64_t>(int64_t{distance});
      if (target < lowest_ || target > highest_) continue;
      const auto part = slow_parts_.find(target);
      if (part == slow_parts_.end()) continue;
      if (IsOwn(address + at)) {
        called_by_own_.insert(part->second);
      } else if (!called_by_program_.contains(part->second) && IsBranch(segment, address + distance_at)) {
        called_by_program_.insert(part->second);
      }
    }
  }

  bool IsOwn(uint64_t address) const {
    const Range* range = At(own_, address);
    return range != nullptr && address < range->end;
  }

  // By chance 4 bytes lead to one of 100 addresses once in 40 million times, so a large program has some. Decodes the function
  // up to there; true also if that cannot be done. Code without a name is nobody's.
  bool IsBranch(const Elf64_Phdr& segment, uint64_t distance_at) const {
    const Range* function = At(functions_, distance_at);
    if (function == nullptr || distance_at >= function->end) return false;
    const uint64_t start = function->start, wanted = distance_at - start;
    if (start < segment.p_vaddr || wanted > kMaxFunctionBytes) return true;
    const std::string code = elf_.ReadUpTo(segment.p_offset + (start - segment.p_vaddr), wanted + kLongestInstruction);
    const auto* bytes = reinterpret_cast<const uint8_t*>(code.data());
    for (size_t at = 0; at < wanted;) {
      const Instruction one = DecodeInstruction(bytes + at, code.size() - at);
      if (one.length == 0) return true;
      if (one.target_at >= 0 && at + static_cast<size_t>(one.target_at) == wanted) return true;
      at += one.length;
    }
    return false;
  }

  const ElfFile& elf_;
  std::vector<Range> functions_, own_;
  absl::flat_hash_map<uint64_t, std::string> slow_parts_;  // names
  absl::flat_hash_set<std::string> called_by_own_, called_by_program_;
  uint64_t lowest_ = UINT64_MAX, highest_ = 0;
};

std::unique_ptr<ElfFile> OpenElf(const std::string& path, FileDescriptor* file) {
  *file = FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file->valid() ? ElfFile::Open(file->get()) : nullptr;
}

}  // namespace

InlinedAllocator InlinedAllocatorOf(const std::string& path, const std::string& root, const std::string& debug) {
  using Found = InlinedAllocatorSearch::Found;
  FileDescriptor file;
  const std::unique_ptr<ElfFile> elf = OpenElf(path, &file);
  if (elf == nullptr || !elf->is_x86_64()) return {};
  Found found = InlinedAllocatorSearch(*elf, *elf).Search();
  if (found == Found::kNoNames) {
    SeparateSymbols separate;
    if (!debug.empty()) separate.elf = OpenElf(debug, &separate.file);
    if (separate.elf == nullptr) separate = OpenSeparateSymbols(*elf, root, path.substr(root.size()));
    if (separate.elf != nullptr) found = InlinedAllocatorSearch(*elf, *separate.elf).Search();
  }
  if (found == Found::kOwnCalls) return {};
  if (found == Found::kProgramsCalls)
    return {true,
            "the executable's allocator is inlined into functions of the program (-flto): allocations are "
            "undercounted, and freed blocks may count as live"};
  return {
      false,
      fmt::format("cannot tell whether the executable's allocator is inlined into functions of the program (-flto): {}",
                  found == Found::kNoNames ? "the executable has no .symtab; install its debug file"
                                           : "no call of its slow path is known")};
}

}  // namespace holdfast
