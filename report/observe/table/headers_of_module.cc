#include "report/observe/table/headers_of_module.h"

#include <string.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

constexpr uint16_t kMaxProgramHeaders = 64;

bool LookRight(const std::vector<Elf64_Phdr>& headers) {
  // The flags of a readable segment have no other bits.
  return std::any_of(headers.begin(), headers.end(), [](const Elf64_Phdr& header) {
    return header.p_type == PT_LOAD && header.p_filesz <= header.p_memsz && header.p_flags <= (PF_R | PF_W | PF_X);
  });
}

struct Mapping {
  uint64_t start = 0, end = 0, offset = 0;
  std::pair<absl::string_view, absl::string_view> file;  // device, inode
};

std::optional<Mapping> MappingIn(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() < 5) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(words[0], absl::MaxSplits('-', 1));
  Mapping mapping;
  if (!absl::SimpleHexAtoi(ends.first, &mapping.start) || !absl::SimpleHexAtoi(ends.second, &mapping.end) ||
      !absl::SimpleHexAtoi(words[2], &mapping.offset)) {
    return std::nullopt;
  }
  mapping.file = {words[3], words[4]};
  return mapping;
}

// Returns where the process has mapped the byte at `offset` of the file that is mapped at `start`.
std::vector<uint64_t> PlacesOf(pid_t pid, uint64_t start, uint64_t offset) {
  const std::string map = ReadWhole(absl::StrCat("/proc/", pid, "/maps"));
  std::vector<Mapping> mappings;
  for (const absl::string_view line : absl::StrSplit(map, '\n')) {
    if (const std::optional<Mapping> mapping = MappingIn(line)) mappings.push_back(*mapping);
  }
  std::vector<uint64_t> places;
  const auto first =
      std::find_if(mappings.begin(), mappings.end(), [start](const Mapping& m) { return m.start == start; });
  for (const Mapping& mapping : mappings) {
    if (first == mappings.end() || mapping.file != first->file) continue;
    if (offset - mapping.offset < mapping.end - mapping.start)
      places.push_back(mapping.start + offset - mapping.offset);
  }
  return places;
}

}  // namespace

std::vector<Elf64_Phdr> ReadProgramHeaders(const ProcessMemory& memory, uint64_t start, Elf64_Ehdr* head) {
  if (!memory.Read(start, head, sizeof *head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
      head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phnum == 0 ||
      head->e_phnum > kMaxProgramHeaders) {
    return {};
  }
  std::vector<Elf64_Phdr> headers(head->e_phnum);
  const auto read = [&](uint64_t at) {
    return memory.Read(at, headers.data(), headers.size() * sizeof(Elf64_Phdr)) && LookRight(headers);
  };
  if (read(start + head->e_phoff)) return headers;
  for (const uint64_t place : PlacesOf(memory.pid(), start, head->e_phoff)) {
    if (read(place)) return headers;
  }
  return {};
}

}  // namespace holdfast
