#include "report/names/elf/call_arguments.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/elf/import_slots.h"
#include "report/names/elf/processors.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaxCode = 512 << 20;
constexpr uint64_t kCodePiece =
    256 << 10;  // fits into a core's own cache, because each piece is searched several times
constexpr uint64_t kMaxData = 64 << 20;
constexpr size_t kReach = 96;             // bytes before a call that are searched for its arguments
constexpr size_t kBetween = 32;           // bytes from the load of a system call's number to the instruction
constexpr size_t kRegisterReach = 4096;   // bytes from the load of a function's address to a call, either way
constexpr uint64_t kMaxPrctlBytes = 128;  // from the start of a statically linked prctl to its system call
constexpr uint32_t kPrctlNumber = 157, kSetChildSubreaper = 36;

using namespace std::literals;
constexpr std::string_view kMovesPrctl = "\xb8\x9d\0\0\0"sv;  // mov $157,%eax
// The constants of a call syscall(157, 36, …), in either order, by libc's calling convention and by Go's.
constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
    {"\xbe\x24\0\0\0"sv, "\xbf\x9d\0\0\0"sv},   // mov $36,%esi; mov $157,%edi
    {"\xbb\x24\0\0\0"sv, "\xb8\x9d\0\0\0"sv}};  // mov $36,%ebx; mov $157,%eax
constexpr std::string_view kSyscall = "\x0f\x05"sv;
constexpr std::string_view kPrctlText = "\0prctl\0"sv;
// The first instructions of glibc's syscall(): mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi.
constexpr std::string_view kSyscallFunction = "\x48\x89\xf8\x48\x89\xf7\x48\x89\xd6"sv;

int32_t Displacement(std::string_view code, size_t at) {
  int32_t value = 0;
  memcpy(&value, code.data() + at, sizeof value);
  return value;
}

// Calls take(position) for each occurrence of `wanted` from `from` on. Searches for the byte wanted[rare] first: machine
// code has many 0x48, few 0xd6.
template <typename Take>
void ForEachOccurrence(std::string_view code, std::string_view wanted, size_t rare, size_t from, Take take) {
  for (size_t at = code.find(wanted[rare], from + rare); at != std::string_view::npos;
       at = code.find(wanted[rare], at + 1)) {
    if (code.substr(at - rare, wanted.size()) == wanted) take(at - rare);
  }
}

// Calls take(position) for each position in [from, end) with matches(byte, next byte). `end` is less than the code's
// size. Compilers turn the comparisons of a block into vector instructions, which is several times faster than a loop
// over single bytes.
template <typename Matches, typename Take>
void ForEachMatch(std::string_view code, size_t from, size_t end, Matches matches, Take take) {
  constexpr size_t kBlock = 64;
  const auto* bytes = reinterpret_cast<const uint8_t*>(code.data());
  size_t at = from;
  for (; at + kBlock <= end; at += kBlock) {
    uint8_t found[kBlock];
    for (size_t i = 0; i < kBlock; ++i) found[i] = matches(bytes[at + i], bytes[at + i + 1]) ? 1 : 0;
    for (size_t i = 0; i < kBlock; i += sizeof(uint64_t)) {
      uint64_t eight;
      memcpy(&eight, found + i, sizeof eight);
      for (; eight != 0; eight &= eight - 1) take(at + i + static_cast<size_t>(std::countr_zero(eight)) / 8);
    }
  }
  for (; at < end; ++at) {
    if (matches(bytes[at], bytes[at + 1])) take(at);
  }
}

// Registers that hold arguments, by their number in an instruction.
enum Register : uint8_t { kBx = 3, kSi = 6, kDi = 7 };

// Returns whether `code` ends at a function's start or end, or after a call. No argument survives a call.
bool IsBorder(std::string_view code) {
  if (code.ends_with("\xf3\x0f\x1e\xfa"sv) || code.ends_with("\x55\x48\x89\xe5"sv))
    return true;  // endbr64; push %rbp, mov
  const size_t end = code.size();
  if (end >= 6 && code[end - 6] == '\xff' && code[end - 5] == '\x15') return true;
  if (end >= 5 && (code[end - 5] == '\xe8' || code[end - 5] == '\xe9')) {
    constexpr int32_t kFar = 128 << 20;
    if (const int32_t distance = Displacement(code, end - 4); distance > -kFar && distance < kFar) return true;
  }
  if (end < 5 || code[end - 1] != '\xc3') return false;  // ret; other instructions also contain 0xc3
  const auto before = static_cast<uint8_t>(code[end - 2]);
  return (before >= 0x58 && before <= 0x5f) || before == 0xc9 || code.substr(end - 5, 3) == "\x48\x83\xc4"sv;
}

