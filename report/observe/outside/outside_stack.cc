#include "report/observe/outside/outside_stack.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "report/base/kernel_page.h"
#include "report/observe/table/headers_of_module.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/deep_stacks.h"
#include "sampler/entries/instruction.h"
#include "sampler/unwind/unwind_cfi.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaxImage = uint64_t{1} << 30;        // reserved address space, not used memory
constexpr uint64_t kMaxTables = uint64_t{128} << 20;     // copied bytes of one module's tables
constexpr uint64_t kFarthestFrame = uint64_t{64} << 10;  // from sp, while the frame pointer is unknown
constexpr uint64_t kUsualFrame = uint64_t{4} << 10;
constexpr size_t kMaxCandidates = 32;  // candidate frames
constexpr uint64_t kLargestStack = uint64_t{64} << 20;

bool HoldsCode(const ModuleInfo& module, uint64_t pc) {
  return !module.unloaded && std::any_of(module.segments.begin(), module.segments.end(),
                                         [pc](const auto& segment) { return pc >= segment.start && pc < segment.end; });
}

const ModuleInfo* ModuleOf(const std::vector<ModuleInfo>& modules, uint64_t pc) {
  const auto found = std::find_if(modules.begin(), modules.end(), [pc](const auto& m) { return HoldsCode(m, pc); });
  return found == modules.end() ? nullptr : &*found;
}

#if defined(__aarch64__)
constexpr size_t kDirectCallBytes = 4;

// Returns whether the instruction before a return address is a call: bl, or blr in one of its forms.
bool ComesAfterCall(const ProcessMemory& memory, uint64_t pc) {
  uint32_t call;
  if (!memory.Read(pc - sizeof call, &call, sizeof call)) return false;
  return call >> 26 == 0x25 || (call & 0xfffffc1f) == 0xd63f0000 || (call & 0xfefff800) == 0xd63f0800;
}

// Returns where a direct call leads, if it is one.
std::optional<uint64_t> TargetOfCall(const unsigned char* call, uint64_t to) {
  uint32_t word;
  memcpy(&word, call, sizeof word);
  if (word >> 26 != 0x25) return std::nullopt;
  const auto instructions = static_cast<int64_t>(uint64_t{word} << 38) >> 38;
  return to - kDirectCallBytes + static_cast<uint64_t>(instructions) * 4;
}

bool IsPltStub(const unsigned char* code) {
  uint32_t words[2];
  memcpy(words, code, sizeof words);
  constexpr uint32_t kBtiC = 0xd503245f;
  return ((words[0] == kBtiC ? words[1] : words[0]) & 0x9f00001f) == 0x90000010;  // adrp x16
}
#else
constexpr size_t kDirectCallBytes = 5;

// Returns whether the instruction before a return address is a call: call rel32, or call through a register or memory.
bool ComesAfterCall(const ProcessMemory& memory, uint64_t pc) {
  unsigned char code[7];
  if (!memory.Read(pc - sizeof code, code, sizeof code)) return false;
  const auto is_indirect = [&](size_t length) { return code[7 - length] == 0xff && (code[8 - length] >> 3 & 7) == 2; };
  // 4: as glibc 2.43 calls main, by call *0x8(%rsp)
  return code[2] == 0xe8 || is_indirect(2) || is_indirect(3) || is_indirect(4) || is_indirect(6) || is_indirect(7);
}

// Returns where a direct call leads, if it is one.
std::optional<uint64_t> TargetOfCall(const unsigned char* call, uint64_t to) {
  if (call[0] != 0xe8) return std::nullopt;
  int32_t distance;
  memcpy(&distance, call + 1, sizeof distance);
  return to + static_cast<uint64_t>(static_cast<int64_t>(distance));
}

bool IsPltStub(const unsigned char* code) {
  const unsigned char* at = code[0] == 0xf3 && code[1] == 0x0f ? code + 4 : code;  // endbr64
  return (at[0] == 0xff && at[1] == 0x25) || (at[0] == 0xf2 && at[1] == 0xff) ||
         at[0] == 0x68;  // jmp *, bnd jmp *, push
}
#endif

