// Names for the addresses of a profile, from the ELF files of its mappings.
//
//   name         demangled: `foo::bar(int)`; system_name the mangled one, or "" where there is no other (C functions):
//                the two always differ, as pprof demangles equal ones again and drops their parameters
//   no name      `libfoo.so.1!0x1234`, the ELF address: equal from run to run. `[vdso]!0x…`; `[unknown]!0x…` (the
//                runtime address) for code in no file, such as a JIT compiler's
//
// A name is only taken from a file whose build id is the one that the program had loaded. Another file, or none, gives
// no name but a comment `no names: /path: why`. Where a program and its file both lack a build id, the segment that was
// mapped must be one of the file's. A file without .symtab is completed from
// /usr/lib/debug/.build-id/xx/yyyy.debug when that is there.
//
// Files are kept across snapshots, by device, inode, size, time and build id, up to kCacheBytes; the least lately used
// go first. Not synchronized: one thread at a time. Memory: see report/elf_symbols.h.
#ifndef HOLDFAST_REPORT_SYMBOLIZER_H_
#define HOLDFAST_REPORT_SYMBOLIZER_H_

#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/elf_symbols.h"
#include "sampler/profile.h"

namespace holdfast {

class Symbolizer {
 public:
  static constexpr size_t kCacheBytes = 256 << 20;

  struct Name {
    std::string name;  // "" when no symbol holds the address
    std::string system_name;
  };

  // A file whose build id was checked, and the names found in it so far.
  class Module {
   public:
    const Name& NameAt(uint64_t elf_address);
    const ElfSymbols& elf() const { return *elf_; }

   private:
    friend class Symbolizer;
    std::unique_ptr<ElfSymbols> elf_;
    absl::flat_hash_map<std::string, Name> names_;  // by mangled name
    size_t memory_bytes_ = 0;
  };

  // `debug_root` holds .build-id/; "" for none.
  explicit Symbolizer(std::string debug_root = "/usr/lib/debug") : debug_root_(std::move(debug_root)) {}

  // The file at `path`, which must have this build id (lower-case hexadecimal, "" = none). The module stays valid until
  // the next call of Find. Fails with the reason, without the path: "No such file or directory", "another build id …".
  absl::StatusOr<Module*> Find(const std::string& path, std::string_view build_id);

  size_t files_read() const { return files_read_; }

 private:
  struct Entry {
    std::string key;
    Module module;
  };

  void TakeDebugFile(ElfSymbols* elf);

  std::string debug_root_;
  std::list<Entry> entries_;  // latest used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_;
  size_t files_read_ = 0;
};

// Gives a line to every location that has none, sets has_functions where every location of a mapping has one, and adds
// a comment for each file that gave no names. Lines that are there already stay.
void Symbolize(Profile* profile, Symbolizer& symbolizer);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SYMBOLIZER_H_
