#include "report/names/symbolize/elf_calls.h"

#include <algorithm>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "report/names/elf/processors.h"
#include "report/names/symbolize/arm64_instructions.h"

namespace holdfast {
namespace {

constexpr size_t kWindow = 16 << 10;
constexpr size_t kMaxRanges = 16;        // segments, or sections of a kind; a file has only a few
constexpr int kMaxStubInstructions = 3;  // endbr64, jmp *slot(%rip)
constexpr size_t kArm64Reach = 32;       // bytes before a branch that are searched for its register
constexpr size_t kMaxArm64Stub = 24;     // bti c; adrp, ldr, add, br

// An `add %rdx,%rax` computes the address of a switch-table entry before `jmp *%rax`.
bool AddsRegisters(std::string_view instruction) {
  if (!instruction.empty() && (instruction[0] & 0xf0) == 0x40) instruction.remove_prefix(1);
  return instruction.size() == 2 && (instruction[0] == 1 || instruction[0] == 3) &&
         static_cast<uint8_t>(instruction[1]) >= 0xc0;
}

constexpr size_t kLongestThunk = 64;

// Returns whether the code jumps to the address in a register without a jump, against speculation (GCC's
// -mindirect-branch=thunk, Clang's -mretpoline):
//
//     call 1f; pause; …    1: mov %rax,(%rsp); ret
bool IsThunk(std::string_view code, uint64_t address) {
  constexpr std::string_view kEndbr64 = "\xf3\x0f\x1e\xfa";
  const size_t begin = code.starts_with(kEndbr64) ? kEndbr64.size() : 0;
  const MachineInstruction call = DecodeInstruction(code.substr(begin), address + begin);
  const uint64_t inside = call.target - address;
  if (call.flow != MachineInstruction::kCall || inside <= begin || inside >= code.size()) return false;
  const std::string_view end = code.substr(inside);
  return end.size() >= 5 && (end[0] == 0x48 || end[0] == 0x4c) && static_cast<uint8_t>(end[1]) == 0x89 &&
         (end[2] & 0xc7) == 0x04 && end[3] == 0x24 && static_cast<uint8_t>(end[4]) == 0xc3;
}

bool IsArm64(const ElfFile& elf) { return elf.machine() == EM_AARCH64; }

// Relocations of a slot: with an address in the file, and with a name.
bool HoldsAddress(const ElfFile& elf, uint32_t type) {
  return type == (IsArm64(elf) ? uint32_t{R_AARCH64_RELATIVE} : uint32_t{R_X86_64_RELATIVE});
}
bool HoldsName(const ElfFile& elf, uint32_t type) {
  return IsArm64(elf) ? type == R_AARCH64_GLOB_DAT || type == R_AARCH64_JUMP_SLOT
                      : type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT;
}

uint32_t HashOf(std::string_view name) { return static_cast<uint32_t>(absl::HashOf(name)); }

}  // namespace

std::unique_ptr<ElfCalls> ElfCalls::Open(FileDescriptor fd, std::string_view build_id) {
  auto calls = std::make_unique<ElfCalls>();
  calls->fd_ = std::move(fd);
  calls->elf_ = ElfFile::Open(calls->fd_.get());
  if (calls->elf_ == nullptr || !HasNamesHere(*calls->elf_) || calls->elf_->BuildId() != build_id) return nullptr;
  calls->Read();
  return calls;
}

void ElfCalls::Read() {
  for (const Elf64_Phdr& segment : elf_->segments()) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0 || segments_.size() == kMaxRanges) continue;
    segments_.push_back({segment.p_vaddr, segment.p_filesz, segment.p_offset});
  }
  const Elf64_Shdr* symbols = nullptr;
  std::vector<const Elf64_Shdr*> relocations;
  for (const Elf64_Shdr& section : elf_->sections()) {
    const std::string_view name = elf_->NameOf(section);
    const Range range{section.sh_addr, section.sh_addr + section.sh_size};
    // The segments of a debug file contain no code.
    if ((section.sh_flags & SHF_EXECINSTR) != 0 && section.sh_type == SHT_NOBITS) segments_.clear();
    if ((section.sh_flags & SHF_EXECINSTR) != 0 && name.starts_with(".plt") && stubs_.size() < kMaxRanges) {
      stubs_.push_back(range);
    }
    if (section.sh_type == SHT_PROGBITS && name.starts_with(".got") && slots_.size() < kMaxRanges) {
      slots_.push_back(range);
    }
    if (section.sh_type == SHT_DYNSYM && symbols == nullptr) symbols = &section;
    if (section.sh_type == SHT_RELA && relocations.size() < kMaxRanges) relocations.push_back(&section);
  }
  const auto table = symbols == nullptr ? std::nullopt : elf_->SymbolsOf(*symbols, kMaxCallTableBytes);
  if (!table) return;
  names_ = elf_->BytesOf(*table->names, kMaxCallTableBytes).value_or("");
  names_.push_back('\0');
  TakeDefinitions(table->symbols);
  for (const Elf64_Shdr* section : relocations) {
    if (section->sh_link < elf_->sections().size() && &elf_->sections()[section->sh_link] == symbols) {
      TakeSlots(*section, table->symbols);
    }
  }
}

