// The executable's own file, and its debug file: symbols, and its code as it was linked. Read with pread: a mapped file
// that is cut short meanwhile would raise SIGBUS. Only the symbols of the running file are mapped, as the program itself
// is: new memory for 6 MB would take 2 ms more than the pages that the kernel has of the file.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_EXECUTABLE_FILE_H_
#define HOLDFAST_INTERPOSE_ENTRIES_EXECUTABLE_FILE_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>

#include "sampler/entries/allocator_symbols.h"
#include "sampler/entries/entry_plan.h"

namespace holdfast {

class ExecutableFile {
 public:
  // `segments`: as they are in memory; a file with others is another program's (/proc/self/exe may be the dynamic
  // linker). `start`: where the executable's first segment is.
  bool Open(const Elf64_Phdr* segments, size_t count, uintptr_t start);
  void Close();

  // Call before ReadSymbols if the imports speak for an allocator.
  void ExpectAllocator() { found_.ExpectSome(); }
  // Reads .symtab, of this file or of a debug file with its build id: where packages install it, or where .gnu_debuglink
  // leads. False: there is none, or it is too large (HowToReadSymbols).
  bool ReadSymbols(bool has_plain_names, Entries wanted, SymbolList* list);
  // Whether the file has these bytes at a link-time address of its segments. Callers go from low to high addresses: some
  // bytes more are read.
  bool HasCode(uint64_t address, const uint8_t* bytes, size_t count);
  // Adds the ranges in the section __rseq_cs, which is read in memory.
  void FindRestartable(ExecutableImage* image) const;

 private:
  static constexpr int kMaxPrograms = 32;
  bool ReadSymbolsOf(long file, bool has_plain_names, Entries wanted, SymbolList* list);
  bool MapTables(const Elf64_Shdr& symbols, const Elf64_Shdr& names, SymbolList* list);
  void ReleaseMemory();
  bool ReadDebugSymbols(bool has_plain_names, Entries wanted, SymbolList* list);
  bool ReadDebugLink(char* name, size_t capacity) const;
  bool FindFolder();

  long file_ = -1;
  bool is_open_ = false, is_running_ = false;  // is_running_: it is certainly the file that the kernel has mapped
  uintptr_t start_ = 0;
  Elf64_Phdr segments_[kMaxPrograms];
  size_t segment_count_ = 0;
  void* memory_ = nullptr;  // symbols and names
  size_t memory_bytes_ = 0;
  AllocatorSymbols found_;
  // Here, because a thread that is borrowed for an attach may have little stack.
  char folder_[4096];
  char path_[8192];
  uint8_t code_[4096];
  uint64_t code_at_ = 0, code_bytes_ = 0;  // link-time address
};

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_EXECUTABLE_FILE_H_
