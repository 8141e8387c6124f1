// Names, source lines and inlined functions for addresses of ELF files.
//
//  names   from the file's symbols (report/names/elf/elf_symbols.h), immediately. Demangled, with the mangled name beside it. The
//          mangled name is "" for C functions: if both were equal, pprof would demangle again and drop parameters
//  lines   from DWARF (report/names/dwarf/info.h), for addresses passed to LoadLines
//
// A file is used only if it has the build id of the loaded one: no name is better than a wrong one. If the program's
// file is missing or replaced, or has no symbols or lines, report/names/elf/debug_file_finder.h searches for others. A file
// that was open before it was replaced (report/names/elf/loaded_files.h) is still read.
//
// Modules stay cached across snapshots, keyed by device, inode, size, time and build id, up to kCacheBytes and
// kMaxFiles; the least recently used are evicted first. Not synchronized: one thread at a time. For memory see
// report/names/elf/elf_symbols.h and report/names/dwarf/info.h.
#ifndef HOLDFAST_REPORT_NAMES_SYMBOLIZE_MODULE_SYMBOLIZER_H_
#define HOLDFAST_REPORT_NAMES_SYMBOLIZE_MODULE_SYMBOLIZER_H_

#include <sys/stat.h>

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/base/time_budget.h"
#include "report/names/dwarf/info.h"
#include "report/names/elf/debug_file_finder.h"
#include "report/names/elf/elf_symbols.h"
#include "report/names/elf/loaded_files.h"
#include "report/names/symbolize/elf_calls.h"

namespace holdfast {

class ModuleSymbolizer {
 public:
  static constexpr size_t kCacheBytes = 256 << 20;
  static constexpr size_t kMaxFiles = 200;  // a file with debug information uses one or two descriptors

  struct Name {
    std::string name;  // "" if no symbol contains the address
    std::string system_name;
  };
  struct Frame {
    const Name* name;       // never null; valid as long as the module
    std::string_view file;  // "" = unknown
    uint32_t line = 0, start_line = 0;
  };

  // A file with a verified build id, and the names and lines found so far.
  class Module {
   public:
    const Name& NameAt(uint64_t elf_address) { return NameOf(elf_->Find(elf_address)); }
    const ElfSymbols& elf() const { return *elf_; }

    // Looks up the lines of `elf_addresses` (sorted). Returns false if the deadline passed. Does nothing without debug
    // information; why() then says what is missing.
    bool LoadLines(std::span<const uint64_t> elf_addresses, const Deadline& deadline);
    bool has_lines() const { return lines_ != nullptr; }
    const std::string& why() const { return why_; }
    // Debug information exists but cannot be read: why() names the file.
    bool is_unreadable() const { return unreadable_; }
    std::vector<std::string> problems() const;

    // Returns the frames at an address, innermost first: those found by LoadLines, otherwise only the name; empty if
    // that is unknown too. If the function's symbol is known, the symbol names the function.
    void FramesAt(uint64_t elf_address, std::vector<Frame>* frames);

    // The calls in the code. Null without code: for a separate debug file, or a replaced file.
    ElfCalls* calls();
    // Returns the linkage name of the function called just before an address passed to LoadLines, from DWARF; "" =
    // unknown.
    std::string_view CalledAt(uint64_t elf_address) const {
      return lines_ == nullptr ? std::string_view() : lines_->Text(lines_->CalledAt(elf_address));
    }

    // False for a separate debug file: its headers do not have the offsets of the program's bytes.
    bool is_program() const { return is_program_; }

   private:
    friend class ModuleSymbolizer;
    const Name& NameOf(std::string_view mangled);
    void OpenLines();

    absl::StatusOr<FileDescriptor> OpenProgram() const;
    std::shared_ptr<DebugFile> OpenHeldDebug() const;