// Checks the call before `to`, which should be the return address of the function at `pc`. Remains of earlier calls on
// the stack also look like frames. Calls through a register or the PLT may go anywhere.
enum class Call { kHere, kPerhaps, kElsewhere };
Call CallThatReturnsTo(const ProcessMemory& memory, uint64_t to, uint64_t pc) {
  constexpr uint64_t kUsualFunction = uint64_t{4} << 10, kLargestFunction = uint64_t{256} << 10;
  unsigned char call[kDirectCallBytes], stub[8];
  if (!memory.Read(to - sizeof call, call, sizeof call)) return Call::kPerhaps;
  const std::optional<uint64_t> target = TargetOfCall(call, to);
  if (!target.has_value()) return Call::kPerhaps;
  if (*target <= pc && pc - *target < kLargestFunction)
    return pc - *target < kUsualFunction ? Call::kHere : Call::kPerhaps;
  if (!memory.Read(*target, stub, sizeof stub)) return Call::kElsewhere;
  return IsPltStub(stub) ? Call::kPerhaps : Call::kElsewhere;
}

// Returns how many bytes an instruction takes from the stack; −1: it sets the stack pointer in another way.
int64_t BytesTaken(const Instruction& one, const uint8_t* code) {
  if (one.map != Instruction::Map::kOneByte) return 0;
  const bool pushes_register = one.opcode >= 0x50 && one.opcode <= 0x57;
  if (pushes_register || one.opcode == 0x68 || one.opcode == 0x6a || (one.opcode == 0xff && one.extension() == 6))
    return 8;
  const auto constant = [&](bool is_byte) -> int64_t {
    if (is_byte) return static_cast<int8_t>(code[one.length - 1]);
    int32_t word;
    memcpy(&word, code + one.length - sizeof word, sizeof word);
    return word;
  };
  if (one.rex != 0x48) return 0;
  if (one.opcode == 0x83 || one.opcode == 0x81) {
    if (one.modrm == 0xec) return constant(one.opcode == 0x83);   // sub $bytes, %rsp
    if (one.modrm == 0xc4) return -constant(one.opcode == 0x83);  // add $-128, %rsp
    if (one.modrm == 0xe4) return -1;                             // and $mask, %rsp
  }
  const bool is_lea = one.opcode == 0x8d && one.sib == 0x24;
  if (is_lea && (one.modrm == 0x64 || one.modrm == 0xa4))
    return -constant(one.modrm == 0x64);  // lea -bytes(%rsp), %rsp
  return 0;
}

// Returns how far the frame pointer may be above the stack pointer at a call in a function, the likeliest last, from the
// instructions with which the function begins, among others:
//
//    push %rbp;  mov %rsp, %rbp;  push of other registers;  sub $bytes, %rsp, or lea -bytes(%rsp), %rsp
//
// Empty: the nearest such instructions before the call are too far, or the stack pointer is aligned afterwards, or the
// code is not x86-64's. A function that later reserves more is not recognized: the caller checks that a return address
// is there.
std::vector<uint64_t> BytesBelowFramePointer(const ProcessMemory& memory, uint64_t pc) {
  if (!kCallPushesReturn) return {};
  constexpr uint64_t kFarthestStart = uint64_t{16} << 10, kLeastCode = 32;
  constexpr size_t kLongestStart = 128;
  std::array<uint8_t, kFarthestStart> code;
  // The code before the call may begin with the page.
  uint64_t bytes = kFarthestStart;
  while (bytes > kLeastCode && !memory.Read(pc - bytes, code.data(), bytes)) bytes /= 2;
  if (bytes <= kLeastCode) return {};
  constexpr uint8_t kStart[] = {0x48, 0x89, 0xe5};  // mov %rsp, %rbp
  const auto end = code.begin() + static_cast<ptrdiff_t>(bytes);
  const auto found = std::find_end(code.begin(), end, std::begin(kStart), std::end(kStart));
  if (found == end) return {};
  std::vector<uint64_t> below = {0};
  const size_t begin = static_cast<size_t>(found - code.begin()) + sizeof kStart;
  Instruction one;
  for (size_t at = begin; at < std::min<size_t>(bytes, begin + kLongestStart); at += one.length) {
    one = DecodeInstruction(code.data() + at, bytes - at);
    if (one.length == 0 || one.flow != Instruction::Flow::kNext) break;
    const int64_t taken = BytesTaken(one, code.data() + at);
    if (taken < 0) return {};
    if (taken > 0) below.push_back(below.back() + static_cast<uint64_t>(taken));
  }
  return below;
}

