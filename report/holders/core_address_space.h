// A core file: the memory of a process when it crashed, or when gcore or a debugger wrote it.
//
//    PT_LOAD       a mapping: its address, its rights, and where its bytes are in the file; a filtered or truncated core has
//                  fewer bytes than the mapping
//    NT_FILE       the files behind mappings
//    NT_PRSTATUS   a thread: its id and registers; then its vector registers (NT_FPREGSET, NT_X86_XSTATE)
//    NT_AUXV       finds the main thread's stack
//    NT_PRPSINFO   the process: its id and name
//
// Code and constants are usually not in the core. They are read from the file on this machine if its first page is the
// one in the core. The file is untrusted: all offsets and sizes are checked.
#ifndef HOLDFAST_REPORT_HOLDERS_CORE_ADDRESS_SPACE_H_
#define HOLDFAST_REPORT_HOLDERS_CORE_ADDRESS_SPACE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"
#include "report/holders/address_space.h"

namespace holdfast {

class CoreAddressSpace : public AddressSpace {
 public:
  // An error says why this is no core file that can be read. It does not name the file.
  static absl::StatusOr<std::unique_ptr<CoreAddressSpace>> Open(FileDescriptor file);

  bool Read(uint64_t address, void* to, size_t bytes) const override;
  MemoryRange PopulatedRun(uint64_t from, uint64_t end) override;
  uint64_t missing_bytes() const override { return missing_bytes_; }
  uint64_t unclear_bytes() const override { return unclear_bytes_; }

  pid_t pid() const { return pid_; }                       // 0: unknown
  const std::string& program() const { return program_; }  // "server"; "": unknown
  // Where the first pages of files are mapped, with the paths.
  std::vector<std::pair<uint64_t, std::string>> FirstPages() const;

 private:
  struct Segment {
    MemoryRange range;
    uint64_t offset = 0;  // in the core
    uint64_t bytes = 0;   // that are in the core
    // The core was written without this memory. Otherwise missing bytes are after the end of a truncated core.
    bool is_left_out = true;
  };
  struct FileMapping {
    MemoryRange range;
    uint64_t offset = 0;  // in the file
    std::string path;
  };
  CoreAddressSpace() = default;
  absl::Status ReadHeaders();
  void ReadNotes(std::string_view notes);
  void AddThread(std::string_view status);
  void AddFiles(std::string_view files);
  void FindDataRuns();
  void AddMappings();
  void AddLeftOutFiles();
  void FindStackStart(uint64_t lowest);
  void OrderThreads();
  const Segment* SegmentAt(uint64_t address) const;
  const FileMapping* FileAt(uint64_t address) const;
  bool ReadFromFile(uint64_t address, void* to, size_t bytes) const;

  FileDescriptor file_;
  uint64_t file_bytes_ = 0;
  std::vector<Segment> segments_;                         // by address, without overlaps; as mappings_
  std::vector<uint32_t> rights_;                          // of the segments
  std::vector<MemoryRange> data_runs_;                    // parts of the file that are not holes, in ascending order
  std::vector<FileMapping> files_;                        // by address
  mutable std::map<std::string, FileDescriptor> opened_;  // invalid: another file, or none
  pid_t pid_ = 0;
  std::string program_;
  uint64_t missing_bytes_ = 0, unclear_bytes_ = 0, in_stack_ = 0;
  std::string auxv_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_CORE_ADDRESS_SPACE_H_
