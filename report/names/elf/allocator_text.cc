#include "report/names/elf/allocator_text.h"

#include <elf.h>
#include <fcntl.h>

#include <algorithm>
#include <memory>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/names/elf/elf_file.h"
#include "sampler/entries/entry_plan.h"

namespace holdfast {
namespace {

constexpr uint64_t kTextPieceBytes = 1 << 20;

}  // namespace

std::string AllocatorByText(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  const std::unique_ptr<ElfFile> elf = file.valid() ? ElfFile::Open(file.get()) : nullptr;
  if (elf == nullptr || !elf->is_readable()) return "";
  constexpr uint64_t kOverlap = 32;  // longer than each message
  uint64_t left = kMaxAllocatorTextBytes;
  for (const Elf64_Phdr& segment : elf->segments()) {
    if (segment.p_type != PT_LOAD) continue;
    for (uint64_t done = 0; done < segment.p_filesz && left > 0; done += kTextPieceBytes) {
      const uint64_t wanted = std::min(segment.p_filesz - done, kTextPieceBytes + kOverlap);
      const std::string piece = elf->ReadUpTo(segment.p_offset + done, wanted);
      if (const char* allocator = AllocatorByMessage(piece.data(), piece.size())) return allocator;
      left -= std::min(left, kTextPieceBytes);
    }
  }
  return "";
}

std::string LinkedWithoutNames(const std::string& allocator, const std::string& build_id) {
  return fmt::format("{} linked in, without symbols: what it takes from that is not seen; install its debug file{}",
                     allocator, build_id.empty() ? ", or keep .symtab" : fmt::format(" (build id {})", build_id));
}

}  // namespace holdfast