// Returns the constant in a register at the end of `code`, from the last instruction that writes the register. Returns
// nothing if that instruction does not load a constant. The bytes are read backwards, so a match may start in the
// middle of a real instruction. That only makes a constant unknown.
std::optional<uint32_t> ConstantIn(Register number, std::string_view code) {
  const uint8_t own = number;
  for (size_t end = code.size(); end + kReach > code.size() && end >= 2; --end) {
    const auto byte = [&](size_t before) {
      return before > end ? uint8_t{0} : static_cast<uint8_t>(code[end - before]);
    };
    if (IsBorder(code.substr(0, end))) return std::nullopt;
    // A prefix of 0x40 to 0x4f may select one of r8 to r15 instead.
    const auto is_other = [](uint8_t prefix, uint8_t bit) { return (prefix & 0xf0) == 0x40 && (prefix & bit) != 0; };
    constexpr uint8_t kOfLast = 1, kOfMiddle = 4;
    const bool follows_short_jump = byte(7) == 0xeb || (byte(7) & 0xf0) == 0x70;
    if (end >= 5 && byte(5) == 0xb8 + own && (byte(6) != 0x41 || follows_short_jump))
      return static_cast<uint32_t>(Displacement(code, end - 4));
    if (end >= 7 && byte(7) == 0x48 && byte(6) == 0xc7 && byte(5) == 0xc0 + own)
      return static_cast<uint32_t>(Displacement(code, end - 4));
    if (end >= 3 && byte(3) == 0x6a && byte(1) == 0x58 + own) return byte(2);  // push, pop
    const uint8_t mode = byte(1) >> 6, middle = (byte(1) >> 3) & 7, last = byte(1) & 7;
    // First xor or sub of a register with itself, then mov between registers.
    const bool ends_in_own = mode == 3 && last == own && !is_other(byte(3), kOfLast);
    if ((byte(2) == 0x31 || byte(2) == 0x29) && middle == own && ends_in_own) return 0;
    if (byte(2) == 0x89 && ends_in_own) return std::nullopt;
    const bool loads = byte(2) == 0x8b || byte(2) == 0x63 || (byte(2) == 0x8d && mode != 3);
    if (loads && middle == own && !is_other(byte(3), kOfMiddle)) return std::nullopt;
  }
  return std::nullopt;
}

class ArgumentSearch {
 public:
  enum class Wanted : uint8_t { kSubreaper, kDlopen };

  ArgumentSearch(const ElfFile& elf, Wanted wanted) : elf_(elf) {
    for (const Elf64_Shdr& section : elf.sections()) {
      const std::string_view name = elf.NameOf(section);
      has_section_names_ = has_section_names_ || !name.empty();
      if (name.starts_with(".plt")) plt_.push_back({section.sh_addr, section.sh_addr + section.sh_size});
      is_go_ = is_go_ || name == ".go.buildinfo";
    }
    if (wanted == Wanted::kDlopen) {
      for (const ImportSlot& slot : ImportSlotsOf(elf, {"dlopen"})) slots_.push_back({slot.address, Function::kDlopen});
      return;
    }
    for (const ImportSlot& slot : ImportSlotsOf(elf, {"prctl", "syscall"})) {
      if (slot.type != R_X86_64_JUMP_SLOT && slot.type != R_X86_64_GLOB_DAT) Found(SubreaperCall::kComputed);
      slots_.push_back({slot.address, slot.name == "prctl" ? Function::kPrctl : Function::kSyscall});
    }
  }

  bool imports_nothing() const { return slots_.empty(); }

  bool FindsDeepDlopen() {
    if (slots_.empty()) return false;
    ForEachPiece(
        [this](std::string_view code, uint64_t address, size_t from) { TakeCallsThroughSlots(code, address, from); });
    ForEachPiece([this](std::string_view code, uint64_t address, size_t from) { JudgeCalls(code, address, from); });
    return opens_deep_;
  }

