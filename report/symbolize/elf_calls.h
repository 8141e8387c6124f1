// Where the calls and jumps in the code of one ELF file lead: to an address of the file, or to what the loader binds a
// name to (by way of the PLT, or of a slot of the GOT).
//
//     main:   call 1040 <malloc@plt>            OfCallBefore(…)   name malloc
//             call 1180 <twice>                 OfCallBefore(…)   address 0x1180
//     twice:  … jmp 1190 <store>                JumpsOutOf(0x1180, 0x1190)   {address 0x1190}
//
// The file is hostile: read as elf_file.h does, in pieces; tables above the limits are none. Only what lies in the file
// is known: of a debug file, whose code is not in it, nothing. One thread at a time.
#ifndef HOLDFAST_REPORT_SYMBOLIZE_ELF_CALLS_H_
#define HOLDFAST_REPORT_SYMBOLIZE_ELF_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/base/file_descriptor.h"
#include "report/elf/elf_file.h"
#include "report/symbolize/instructions.h"

namespace holdfast {

class ElfCalls {
 public:
  static constexpr uint64_t kMostTableBytes = 64 << 20;  // of one table of relocations or symbols
  static constexpr uint64_t kMostCode = 64 << 10;        // of one function
  static constexpr size_t kMostCalls = 1024;             // that are remembered

  struct Target {
    uint64_t address = 0;   // of code of this file; 0 where …
    std::string name = "";  // … the loader binds it by name, or where neither is known
    bool known() const { return address != 0 || !name.empty(); }
    bool operator==(const Target&) const = default;
  };
  struct Jump {
    uint64_t end = 0;         // behind the instruction
    Target target;            // not known: by a register, so perhaps within the function …
    bool by_pointer = false;  // … or by a pointer, so to another one: nothing was added up for it, as for tables
  };

  // Null when the file is none that can be read, or is another one.
  static std::unique_ptr<ElfCalls> Open(FileDescriptor fd, std::string_view build_id);

  // Of the call that ends at `return_address`.
  Target OfCallBefore(uint64_t return_address);

  // The jumps in [start, end) to what does not lie in it.
  std::vector<Jump> JumpsOutOf(uint64_t start, uint64_t end);

  // Where the file defines functions that it exports under this name: one place, but for old versions of a name.
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
    uint32_t hash, name;  // offset in names_
    uint64_t address;
  };

  void Read();
  void TakeSlots(const Elf64_Shdr& section, const std::vector<Elf64_Sym>& symbols);
  void TakeDefinitions(const std::vector<Elf64_Sym>& symbols);
  bool IsCode(uint64_t address) const;
  static bool IsIn(const std::vector<Range>& ranges, uint64_t address);
  std::string_view Code(uint64_t address, size_t most);
  std::string_view CodeBefore(uint64_t address, size_t most);
  Target Resolve(const Instruction& instruction);
  Target OfSlot(uint64_t slot) const;
  std::string_view NameAt(uint32_t offset) const;

  FileDescriptor fd_;
  std::unique_ptr<ElfFile> elf_;
  std::vector<Segment> segments_;
  std::vector<Range> stubs_;                                // of the PLT
  std::vector<Range> slots_;                                // of the GOT, which the loader alone writes
  std::string names_;                                       // of .dynsym
  absl::flat_hash_map<uint64_t, uint32_t> slots_by_name_;   // offset in names_
  absl::flat_hash_map<uint64_t, uint64_t> slots_by_value_;  // an address of the file
  std::vector<Definition> definitions_;                     // sorted
  absl::flat_hash_map<uint64_t, Target> calls_;             // by the address that they return to
  uint64_t window_address_ = 0;
  std::string window_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZE_ELF_CALLS_H_
