#include "report/elf/subreaper_call.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "report/base/file_descriptor.h"
#include "report/elf/elf_file.h"

namespace holdfast {
namespace {

constexpr uint64_t kMostCode = 512 << 20, kPiece = 1 << 20, kMostTable = 64 << 20;
constexpr size_t kReach = 96;        // from the constant to the call
constexpr size_t kPrctlBytes = 128;  // of libc's own prctl, up to its system call

using namespace std::literals;
constexpr std::string_view kMovesOption[] = {"\xbf\x24\0\0\0"sv,          // mov $36,%edi
                                             "\x6a\x24\x5f"sv,            // push $36; pop %rdi
                                             "\x48\xc7\xc7\x24\0\0\0"sv,  // mov $36,%rdi
                                             "\xb8\x24\0\0\0"sv};         // mov $36,%eax: Go's first argument
// The two constants of a call of syscall(157, 36, …): libc's, and Go's. They are next to each other.
constexpr std::pair<std::string_view, std::string_view> kSystemCalls[] = {
    {"\xbe\x24\0\0\0"sv, "\xbf\x9d\0\0\0"sv},   // mov $36,%esi; mov $157,%edi
    {"\xbb\x24\0\0\0"sv, "\xb8\x9d\0\0\0"sv}};  // mov $36,%ebx; mov $157,%eax
constexpr size_t kBeside = 32;
constexpr std::string_view kMovesPrctl = "\xb8\x9d\0\0\0"sv;  // mov $157,%eax
constexpr std::string_view kSyscall = "\x0f\x05"sv, kEndbr64 = "\xf3\x0f\x1e\xfa"sv;

class Search {
 public:
  explicit Search(const ElfFile& elf) : elf_(elf) {
    for (const Elf64_Shdr& section : elf.sections()) TakeSlots(section);
  }

  bool Finds() const {
    for (const Elf64_Phdr& segment : elf_.segments()) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      // Piece by piece: the memory is charged to the program's control group.
      const uint64_t bytes = std::min(segment.p_filesz, kMostCode);
      for (uint64_t start = 0; start < bytes; start += kPiece) {
        const uint64_t piece = std::min(bytes - start, kPiece + 2 * kReach);
        if (FindsIn(elf_.ReadUpTo(segment.p_offset + start, piece), segment.p_vaddr + start)) return true;
      }
    }
    return false;
  }

 private:
  // `address`: of the code in memory.
  bool FindsIn(const std::string& code, uint64_t address) const {
    for (const std::string_view option : kMovesOption) {
      for (size_t at = code.find(option); at != std::string::npos; at = code.find(option, at + 1)) {
        if (CallFollows(code, at, address)) return true;
      }
    }
    for (const auto& [option, number] : kSystemCalls) {
      for (size_t at = code.find(option); at != std::string::npos; at = code.find(option, at + 1)) {
        const size_t before = at > kBeside ? at - kBeside : 0;
        if (std::string_view(code).substr(before, at - before + kBeside).find(number) != std::string_view::npos)
          return true;
      }
    }
    return false;
  }

  // The words of the GOT through which prctl is called.
  void TakeSlots(const Elf64_Shdr& section) {
    if (section.sh_type != SHT_RELA || section.sh_link >= elf_.sections().size()) return;
    const Elf64_Shdr& names_of = elf_.sections()[section.sh_link];
    const auto symbols = names_of.sh_type == SHT_DYNSYM ? elf_.SymbolsOf(names_of, kMostTable) : std::nullopt;
    const auto bytes = elf_.BytesOf(section, kMostTable);
    if (!symbols.has_value() || !bytes.has_value()) return;
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= bytes->size(); at += sizeof(Elf64_Rela)) {
      Elf64_Rela entry;
      memcpy(&entry, bytes->data() + at, sizeof entry);
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if (index == 0 || index >= symbols->symbols.size()) continue;
      if (elf_.TextAt(*symbols->names, symbols->symbols[index].st_name, 16) == "prctl") slots_.insert(entry.r_offset);
    }
  }

  static int32_t Displacement(std::string_view code, size_t at) {
    int32_t value = 0;
    memcpy(&value, code.data() + at, sizeof value);
    return value;
  }

  // "jmp *slot(%rip)" or "call *slot(%rip)" at `at`, which lies at `address` in memory.
  bool GoesThroughSlot(std::string_view code, size_t at, uint64_t address) const {
    if (at + 6 > code.size() || code[at] != '\xff' || (code[at + 1] != '\x25' && code[at + 1] != '\x15')) return false;
    return slots_.contains(address + 6 + static_cast<int64_t>(Displacement(code, at + 2)));
  }

  // Whether a call of prctl follows the constant at `start`. The first call ends the search: the register with the constant does
  // not survive it. An allocation of 36 bytes looks the same up to there.
  bool CallFollows(std::string_view code, size_t start, uint64_t address) const {
    const size_t end = std::min(code.size(), start + kReach);
    const size_t before = start > kReach ? start - kReach : 0;
    for (size_t at = start; at + 5 <= end; ++at) {
      if (GoesThroughSlot(code, at, address + at)) return true;
      if (code[at] == '\xe8' || code[at] == '\xe9') {
        const uint64_t target = address + at + 5 + static_cast<int64_t>(Displacement(code, at + 1));
        if (IsPrctl(target)) return true;
        if (code[at] == '\xe8' && IsCode(target)) return false;
      }
      constexpr int kCallThroughWord = 2;  // the middle three bits of the second byte
      if (code[at] == '\xff' && ((static_cast<uint8_t>(code[at + 1]) >> 3) & 7) == kCallThroughWord) return false;
      if (code.substr(at).starts_with(kSyscall))
        return code.substr(before, at - before).find(kMovesPrctl) != std::string_view::npos;
    }
    return false;
  }

  bool IsCode(uint64_t address) const {
    const auto segments = elf_.segments();
    return std::any_of(segments.begin(), segments.end(), [address](const Elf64_Phdr& segment) {
      return segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && address >= segment.p_vaddr &&
             address - segment.p_vaddr < segment.p_filesz;
    });
  }

  // Whether the function at `address` is an entry of the PLT for prctl, or makes that system call.
  bool IsPrctl(uint64_t address) const {
    for (const Elf64_Phdr& segment : elf_.segments()) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || address < segment.p_vaddr ||
          address - segment.p_vaddr >= segment.p_filesz) {
        continue;
      }
      const uint64_t offset = address - segment.p_vaddr;
      const std::string code =
          elf_.ReadUpTo(segment.p_offset + offset, std::min<uint64_t>(kPrctlBytes, segment.p_filesz - offset));
      size_t at = code.starts_with(kEndbr64) ? kEndbr64.size() : 0;
      if (code.size() > at && code[at] == '\xf2') ++at;  // bnd jmp
      if (GoesThroughSlot(code, at, address + at)) return true;
      const size_t number = code.find(kMovesPrctl);
      return number != std::string::npos && code.find(kSyscall, number) != std::string::npos;
    }
    return false;
  }

  const ElfFile& elf_;
  std::set<uint64_t> slots_;
};

}  // namespace

std::optional<bool> CallsForSubreaper(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(file.get());
  if (elf == nullptr || !elf->is_x86_64()) return std::nullopt;
  return Search(*elf).Finds();
}

}  // namespace holdfast