// Reads in pieces: the largest programs have about 50 MB of relocations, with a few thousand slots.
void ElfCalls::TakeSlots(const Elf64_Shdr& section, const std::vector<Elf64_Sym>& symbols) {
  constexpr uint64_t kPiece = 10'000 * sizeof(Elf64_Rela);
  const uint64_t size = std::min(section.sh_size, kMaxCallTableBytes);
  for (uint64_t begin = 0; begin < size; begin += kPiece) {
    const std::string bytes = elf_->ReadUpTo(section.sh_offset + begin, std::min(kPiece, size - begin));
    if (bytes.size() < sizeof(Elf64_Rela)) return;
    for (size_t at = 0; at + sizeof(Elf64_Rela) <= bytes.size(); at += sizeof(Elf64_Rela)) {
      Elf64_Rela one;
      std::memcpy(&one, bytes.data() + at, sizeof one);
      if (!IsIn(slots_, one.r_offset)) continue;
      const uint32_t type = ELF64_R_TYPE(one.r_info);
      const uint64_t symbol = ELF64_R_SYM(one.r_info);
      if (HoldsAddress(*elf_, type)) {
        const auto value = static_cast<uint64_t>(one.r_addend);
        if (IsCode(value)) slots_by_value_.emplace(one.r_offset, value);
      } else if (HoldsName(*elf_, type) && symbol != 0 && symbol < symbols.size()) {
        slots_by_name_.emplace(one.r_offset, symbols[symbol].st_name);
      }
    }
  }
}

bool ElfCalls::IsIn(const std::vector<Range>& ranges, uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return address >= range.start && address < range.end; });
}

void ElfCalls::TakeDefinitions(const std::vector<Elf64_Sym>& symbols) {
  for (const Elf64_Sym& symbol : symbols) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) continue;
    const std::string_view name = NameAt(symbol.st_name);
    if (!name.empty()) definitions_.push_back({HashOf(name), symbol.st_name, symbol.st_value});
  }
  std::sort(definitions_.begin(), definitions_.end(),
            [](const Definition& a, const Definition& b) { return a.hash < b.hash; });
}

std::string_view ElfCalls::NameAt(uint32_t offset) const {
  return offset < names_.size() ? std::string_view(names_.c_str() + offset) : std::string_view();
}

std::vector<uint64_t> ElfCalls::DefinitionsOf(std::string_view name) const {
  std::vector<uint64_t> found;
  const uint32_t hash = HashOf(name);
  auto one = std::lower_bound(definitions_.begin(), definitions_.end(), hash,
                              [](const Definition& definition, uint32_t wanted) { return definition.hash < wanted; });
  for (; one != definitions_.end() && one->hash == hash; ++one) {
    if (NameAt(one->name) == name) found.push_back(one->address);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool ElfCalls::IsCode(uint64_t address) const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const Segment& segment) { return address - segment.address < segment.size; });
}

