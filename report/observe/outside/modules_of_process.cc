#include "report/observe/outside/modules_of_process.h"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "report/base/file_descriptor.h"
#include "report/base/libc_names.h"
#include "report/names/elf/elf_file.h"
#include "report/observe/table/headers_of_module.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

constexpr uint64_t kPageBytes = 4096, kMaxNotes = 1 << 16;

// `start`: where a file's first bytes are mapped. The result has no segments if there is no module.
ModuleInfo ReadModuleAt(const ProcessMemory& memory, uint64_t start, std::string path) {
  ModuleInfo module{};
  Elf64_Ehdr head;
  const std::vector<Elf64_Phdr> headers = ReadProgramHeaders(memory, start, &head);
  // The segment that begins nearest to the file's first byte. Its own page may begin later: pages have up to 64 KiB.
  const Elf64_Phdr* first = nullptr;
  for (const Elf64_Phdr& header : headers) {
    const bool is_loaded = header.p_type == PT_LOAD && header.p_filesz != 0;
    if (is_loaded && (first == nullptr || header.p_offset < first->p_offset)) first = &header;
  }
  if (first == nullptr) return module;
  module.path = std::move(path);
  module.start = start;
  module.bias = start - (first->p_vaddr - first->p_offset);
  for (const Elf64_Phdr& header : headers) {
    const uint64_t from = module.bias + header.p_vaddr;
    if (header.p_type == PT_NOTE && header.p_filesz <= kMaxNotes && module.build_id.empty()) {
      std::string notes(header.p_filesz, '\0');
      if (memory.Read(from, notes.data(), notes.size())) module.build_id = BuildIdIn(notes, 4);
    }
    if (header.p_type != PT_LOAD || header.p_memsz > kPcMask) continue;
    const uint64_t page = from / kPageBytes * kPageBytes,
                   end = (from + header.p_memsz + kPageBytes - 1) / kPageBytes * kPageBytes;
    module.end = std::max(module.end, end);
    if ((header.p_flags & PF_X) != 0) {
      const uint64_t code_end = (from + header.p_filesz + kPageBytes - 1) / kPageBytes * kPageBytes;
      module.segments.push_back({page, code_end, header.p_offset - (from - page)});
    }
  }
  return module;
}

}  // namespace

void AddModulesAt(const std::vector<std::pair<uint64_t, std::string>>& first_pages, const ProcessMemory& memory,
                  std::vector<ModuleInfo>* modules) {
  for (const auto& [start, path] : first_pages) {
    const bool is_known = std::any_of(modules->begin(), modules->end(), [at = start](const ModuleInfo& module) {
      return !module.unloaded && at >= module.start && at < module.end;
    });
    if (is_known) continue;
    ModuleInfo module = ReadModuleAt(memory, start, path);
    if (!module.segments.empty() && module.end > module.start) modules->push_back(std::move(module));
  }
}

void AddModulesOf(pid_t pid, const ProcessMemory& memory, std::vector<ModuleInfo>* modules) {
  std::vector<std::pair<uint64_t, std::string>> first_pages;
  std::set<absl::string_view> have_code;    // a linker maps whole libraries as data
  std::vector<uint64_t> code_without_file;  // starts
  const std::string map = ReadWhole(absl::StrCat("/proc/", ThreadWithMemory(pid), "/maps"));
  for (const absl::string_view line : absl::StrSplit(map, '\n')) {
    // 7f00a000-7f00b000 r-xp 00001000 fe:00 1234   /usr/lib/libc.so.6
    const size_t path = line.find('/');
    const std::vector<absl::string_view> words = absl::StrSplit(line.substr(0, path), ' ', absl::SkipEmpty());
    uint64_t start = 0;
    const bool is_code = words.size() >= 5 && words[1].size() > 2 && words[1][2] == 'x';
    if (is_code && path != absl::string_view::npos) have_code.insert(line.substr(path));
    if (is_code && path == absl::string_view::npos &&
        absl::SimpleHexAtoi(words[0].substr(0, words[0].find('-')), &start))
      code_without_file.push_back(start);
    if (path == absl::string_view::npos || words.size() < 5 || words[2] != "00000000" || words[1][0] != 'r' ||
        !absl::SimpleHexAtoi(words[0].substr(0, words[0].find('-')), &start)) {
      continue;
    }
    first_pages.emplace_back(start, std::string(line.substr(path)));
  }
  // A program may have moved its code to huge pages, which have no file. They can belong only to the last file that
  // begins before them. No other data file is read: a page of it may have to come from a slow or dead server.
  std::set<uint64_t> may_have_moved_code;
  for (const uint64_t code : code_without_file) {
    const auto after = std::upper_bound(first_pages.begin(), first_pages.end(), code,
                                        [](uint64_t at, const auto& page) { return at < page.first; });
    if (after != first_pages.begin()) may_have_moved_code.insert(std::prev(after)->first);
  }
  const auto has_moved_code = [&](const auto& page) {
    if (!may_have_moved_code.contains(page.first)) return false;
    const std::vector<ModuleInfo::SegmentInfo> segments = ReadModuleAt(memory, page.first, page.second).segments;
    return std::any_of(code_without_file.begin(), code_without_file.end(), [&](uint64_t at) {
      return std::any_of(segments.begin(), segments.end(),
                         [at](const auto& segment) { return at >= segment.start && at < segment.end; });
    });
  };
  std::erase_if(first_pages,
                [&](const auto& page) { return !have_code.contains(page.second) && !has_moved_code(page); });
  AddModulesAt(first_pages, memory, modules);
}

bool UsesMusl(const std::vector<ModuleInfo>& modules) {
  return HasCodeOfMusl(modules, [](const ModuleInfo& module) { return std::string_view(module.path); });
}

}  // namespace holdfast