  SubreaperCall FindSubreaper() {
    // Without a section table the stubs of imports are unknown.
    if (!has_section_names_) Found(SubreaperCall::kComputed);
    ForEachPiece([this](std::string_view code, uint64_t address, size_t from) { TakeEntries(code, address, from); });
    if (found_ != SubreaperCall::kCalls && (!entries_.empty() || !inside_.empty())) {
      if (!inside_.empty()) {
        ForEachPiece([this](std::string_view code, uint64_t address, size_t from) { TakeStarts(code, address, from); });
        for (const Inside& one : inside_) {
          if (one.start == 0) Found(SubreaperCall::kComputed);  // only called through a pointer
          if (one.start != 0) entries_.insert({one.start, Function::kPrctl});
        }
      }
      ForEachPiece([this](std::string_view code, uint64_t address, size_t from) { JudgeCalls(code, address, from); });
    }
    if (found_ == SubreaperCall::kNone && slots_.empty() && NamesPrctl()) Found(SubreaperCall::kComputed);
    return found_;
  }

 private:
  enum class Function : uint8_t { kPrctl, kSyscall, kDlopen };
  struct Range {
    uint64_t start, end;
  };
  // A system call of prctl that passes on an argument of its function. `start`: that function's address; 0: no direct
  // call is known.
  struct Inside {
    uint64_t call = 0, start = 0;
  };

  void Found(SubreaperCall what) { found_ = std::max(found_, what); }

  // Calls look(code, address of the first byte, from). The bytes before `from` were already searched in the previous
  // piece.
  template <typename Look>
  void ForEachPiece(Look look) const {
    for (const Elf64_Phdr& segment : elf_.segments()) {
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      // Reads in pieces, because the memory is charged to the program's control group.
      const uint64_t bytes = std::min(segment.p_filesz, kMaxCode);
      for (uint64_t start = 0; start < bytes && found_ != SubreaperCall::kCalls; start += kCodePiece) {
        const uint64_t before = std::min<uint64_t>(start, kRegisterReach);
        const std::string_view code = Piece(segment.p_offset + start - before,
                                            std::min(bytes - start + before, kCodePiece + before + kRegisterReach));
        look(code, segment.p_vaddr + start - before, before);
      }
    }
  }

  // Reads at most `size` bytes. The result is valid until the next call: all pieces use the same memory, because new
  // memory for each costs more than the search.
  std::string_view Piece(uint64_t offset, uint64_t size) const {
    size = offset < elf_.size() ? std::min(size, elf_.size() - offset) : 0;
    if (piece_.size() < size) piece_.resize(size);
    return elf_.Read(offset, size, piece_.data()) ? std::string_view(piece_).substr(0, size) : std::string_view();
  }

  const Function* SlotAt(uint64_t address) const {
    for (const auto& [slot, function] : slots_) {
      if (slot == address) return &function;
    }
    return nullptr;
  }

  bool IsInPlt(uint64_t address) const {
    return std::any_of(plt_.begin(), plt_.end(),
                       [address](const Range& range) { return address >= range.start && address < range.end; });
  }

  // Finds entries of the PLT, and judges calls through the GOT.
  void TakeCallsThroughSlots(std::string_view code, uint64_t address, size_t from) {
    if (slots_.empty() || code.size() < 6) return;
    // "jmp *slot(%rip)", "call *slot(%rip)" or "mov slot(%rip)"
    const auto is_candidate = [](uint8_t opcode, uint8_t mode) {
      return ((opcode == 0xff) | (opcode == 0x8b)) & ((mode & 0xc7) == 5);
    };
    ForEachMatch(code, std::max<size_t>(from, 2) - 2, code.size() - 5, is_candidate, [&](size_t instruction) {
      const size_t at = instruction + 2;  // of the displacement
      const Function* function = SlotAt(address + at + 4 + static_cast<int64_t>(Displacement(code, at)));
      if (function == nullptr) return;
      const bool is_jump = code.substr(at - 2, 2) == "\xff\x25"sv, is_call = code.substr(at - 2, 2) == "\xff\x15"sv;
      if (is_jump && IsInPlt(address + at)) {
        // The entry begins with endbr64, with a prefix of the jump, with both, or with the jump itself.
        for (const uint64_t before : {2, 3, 6, 7}) entries_.insert({address + at - before, *function});
      } else if (is_jump || is_call) {
        Judge(*function, code.substr(0, at - 2));
      } else if (code[at - 2] == '\x8b') {
        JudgeLoad(*function, code, at);
      }
    });
  }