// Valid until the next call. Reads ahead, because the next call usually asks for a higher address.
std::string_view ElfCalls::Code(uint64_t address, size_t most) {
  if (address - window_address_ < window_.size() && window_.size() - (address - window_address_) >= most) {
    return std::string_view(window_).substr(address - window_address_, most);
  }
  for (const Segment& segment : segments_) {
    const uint64_t inside = address - segment.address;
    if (inside >= segment.size) continue;
    window_address_ = address;
    window_ =
        elf_->ReadUpTo(segment.offset + inside, std::min<uint64_t>(std::max(most, kWindow), segment.size - inside));
    return std::string_view(window_).substr(0, most);
  }
  return {};
}

std::string_view ElfCalls::CodeBefore(uint64_t address, size_t most) {
  for (const Segment& segment : segments_) {
    const uint64_t inside = address - segment.address;
    if (inside == 0 || inside > segment.size) continue;
    most = std::min<uint64_t>(most, inside);
    return Code(address - most, most);
  }
  return {};
}

ElfCalls::Target ElfCalls::OfSlot(uint64_t slot) const {
  if (const auto name = slots_by_name_.find(slot); name != slots_by_name_.end()) {
    return {.name = std::string(NameAt(name->second))};
  }
  const auto value = slots_by_value_.find(slot);
  return {.address = value == slots_by_value_.end() ? 0 : value->second};
}

// Leaves the window as it is, because the caller goes on to use it.
bool ElfCalls::IsIndirectThunk(uint64_t address) {
  if (IsArm64(*elf_) || IsIn(stubs_, address)) return false;
  if (const auto known = thunks_.find(address); known != thunks_.end()) return known->second;
  bool is_thunk = false;
  const uint64_t in_window = address - window_address_;
  if (in_window < window_.size() && window_.size() - in_window >= kLongestThunk) {
    is_thunk = IsThunk(std::string_view(window_).substr(in_window, kLongestThunk), address);
  } else if (const auto segment = std::ranges::find_if(
                 segments_, [address](const Segment& one) { return address - one.address < one.size; });
             segment != segments_.end()) {
    const uint64_t inside = address - segment->address;
    const uint64_t size = std::min<uint64_t>(kLongestThunk, segment->size - inside);
    is_thunk = IsThunk(elf_->ReadUpTo(segment->offset + inside, size), address);
  }
  if (thunks_.size() < kMaxCalls) thunks_.emplace(address, is_thunk);
  return is_thunk;
}

ElfCalls::Target ElfCalls::Resolve(const MachineInstruction& instruction) {
  switch (instruction.flow) {
    case MachineInstruction::kCallSlot:
    case MachineInstruction::kJumpSlot:
      return OfSlot(instruction.target);
    case MachineInstruction::kCall:
    case MachineInstruction::kJump:
    case MachineInstruction::kBranch:
      break;
    default:
      return {};
  }
  const uint64_t target = instruction.target;
  if (IsIndirectThunk(target)) return {};
  if (!IsIn(stubs_, target)) return {.address = IsCode(target) ? target : 0};
  if (IsArm64(*elf_)) {
    const std::string_view stub = Code(target, kMaxArm64Stub);
    for (size_t end = kArm64Bytes; end <= stub.size(); end += kArm64Bytes) {
      if (DecodeArm64(stub.substr(end - kArm64Bytes), 0).flow == MachineInstruction::kJumpAnywhere)
        return OfSlot(SourceOfArm64Branch(stub.substr(0, end), target + end).slot);
    }
    return {};
  }
  uint64_t at = target;
  for (int i = 0; i < kMaxStubInstructions; ++i) {
    const MachineInstruction next = DecodeInstruction(Code(at, 16), at);
    if (next.flow == MachineInstruction::kJumpSlot) return OfSlot(next.target);
    if (next.length == 0 || next.flow != MachineInstruction::kNext) break;
    at += next.length;
  }
  return {};
}