    DebugFileFinder* files_ = nullptr;
    std::string path_, key_;                  // of the program's file
    std::shared_ptr<const LoadedFile> held_;  // null: reopen by path
    std::string build_id_;
    bool is_program_ = true;
    std::unique_ptr<ElfSymbols> elf_;
    std::shared_ptr<DebugFile> debug_;  // the file searched for names, until lines_ takes it
    std::string debug_path_;
    bool looked_ = false;  // whether debug information was searched for
    std::unique_ptr<dwarf::DebugInfo> lines_;
    std::string why_, shared_missing_;
    bool unreadable_ = false;
    bool looked_for_calls_ = false;
    std::unique_ptr<ElfCalls> calls_;
    absl::flat_hash_map<std::string, std::unique_ptr<Name>> names_;  // by mangled name
    size_t memory_bytes_ = 0;
  };

  explicit ModuleSymbolizer(DebugFileFinder::Options options = {}) : files_(std::move(options)) {}

  // Returns the file at `path` if it has this build id (lower-case hexadecimal, "" = none), or another file with this
  // build id. The module stays valid until the next call of Find. An error is the reason without the path: "No such
  // file or directory", "another build id …". `not_after_ns`: a file without a build id written after this time (wall
  // clock, 0 = unknown) is rejected as a different one. `bias`: the mapping's bias, for UseFilesOf.
  absl::StatusOr<Module*> Find(const std::string& path, std::string_view build_id, int64_t not_after_ns = 0,
                               uint64_t bias = 0);

  // Makes Find prefer the files that this process holds open; null: none. `process` must stay valid until the next
  // call.
  void UseFilesOf(const LoadedFiles* process) { process_ = process; }

  // Whether Find returns the module of this file from memory.
  bool Knows(const struct stat& file, std::string_view build_id) const;

  // Returns the module of the last Find, to keep it beyond the next call.
  std::shared_ptr<Module> Latest() const { return entries_.front().module; }

  // Sets for how long after a check a file with a build id is not checked again. All processes of one build name the
  // same few files.
  void BelieveFor(int64_t ns) { believes_ns_ = ns; }

  DebugFileFinder& files() { return files_; }
  size_t files_read() const { return files_read_ + files_.files_read(); }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<Module> module;
  };

  struct Seen {
    std::string key;
    int64_t when_ns;
  };

  absl::StatusOr<Module*> Keep(std::string key, std::unique_ptr<Module> module);
  Module* Known(const std::string& key);
  absl::StatusOr<Module*> FindHeld(const std::string& path, const std::string& build_id, uint64_t bias);
  void TakeNamesElsewhere(FileDescriptor program, Module* module);
  absl::StatusOr<DebugFileFinder::Found> FindDebug(const Module* module, const DebugFile* program);
  std::unique_ptr<Module> NewModule(std::unique_ptr<ElfSymbols> elf, const std::string& path,
                                    const std::string& build_id);
  absl::StatusOr<std::unique_ptr<Module>> LoadElsewhere(const std::string& path, const std::string& build_id);

  DebugFileFinder files_;
  const LoadedFiles* process_ = nullptr;
  std::list<Entry> entries_;  // most recently used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_;
  int64_t believes_ns_ = 0;
  absl::flat_hash_map<std::string, Seen> seen_;                      // by path and build id
  absl::flat_hash_map<std::string, absl::Status> elsewhere_failed_;  // searches are not repeated
  size_t files_read_ = 0;
};

// Makes a symbolizer use the files of one process, during this object's lifetime.
class HeldFiles {
 public:
  HeldFiles(ModuleSymbolizer* symbolizer, const LoadedFiles* files) : symbolizer_(*symbolizer) {
    symbolizer_.UseFilesOf(files);
  }
  HeldFiles(const HeldFiles&) = delete;
  HeldFiles& operator=(const HeldFiles&) = delete;
  ~HeldFiles() { symbolizer_.UseFilesOf(nullptr); }

 private:
  ModuleSymbolizer& symbolizer_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_SYMBOLIZE_MODULE_SYMBOLIZER_H_