// Returns the unwind row for the call before a return address; nothing outside modules.
using RowBefore = std::function<std::optional<UnwindRow>(uint64_t)>;

class Walker {
 public:
  Walker(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules, const RowBefore& row_before, uint64_t pc,
         uint64_t sp)
      : memory_(memory), modules_(modules), row_before_(row_before), pc_(pc), sp_(sp), first_sp_(sp) {}

  uint64_t pc() const { return pc_; }
  uint64_t sp() const { return sp_; }

  // Moves to the caller. Returns false if the caller is unknown, or this was the outermost frame (`at_end`).
  bool Step(bool* at_end) {
    const std::optional<UnwindRow> found = row_before_(pc_);
    if (!found.has_value()) return false;
    const UnwindRow row = *found;
    switch (row.kind()) {
      case UnwindRow::kEnd:
        *at_end = true;
        return false;
      case UnwindRow::kStep:
        return StepByRow(row);
      case UnwindRow::kFramePointer:
        return FindFrame() && ReturnTo(*fp_ + 16, *fp_ + 8, Word(*fp_));
      default:
        return false;
    }
  }

 private:
  std::optional<uint64_t> Word(uint64_t address) const {
    uint64_t word = 0;
    return memory_.Read(address, &word, sizeof word) ? std::optional(word) : std::nullopt;
  }

  bool StepByRow(UnwindRow row) {
    if (row.returns_by_register()) return false;  // no file in /proc has that register
    if (row.from_fp() && !FindFrame()) return false;
    std::optional<uint64_t> cfa = (row.from_fp() ? *fp_ : sp_) + static_cast<uint64_t>(row.cfa_offset());
    if (row.loaded()) cfa = Word(*cfa);
    if (!cfa.has_value()) return false;
    *cfa += static_cast<uint64_t>(row.loaded() ? row.add() : 0);
    const auto offset = static_cast<uint64_t>(row.fp_offset());
    std::optional<uint64_t> fp = fp_;
    if (row.fp_rule() == UnwindRow::kAtCfa) fp = Word(*cfa + offset);
    if (row.fp_rule() == UnwindRow::kAtFp) fp = fp_.has_value() ? Word(*fp_ + offset) : std::nullopt;
    if (row.fp_rule() == UnwindRow::kAtSp) fp = Word(sp_ + offset);
    return ReturnTo(*cfa, row.ReturnPlace(*cfa), fp);
  }

  bool ReturnTo(uint64_t cfa, uint64_t place, std::optional<uint64_t> fp) {
    std::optional<uint64_t> pc = Word(place);
    if (pc.has_value()) *pc = WithoutSignature(*pc);
    if (!pc.has_value() || *pc == 0) return false;
    pc_ = *pc;
    fp_ = fp;
    return Rise(cfa);
  }

  bool Rise(uint64_t sp) {
    const bool rises = sp > sp_ && sp - first_sp_ < kLargestStack;
    sp_ = sp;
    return rises;
  }

  // Returns how many frames can be walked with this frame pointer; kMaxDepth if the walk reaches the end. From a false
  // frame the walk soon stops.
  size_t ReachOf(uint64_t fp) const {
    Walker ahead = *this;
    ahead.fp_ = fp;
    ahead.may_search_ = false;
    bool at_end = false;
    size_t frames = 0;
    while (frames < kMaxDepth && ahead.Step(&at_end)) ++frames;
    return at_end ? size_t{kMaxDepth} : frames;
  }