  // Also finds system calls.
  void TakeEntries(std::string_view code, uint64_t address, size_t from) {
    TakeCallsThroughSlots(code, address, from);
    for (const auto& pair : kPairs) {
      const std::string_view number = pair.second;
      ForEachOccurrence(code, pair.first, 0, from, [&](size_t at) {
        const size_t before = at > kBetween ? at - kBetween : 0;
        if (code.substr(before, at - before + kBetween).find(number) != std::string_view::npos)
          Found(SubreaperCall::kCalls);
      });
    }
    ForEachOccurrence(code, kMovesPrctl, 1, from, [&](size_t at) { LookAtNumber(code, at, address); });
    ForEachOccurrence(code, kSyscallFunction, 8, from, [&](size_t at) {
      if (code.substr(at, 64).find(kSyscall) != std::string_view::npos)
        for (const uint64_t before : {0, 4}) entries_.insert({address + at - before, Function::kSyscall});
    });
  }

  // A "mov slot(%rip),%reg" with the displacement at `at`. Compilers keep a function's address in a register for calls
  // in a loop. A call through the register near the load may call another function, so one call with known arguments is
  // enough.
  void JudgeLoad(Function function, std::string_view code, size_t at) {
    const std::string_view load = code.substr(at >= 3 ? at - 3 : 0, 3);
    if (at < 3 || (load[0] != '\x48' && load[0] != '\x4c') || load[1] != '\x8b' || (load[2] & 0xc7) != 5) return;
    const bool is_high = load[0] == '\x4c';
    const char call[] = {'\x41', '\xff', static_cast<char>(0xd0 + ((load[2] >> 3) & 7))};
    const std::string_view wanted(is_high ? call : call + 1, is_high ? 3 : 2);
    const size_t start = at > kRegisterReach ? at - kRegisterReach : 1;
    bool any = false;
    for (size_t found = code.find(wanted, start); found < at + kRegisterReach; found = code.find(wanted, found + 1)) {
      if (!is_high && code[found - 1] == '\x41') continue;
      any = JudgeArguments(function, code.substr(0, found)) || any;
    }
    if (!any) Found(SubreaperCall::kComputed);
  }

  // A "mov $157,%eax" at `at`.
  void LookAtNumber(std::string_view code, size_t at, uint64_t address) {
    const size_t end = code.substr(at, kBetween).find(kSyscall);
    if (end != std::string_view::npos) {
      const std::optional<uint32_t> option = ConstantIn(kDi, code.substr(0, at + end));
      if (option == kSetChildSubreaper) Found(SubreaperCall::kCalls);
      if (!option.has_value()) inside_.push_back({.call = address + at});
    } else if (is_go_) {
      // Go's own wrappers pass the number and the option in ax and bx.
      const std::string_view after = code.substr(at, kBetween);
      std::optional<uint32_t> option = ConstantIn(kBx, code.substr(0, at));
      if (const size_t later = after.find('\xbb'); later != std::string_view::npos && later + 5 <= after.size())
        option = static_cast<uint32_t>(Displacement(after, later + 1));
      if (option == kSetChildSubreaper) Found(SubreaperCall::kCalls);
      if (!option.has_value()) Found(SubreaperCall::kComputed);
    }
  }

  template <typename Take>
  void ForEachCall(std::string_view code, uint64_t address, size_t from, Take take) const {
    if (code.size() < 5) return;
    const auto is_call = [](uint8_t opcode, uint8_t) { return (opcode & 0xfe) == 0xe8; };  // call, jmp
    ForEachMatch(code, from, code.size() - 4, is_call,
                 [&](size_t at) { take(at, address + at + 5 + static_cast<int64_t>(Displacement(code, at + 1))); });
  }

