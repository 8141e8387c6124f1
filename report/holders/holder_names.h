// Names what holds memory: global variables by symbol, stacks by function, thread-local variables, mappings; and the
// classes of objects.
//
//    session_map (server)            a global variable
//    stack of T2 worker: handle      a function's frame; registers, and thread-local variables, are named by thread
//    data of libfoo.so.1             data that no symbol covers
//    mapping [anon:arena], 64.0MiB   memory without a file
//    kernel: epoll, timers           data of epoll events, and values of timers
//
// Roots with the same name are one holder, so that a tree with many pointers from one variable stays one piece.
#ifndef HOLDFAST_REPORT_HOLDERS_HOLDER_NAMES_H_
#define HOLDFAST_REPORT_HOLDERS_HOLDER_NAMES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/base/file_descriptor.h"
#include "report/holders/address_space.h"
#include "report/holders/heap_blocks.h"
#include "report/names/elf/data_symbols.h"
#include "report/names/elf/elf_symbols.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// The sources of names of variables, frames and mappings.
struct NameSources {
  std::vector<ModuleInfo> modules;
  // Opens the file of a module; invalid: it is not there.
  std::function<FileDescriptor(const ModuleInfo&)> open;
  // Returns the frames of a sleeping thread, leaf first, and the upper ends of the frames, as OutsideStacks::Walk.
  std::function<StackInfo(const TargetThread&, std::vector<uint64_t>* ends)> walk;
  // Returns a name for memory that the program mapped: "mmap by load_index"; "": unknown. May be null.
  std::function<std::string(uint64_t)> name_of_mapped;
};

struct Holder {
  RootKind kind;
  std::string name;       // demangled
  uint32_t thread = 0;    // number, for stacks, registers and thread-local variables
  uint64_t pointers = 0;  // to blocks
};

class HolderNames {
 public:
  HolderNames(AddressSpace* space, NameSources sources);

  // Returns the holder of a pointer in a root.
  uint32_t HolderOf(const RootRange& root, uint64_t address);
  uint32_t HolderOfRegister(uint32_t thread);
  uint32_t HolderOfKernelWord();
  const std::vector<Holder>& holders() const { return holders_; }
  // "session_map+16 (server)": with the offset in the variable.
  std::string PlaceOf(const RootRange& root, uint64_t address);

  // Returns a number for the class of an object that begins with this word; 0: it begins with no vtable.
  uint16_t ClassOf(uint64_t first_word);
  const std::string& ClassName(uint16_t number) const { return class_names_[number]; }

 private:
  struct ModuleNames {
    std::unique_ptr<DataSymbols> variables;
    std::unique_ptr<ElfSymbols> functions;
    bool looked_for_variables = false, looked_for_functions = false;
  };
  struct ThreadFrames {
    std::vector<std::string> functions;
    std::vector<uint64_t> ends;
    bool walked = false;
  };

  uint32_t Numbered(RootKind kind, std::string name, uint32_t thread);
  const ModuleInfo* ModuleAt(uint64_t address) const;
  const DataSymbols* VariablesOf(const ModuleInfo& module);
  std::string VariableAt(uint64_t address, uint64_t* end, std::string* with_offset);
  std::string FunctionAt(uint64_t pc);
  const ThreadFrames& FramesOf(uint32_t thread);
  std::string ClassAt(uint64_t vtable);
  bool IsInFile(uint64_t address) const;

  AddressSpace& space_;
  NameSources sources_;
  std::vector<ModuleNames> modules_;
  std::vector<ThreadFrames> frames_;
  std::vector<Holder> holders_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> numbers_;  // by name and thread
  // The last answer: pointers of one root follow each other.
  MemoryRange last_range_;
  uint32_t last_holder_ = 0;
  absl::flat_hash_map<uint64_t, uint16_t> classes_;  // by address of the vtable
  std::vector<std::string> class_names_ = {""};
  std::map<std::string, uint16_t> class_numbers_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_HOLDER_NAMES_H_
