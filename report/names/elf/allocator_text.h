// Recognises an allocator that is linked into a file by its messages, which stay when the file is stripped.
//
// The file is untrusted and read as in elf_file.h. Reads at most kMaxBytes of its constant data. Any thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_ALLOCATOR_TEXT_H_
#define HOLDFAST_REPORT_NAMES_ELF_ALLOCATOR_TEXT_H_

#include <cstdint>
#include <string>

namespace holdfast {

inline constexpr uint64_t kMaxAllocatorTextBytes = 256 << 20;

// Returns "jemalloc", "mimalloc", "snmalloc" or "tcmalloc"; "" = none is recognised, or the file cannot be read.
std::string AllocatorByText(const std::string& path);

// "jemalloc linked in, without symbols: what it takes from that is not seen; install its debug file (build id 1f2e…)"
std::string LinkedWithoutNames(const std::string& allocator, const std::string& build_id);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_ALLOCATOR_TEXT_H_