  bool FindFrame() {
    if (fp_.has_value() && *fp_ >= sp_ && *fp_ - sp_ < kLargestStack) return true;
    std::vector<uint64_t> below = BytesBelowFramePointer(memory_, pc_);
    for (; !below.empty(); below.pop_back()) {
      const std::optional<uint64_t> to = Word(sp_ + below.back() + 8);
      if (to.has_value() && ModuleOf(modules_, *to) != nullptr && ComesAfterCall(memory_, *to) &&
          CallThatReturnsTo(memory_, *to, pc_) != Call::kElsewhere) {
        fp_ = sp_ + below.back();
        return true;
      }
    }
    if (!may_search_) return false;
    // At least to the end of the page, because main's stack may end there.
    const uint64_t page = KernelPageBytes();
    std::vector<uint64_t> words((kFarthestFrame + page) / sizeof(uint64_t));
    const size_t rest_of_page = page - sp_ % page;
    size_t more = kFarthestFrame;
    while (!memory_.Read(sp_, words.data(), rest_of_page + more)) {
      if (more == 0) return false;
      more = more > kUsualFrame ? more / 2 : 0;
    }
    const size_t bytes = rest_of_page + more;
    std::array<std::vector<uint64_t>, 3> looks_like_one;  // indexed by Call; kElsewhere may be a tail call
    for (size_t i = 0; i + 1 < bytes / sizeof(uint64_t); ++i) {
      const uint64_t at = sp_ + i * sizeof(uint64_t), to = WithoutSignature(words[i + 1]);
      if (words[i] <= at || words[i] - at > kLargestStack) continue;
      if (ModuleOf(modules_, to) == nullptr || !ComesAfterCall(memory_, to)) continue;
      Call call = CallThatReturnsTo(memory_, to, pc_);
      if (call == Call::kHere && at - sp_ >= kUsualFrame) call = Call::kPerhaps;
      looks_like_one[static_cast<size_t>(call)].push_back(at);
      if (at - sp_ >= kUsualFrame && looks_like_one[0].size() + looks_like_one[1].size() > 0) break;
    }
    return TakeFarthest(looks_like_one);
  }

  bool TakeFarthest(const std::array<std::vector<uint64_t>, 3>& candidates) {
    fp_ = std::nullopt;
    size_t tried = 0, farthest = 0;
    for (const std::vector<uint64_t>& alike : candidates) {
      for (const uint64_t at : alike) {
        if (tried++ == kMaxCandidates || farthest == kMaxDepth) return true;
        const size_t reach = ReachOf(at);
        if (fp_.has_value() && reach <= farthest) continue;
        fp_ = at;
        farthest = reach;
      }
    }
    return fp_.has_value();
  }

  const ProcessMemory& memory_;
  const std::vector<ModuleInfo>& modules_;
  const RowBefore& row_before_;
  uint64_t pc_, sp_;
  const uint64_t first_sp_;
  std::optional<uint64_t> fp_;
  bool may_search_ = true;
};

}  // namespace