  // Takes the last call target before a system call as the start of the enclosing function.
  void TakeStarts(std::string_view code, uint64_t address, size_t from) {
    ForEachCall(code, address, from, [this](size_t, uint64_t target) {
      for (Inside& one : inside_) {
        if (target <= one.call && one.call - target < kMaxPrctlBytes) one.start = std::max(one.start, target);
      }
    });
  }

  void JudgeCalls(std::string_view code, uint64_t address, size_t from) {
    if (entries_.empty()) return;
    const uint64_t lowest = entries_.begin()->first, highest = entries_.rbegin()->first;
    ForEachCall(code, address, from, [&](size_t at, uint64_t target) {
      if (target < lowest || target > highest) return;
      const auto entry = entries_.lower_bound({target, Function::kPrctl});
      if (entry != entries_.end() && entry->first == target && !IsInPlt(address + at))
        Judge(entry->second, code.substr(0, at));
    });
  }

  // Judges a call of this function at the end of `code`.
  void Judge(Function function, std::string_view code) {
    if (!JudgeArguments(function, code)) Found(SubreaperCall::kComputed);
  }

  // Returns false if the arguments are unknown.
  bool JudgeArguments(Function function, std::string_view code) {
    if (function == Function::kDlopen) {
      const std::optional<uint32_t> flags = ConstantIn(kSi, code);
      opens_deep_ = opens_deep_ || (flags.has_value() && (*flags & RTLD_DEEPBIND) != 0);
      return true;
    }
    std::optional<uint32_t> option = ConstantIn(kDi, code);
    if (function == Function::kSyscall) {
      if (option.has_value() && option != kPrctlNumber) return true;
      if (option.has_value()) option = ConstantIn(kSi, code);
    }
    if (option == kSetChildSubreaper) Found(SubreaperCall::kCalls);
    return option.has_value();
  }

  // Returns whether the program's constants contain the name, for dlsym.
  bool NamesPrctl() const {
    for (const Elf64_Shdr& section : elf_.sections()) {
      if (section.sh_type != SHT_PROGBITS || (section.sh_flags & SHF_ALLOC) == 0) continue;
      const uint64_t size = std::min(section.sh_size, kMaxData);
      for (uint64_t start = 0; start < size; start += kCodePiece) {
        const std::string_view bytes =
            Piece(section.sh_offset + start, std::min(size - start, kCodePiece + kPrctlText.size()));
        if (bytes.find(kPrctlText) != std::string_view::npos) return true;
      }
    }
    return false;
  }

  const ElfFile& elf_;
  std::vector<std::pair<uint64_t, Function>> slots_;
  std::vector<Range> plt_;
  std::set<std::pair<uint64_t, Function>> entries_;
  std::vector<Inside> inside_;
  mutable std::string piece_;
  bool has_section_names_ = false, is_go_ = false, opens_deep_ = false;
  SubreaperCall found_ = SubreaperCall::kNone;
};

// Calls use(file) if the path leads to a program or library for this machine.
template <typename Use>
void WithElf(const std::string& path, Use use) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
  const std::unique_ptr<ElfFile> elf = ElfFile::Open(file.get());
  if (elf != nullptr && RunsHere(*elf)) use(*elf);
}

}  // namespace

std::optional<SubreaperCall> FindSubreaperCall(const std::string& path, bool only_imported) {
  std::optional<SubreaperCall> call;
  WithElf(path, [&](const ElfFile& elf) {
    ArgumentSearch search(elf, ArgumentSearch::Wanted::kSubreaper);
    if (elf.machine() != EM_X86_64) {
      const auto sections = elf.sections();
      const bool is_dynamic = std::any_of(sections.begin(), sections.end(),
                                          [](const Elf64_Shdr& section) { return section.sh_type == SHT_DYNSYM; });
      call = is_dynamic && search.imports_nothing() ? SubreaperCall::kNone : SubreaperCall::kComputed;
      return;
    }
    call = only_imported && search.imports_nothing() ? SubreaperCall::kNone : search.FindSubreaper();
  });
  return call;
}

bool OpensPluginsDeep(const std::string& path) {
  bool deep = false;
  WithElf(path, [&deep](const ElfFile& elf) {
    deep = elf.machine() == EM_X86_64 && ArgumentSearch(elf, ArgumentSearch::Wanted::kDlopen).FindsDeepDlopen();
  });
  return deep;
}

}  // namespace holdfast