// Caches the results: each snapshot, and each process of a program, asks again, and reading a window of code dominates
// the cost.
ElfCalls::Target ElfCalls::OfCallBefore(uint64_t return_address) {
  if (const auto known = calls_.find(return_address); known != calls_.end()) return known->second;
  Target target;
  if (IsArm64(*elf_)) {
    const std::string code(CodeBefore(return_address, kArm64Reach));
    const auto last = std::string_view(code).substr(code.size() - std::min(code.size(), kArm64Bytes));
    const MachineInstruction call = DecodeArm64(last, return_address - kArm64Bytes);
    if (call.flow == MachineInstruction::kCall) target = Resolve(call);
    if (call.flow == MachineInstruction::kCallAnywhere) target = OfSlot(SourceOfArm64Branch(code, return_address).slot);
  } else if (const MachineInstruction call = CallBefore(CodeBefore(return_address, kLongestCall), return_address);
             call.length != 0) {
    target = Resolve(call);
  }
  if (calls_.size() < kMaxCalls) calls_.emplace(return_address, target);
  return target;
}

std::vector<ElfCalls::Jump> ElfCalls::JumpsOutOf(uint64_t start, uint64_t end) {
  std::vector<Jump> jumps;
  if (end <= start || end - start > kMaxCode) return jumps;
  const std::string code(Code(start, end - start));  // a copy, because reading stubs replaces the window
  if (IsArm64(*elf_)) {
    for (size_t at = 0; at + kArm64Bytes <= code.size(); at += kArm64Bytes) {
      const MachineInstruction instruction = DecodeArm64(std::string_view(code).substr(at), start + at);
      const uint64_t after = start + at + kArm64Bytes;
      if (instruction.flow == MachineInstruction::kJumpAnywhere) {
        const Arm64Source source = SourceOfArm64Branch(std::string_view(code).substr(0, at + kArm64Bytes), after);
        jumps.push_back({after, OfSlot(source.slot), source.by_pointer});
      } else if (instruction.flow >= MachineInstruction::kJump &&
                 (instruction.target < start || instruction.target >= end)) {
        jumps.push_back({after, Resolve(instruction), false});
      }
    }
    return jumps;
  }
  std::string_view before;                             // the previous instruction
  std::vector<std::pair<uint64_t, uint64_t>> inlined;  // thunks: where each begins, and the end of its call
  absl::flat_hash_set<uint64_t> called;                // targets inside
  for (size_t at = 0; at < code.size();) {
    const MachineInstruction instruction = DecodeInstruction(std::string_view(code).substr(at), start + at);
    const bool by_register = instruction.flow == MachineInstruction::kJumpAnywhere && instruction.length <= 3 &&
                             static_cast<uint8_t>(code[at + instruction.length - 1]) >= 0xc0;
    const bool is_inside =
        instruction.flow != MachineInstruction::kJumpSlot && instruction.target >= start && instruction.target < end;
    const bool by_thunk =
        instruction.flow == MachineInstruction::kJump && !is_inside && IsIndirectThunk(instruction.target);
    const bool by_pointer = instruction.by_pointer || ((by_register || by_thunk) && !AddsRegisters(before));
    if (instruction.flow == MachineInstruction::kCall && is_inside) {
      called.insert(instruction.target);
      if (IsThunk(std::string_view(code).substr(at, kLongestThunk), start + at))
        inlined.emplace_back(start + at, start + at + instruction.length);
    }
    before = std::string_view(code).substr(at, instruction.length);
    at += std::max<size_t>(instruction.length, 1);
    const bool is_jump = instruction.flow >= MachineInstruction::kJump;
    if (!is_jump || is_inside) continue;
    jumps.push_back({start + at, Resolve(instruction), by_pointer});
  }
  // An inlined thunk that is called itself makes a call, not a jump.
  for (const auto& [begin, after] : inlined) {
    if (!called.contains(begin)) jumps.push_back({after, {}, true});
  }
  return jumps;
}

size_t ElfCalls::memory_bytes() const {
  return names_.capacity() + window_.capacity() + (slots_by_name_.size() + slots_by_value_.size()) * 24 +
         definitions_.capacity() * sizeof(Definition) + calls_.capacity() * (sizeof(uint64_t) + sizeof(Target)) +
         thunks_.capacity() * 16;
}

}  // namespace holdfast