// Copies of a module's headers and unwind tables at their offsets; the rest is zero.
class OutsideStacks::Tables {
 public:
  Tables(const ProcessMemory& memory, const ModuleInfo& module) : start_(module.start) {
    const uint64_t bytes = module.end - module.start;
    if (module.end <= module.start || bytes > kMaxImage) return;
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return;
    memory_ = static_cast<char*>(mapped);
    bytes_ = bytes;
    Elf64_Ehdr head;
    const std::vector<Elf64_Phdr> headers = ReadProgramHeaders(memory, module.start, &head);
    const auto tables = std::find_if(headers.begin(), headers.end(),
                                     [](const Elf64_Phdr& header) { return header.p_type == PT_GNU_EH_FRAME; });
    if (tables == headers.end()) return;
    const auto contains = [](const Elf64_Phdr& header, uint64_t address) {
      return header.p_type == PT_LOAD && address - header.p_vaddr < header.p_filesz;
    };
    const auto copy = [&](uint64_t address) {
      const auto found =
          std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return contains(h, address); });
      if (found == headers.end()) return false;
      const uint64_t offset = module.bias + found->p_vaddr - module.start;
      return offset < bytes_ && found->p_filesz <= std::min(kMaxTables, bytes_ - offset) &&
             memory.Read(module.start + offset, memory_ + offset, found->p_filesz);
    };
    if (!copy(tables->p_vaddr)) return;
    tables_ = memory_ + (module.bias + tables->p_vaddr - module.start);
    // The entries of a rearranged file are in another segment than their table: where it says that .eh_frame is.
    struct {
      uint8_t version, frame_encoding, count_encoding, table_encoding;
      int32_t to_frame;
    } head_of_tables;
    static_assert(sizeof head_of_tables == 8);
    constexpr uint8_t kFromHere4 = 0x1b;  // DW_EH_PE_pcrel | DW_EH_PE_sdata4
    if (tables->p_filesz < sizeof head_of_tables) return;
    memcpy(&head_of_tables, tables_, sizeof head_of_tables);
    const uint64_t entries = tables->p_vaddr + 4 + static_cast<uint64_t>(int64_t{head_of_tables.to_frame});
    const auto of_tables =
        std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return contains(h, tables->p_vaddr); });
    if (head_of_tables.frame_encoding == kFromHere4 && !contains(*of_tables, entries)) copy(entries);
  }
  ~Tables() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  uint64_t start() const { return start_; }
  UnwindRow RowAt(uint64_t pc) const {
    const auto base = reinterpret_cast<uintptr_t>(memory_);
    return BuildUnwindRow(tables_, {base, base + bytes_}, base + (pc - start_));
  }

 private:
  uint64_t start_;
  char* memory_ = nullptr;
  uint64_t bytes_ = 0;
  const char* tables_ = nullptr;
};

OutsideStacks::OutsideStacks() = default;
OutsideStacks::~OutsideStacks() = default;

const OutsideStacks::Tables* OutsideStacks::TablesOf(const ProcessMemory& memory,
                                                     const std::vector<ModuleInfo>& modules, uint64_t pc) {
  const ModuleInfo* module = ModuleOf(modules, pc);
  if (module == nullptr) return nullptr;
  for (const auto& tables : tables_) {
    if (tables->start() == module->start) return tables.get();
  }
  return tables_.emplace_back(std::make_unique<Tables>(memory, *module)).get();
}

StackInfo OutsideStacks::Walk(const ProcessMemory& memory, const std::vector<ModuleInfo>& modules, uint64_t pc,
                              uint64_t sp, std::vector<uint64_t>* ends) {
  StackInfo stack{};
  const RowBefore row_before = [&](uint64_t return_to) -> std::optional<UnwindRow> {
    const Tables* tables = TablesOf(memory, modules, return_to - 1);
    return tables != nullptr ? std::optional(tables->RowAt(return_to - 1)) : std::nullopt;
  };
  Walker walker(memory, modules, row_before, pc, sp);
  bool at_end = false;
  while (stack.frames.size() < kMaxWalkedFrames) {
    const ModuleInfo* module = ModuleOf(modules, walker.pc() - 1);
    const uint64_t tag = module != nullptr ? module->tag : uint64_t{kNoModuleTag};
    stack.frames.push_back((walker.pc() & kPcMask) | tag << kPcTagShift);
    if (!walker.Step(&at_end)) break;
    if (ends != nullptr) ends->push_back(walker.sp());
  }
  stack.truncated = !at_end;
  if (ends == nullptr) OmitFrames(&stack);
  return stack;
}

void OmitFrames(StackInfo* stack) {
  std::vector<TaggedPc>& frames = stack->frames;
  if (frames.size() <= kMaxDepth) return;
  if (stack->truncated) return frames.resize(kMaxDepth);
  frames.erase(frames.begin() + kInnermostKept + 1, frames.end() - kOutermostKept);
  frames[kInnermostKept] = kOmittedFrames;
}

}  // namespace holdfast
