// Finds the targets of calls and jumps in the code of one ELF file: an address in the file, or a name that the loader
// binds (through the PLT or a slot of the GOT).
//
//     main:   call 1040 <malloc@plt>            OfCallBefore(…)   name malloc
//             call 1180 <twice>                 OfCallBefore(…)   address 0x1180
//     twice:  … jmp 1190 <store>                JumpsOutOf(0x1180, 0x1190)   {address 0x1190}
//
// The file is untrusted: it is read in pieces as in elf_file.h, and tables above the limits are ignored. Only code in
// the file is known; a debug file has none. One thread at a time.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_ELF_CALLS_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_ELF_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "report/names/symbolize/instructions.h"

namespace holdfast {

class ElfCalls {
 public:
  static constexpr uint64_t kMaxCallTableBytes = 64 << 20;  // for one table of relocations or symbols
  static constexpr uint64_t kMaxCode = 64 << 10;            // for one function
  static constexpr size_t kMaxCalls = 1024;                 // cached results of each kind

  struct Target {
    uint64_t address = 0;   // code address in this file; 0: bound by name, or unknown
    std::string name = "";  // the name that the loader binds; "" if none or unknown
    bool known() const { return address != 0 || !name.empty(); }
    bool operator==(const Target&) const = default;
  };
  struct Jump {
    uint64_t end = 0;  // the end of the instruction
    Target target;     // unknown for a jump through a register, perhaps within the function
    // Jump through a pointer in memory or a thunk, so to another function; switch tables do not count.
    bool by_pointer = false;
  };

  // Returns null if the file cannot be read or has another build id.
  static std::unique_ptr<ElfCalls> Open(FileDescriptor fd, std::string_view build_id);

  // Returns the target of the call that ends at `return_address`.
  Target OfCallBefore(uint64_t return_address);

  // Returns the jumps in [start, end) with targets outside it.
  std::vector<Jump> JumpsOutOf(uint64_t start, uint64_t end);

  // Returns the addresses of the functions that the file exports under this name: one, except for old versions of a
  // name.
  std::vector<uint64_t> DefinitionsOf(std::string_view name) const;

  size_t memory_bytes() const;

 private:
  struct Range {
    uint64_t start, end;
  };
  struct Segment {
    uint64_t address, size, offset;
  };

  struct Definition {
    uint32_t hash, name;  // `name`: offset in names_
    uint64_t address;
  };

  void Read();
  void TakeSlots(const Elf64_Shdr& section, const std::vector<Elf64_Sym>& symbols);
  void TakeDefinitions(const std::vector<Elf64_Sym>& symbols);
  bool IsCode(uint64_t address) const;
  static bool IsIn(const std::vector<Range>& ranges, uint64_t address);
  std::string_view Code(uint64_t address, size_t most);
  std::string_view CodeBefore(uint64_t address, size_t most);
  Target Resolve(const MachineInstruction& instruction);
  bool IsIndirectThunk(uint64_t address);
  Target OfSlot(uint64_t slot) const;
  std::string_view NameAt(uint32_t offset) const;

  FileDescriptor fd_;
  std::unique_ptr<ElfFile> elf_;
  std::vector<Segment> segments_;
  std::vector<Range> stubs_;                                // of the PLT
  std::vector<Range> slots_;                                // of the GOT, written only by the loader
  std::string names_;                                       // from .dynsym
  absl::flat_hash_map<uint64_t, uint32_t> slots_by_name_;   // offset in names_
  absl::flat_hash_map<uint64_t, uint64_t> slots_by_value_;  // an address in the file
  std::vector<Definition> definitions_;                     // sorted
  absl::flat_hash_map<uint64_t, Target> calls_;             // by return address
  absl::flat_hash_map<uint64_t, bool> thunks_;              // cached answers of IsIndirectThunk
  uint64_t window_address_ = 0;
  std::string window_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_ELF_CALLS_H_
