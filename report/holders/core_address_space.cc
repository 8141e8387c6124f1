#include "report/holders/core_address_space.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "report/holders/library_memory.h"
#include "report/names/elf/debug_file_finder.h"

namespace holdfast {
namespace {

constexpr size_t kMaxSegments = 1 << 20, kMaxNotes = size_t{256} << 20, kMaxThreads = 1 << 20;
constexpr size_t kMaxDataRuns = 1 << 16;  // of the core file, between its holes: 1 MiB
constexpr uint64_t kUserEnd = uint64_t{1} << 56;
#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#else
constexpr uint16_t kMachine = EM_AARCH64;
#endif

// Reads a value from the start of `bytes` and removes it. Returns false if there are too few bytes.
template <typename T>
bool Take(std::string_view* bytes, T* value) {
  if (bytes->size() < sizeof *value) return false;
  memcpy(value, bytes->data(), sizeof *value);
  bytes->remove_prefix(sizeof *value);
  return true;
}

bool ReadAt(const FileDescriptor& file, uint64_t offset, void* to, size_t bytes) {
  return offset <= INT64_MAX && PreadAll(file.get(), static_cast<char*>(to), bytes, offset) == bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoreAddressSpace>> CoreAddressSpace::Open(FileDescriptor file) {
  std::unique_ptr<CoreAddressSpace> space(new CoreAddressSpace);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return absl::NotFoundError(strerror(errno));
  space->file_ = std::move(file);
  space->file_bytes_ = static_cast<uint64_t>(std::max<off_t>(info.st_size, 0));
  if (absl::Status status = space->ReadHeaders(); !status.ok()) return status;
  return space;
}

absl::Status CoreAddressSpace::ReadHeaders() {
  Elf64_Ehdr head;
  // zstd, lz4, gzip, xz, bzip2
  constexpr std::string_view kCompressed[] = {"\x28\xb5\x2f\xfd", "\x04\x22\x4d\x18", "\x1f\x8b", "\3757zXZ", "BZh"};
  char magic[5] = {};
  if (!ReadAt(file_, 0, magic, sizeof magic)) return absl::InvalidArgumentError("is no core file");
  const std::string_view first(magic, sizeof magic);
  if (std::any_of(std::begin(kCompressed), std::end(kCompressed),
                  [&](std::string_view magic_of) { return first.starts_with(magic_of); })) {
    return absl::InvalidArgumentError(
        "is compressed. Unpack it first: coredumpctl dump -o core, zstd -d, lz4 -d, gzip -d, xz -d or bzip2 -d");
  }
  if (!ReadAt(file_, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return absl::InvalidArgumentError("is neither a process id nor a core file");
  if (head.e_ident[EI_CLASS] != ELFCLASS64)
    return absl::InvalidArgumentError("is a 32-bit ELF file, which Holdfast cannot read");
  if (head.e_type != ET_CORE) return absl::InvalidArgumentError("is an ELF file, but no core file");
  if (head.e_machine != kMachine) return absl::InvalidArgumentError("is a core file of another processor");
  if (head.e_phentsize != sizeof(Elf64_Phdr)) return absl::InvalidArgumentError("is a damaged core file");
  uint64_t count = head.e_phnum;
  if (count == PN_XNUM) {  // the number is in the first section header
    Elf64_Shdr section;
    if (!ReadAt(file_, head.e_shoff, &section, sizeof section))
      return absl::InvalidArgumentError("is a truncated core file: it has no program headers");
    count = section.sh_info;
  }
  if (count > kMaxSegments) return absl::InvalidArgumentError("is a damaged core file");
  std::vector<Elf64_Phdr> headers(count);
  if (!ReadAt(file_, head.e_phoff, headers.data(), count * sizeof headers[0]))
    return absl::InvalidArgumentError("is a truncated core file: it has no program headers");
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_NOTE && header.p_filesz <= kMaxNotes && header.p_offset <= file_bytes_) {
      std::string notes(std::min<uint64_t>(header.p_filesz, file_bytes_ - header.p_offset), '\0');
      if (ReadAt(file_, header.p_offset, notes.data(), notes.size())) ReadNotes(notes);
    }
    if (header.p_type != PT_LOAD || header.p_memsz == 0 || header.p_vaddr >= kUserEnd ||
        header.p_memsz > kUserEnd - header.p_vaddr)
      continue;
    Segment segment{.range = {header.p_vaddr, header.p_vaddr + header.p_memsz}, .offset = header.p_offset};
    segment.bytes = std::min(header.p_filesz, header.p_memsz);
    segment.is_left_out = segment.bytes == 0;
    if (segment.offset >= file_bytes_) {
      segment.bytes = 0;
    } else {
      segment.bytes = std::min(segment.bytes, file_bytes_ - segment.offset);
    }
    missing_bytes_ += std::min(header.p_filesz, header.p_memsz) - segment.bytes;
    segments_.push_back(segment);
    rights_.push_back(header.p_flags);
  }
  if (segments_.empty()) return absl::InvalidArgumentError("is a core file without memory");
  FindDataRuns();
  AddMappings();
  OrderThreads();
  return absl::OkStatus();
}

// Pages that never existed are holes in the file. The end of the data is searched once for each run, not for each read:
// on a tmpfs, the kernel searches page by page.
void CoreAddressSpace::FindDataRuns() {
  uint64_t smallest_hole = 0;
  for (uint64_t at = 0; at < file_bytes_;) {
    const off_t data = lseek(file_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return;
    const off_t hole = data < 0 ? -1 : lseek(file_.get(), data, SEEK_HOLE);
    const bool is_known = data >= 0 && hole > data;
    const MemoryRange run{is_known ? static_cast<uint64_t>(data) : at,
                          is_known ? static_cast<uint64_t>(hole) : file_bytes_};
    at = run.end;
    if (!data_runs_.empty() && run.start - data_runs_.back().end < smallest_hole) {
      data_runs_.back().end = run.end;
      continue;
    }
    data_runs_.push_back(run);
    while (data_runs_.size() > kMaxDataRuns) {  // forgets the smallest holes, which only cost time
      smallest_hole = std::max<uint64_t>(2 * smallest_hole, 2 * kSmallestPage);
      size_t kept = 0;
      for (const MemoryRange& one : data_runs_) {
        if (kept > 0 && one.start - data_runs_[kept - 1].end < smallest_hole) {
          data_runs_[kept - 1].end = one.end;
        } else {
          data_runs_[kept++] = one;
        }
      }
      data_runs_.resize(kept);
    }
  }
}

void CoreAddressSpace::ReadNotes(std::string_view notes) {
  const auto aligned = [](uint64_t size) { return (size + 3) & ~uint64_t{3}; };
  for (Elf64_Nhdr head; Take(&notes, &head);) {
    const uint64_t name = aligned(head.n_namesz), body = aligned(head.n_descsz);
    if (name > notes.size() || head.n_descsz > notes.size() - name) return;
    const bool is_core =
        notes.substr(0, head.n_namesz).starts_with("CORE") || notes.substr(0, head.n_namesz).starts_with("LINUX");
    const std::string_view text = notes.substr(name, head.n_descsz);
    notes.remove_prefix(std::min<uint64_t>(name + body, notes.size()));
    if (!is_core) continue;
    switch (head.n_type) {
      case NT_PRSTATUS:
        AddThread(text);
        break;
      case NT_FPREGSET:
      case NT_X86_XSTATE:
        if (threads_.empty()) break;
        for (std::string_view rest = text; rest.size() >= sizeof(uint64_t);) {
          uint64_t word;
          Take(&rest, &word);
          threads_.back().registers.push_back(word);
        }
        break;
      case NT_PRPSINFO: {
        prpsinfo_t info;
        if (std::string_view rest = text; Take(&rest, &info)) {
          pid_ = info.pr_pid;
          program_.assign(info.pr_fname, strnlen(info.pr_fname, sizeof info.pr_fname));
        }
        break;
      }
      case NT_AUXV:
        auxv_ = text;
        break;
      case NT_FILE:
        AddFiles(text);
        break;
      default:
        break;
    }
  }
}

void CoreAddressSpace::AddThread(std::string_view status) {
  prstatus_t about;
  if (threads_.size() >= kMaxThreads || !Take(&status, &about)) return;
  TargetThread thread{.id = about.pr_pid, .inner_id = static_cast<uint32_t>(about.pr_pid), .name = "", .registers = {}};
  const auto* words = reinterpret_cast<const uint64_t*>(&about.pr_reg);
  thread.registers.assign(words, words + sizeof about.pr_reg / sizeof(uint64_t));
  user_regs_struct registers;
  static_assert(sizeof registers <= sizeof about.pr_reg);
  memcpy(&registers, &about.pr_reg, sizeof registers);
#if defined(__x86_64__)
  thread.pc = registers.rip;
  thread.sp = registers.rsp;
#else
  thread.pc = registers.pc;
  thread.sp = registers.sp;
#endif
  thread.has_all_registers = true;
  threads_.push_back(std::move(thread));
}

// count, page size, then (start, end, offset in pages) for each, then the paths.
void CoreAddressSpace::AddFiles(std::string_view files) {
  uint64_t count = 0, page = 0;
  if (!Take(&files, &count) || !Take(&files, &page) || count > files.size() / (3 * sizeof(uint64_t)) ||
      page > (uint64_t{1} << 30))
    return;
  std::string_view paths = files.substr(count * 3 * sizeof(uint64_t));
  for (; count > 0; --count) {
    uint64_t words[3];
    const size_t end = paths.find('\0');
    if (!Take(&files, &words) || end == std::string_view::npos) return;
    if (words[0] < words[1] && files_.size() < kMaxSegments)
      files_.push_back({{words[0], words[1]}, words[2] * page, std::string(paths.substr(0, end))});
    paths.remove_prefix(end + 1);
  }
}

void CoreAddressSpace::AddMappings() {
  std::string_view rest = auxv_;
  for (Elf64_auxv_t entry; Take(&rest, &entry);) {
    if (entry.a_type == AT_RANDOM) in_stack_ = entry.a_un.a_val;
  }
  std::sort(files_.begin(), files_.end(), [](const auto& a, const auto& b) { return a.range.start < b.range.start; });
  std::vector<size_t> order(segments_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [this](size_t a, size_t b) { return segments_[a].range.start < segments_[b].range.start; });
  std::vector<Segment> segments;
  std::vector<uint32_t> rights;
  for (const size_t i : order) {
    if (!segments.empty() && segments_[i].range.start < segments.back().range.end) continue;
    segments.push_back(segments_[i]);
    rights.push_back(rights_[i]);
  }
  segments_ = std::move(segments);
  rights_ = std::move(rights);
  AddLeftOutFiles();
  for (size_t i = 0; i < segments_.size(); ++i) {
    MemoryMapping mapping;
    mapping.start = segments_[i].range.start;
    mapping.end = segments_[i].range.end;
    mapping.readable = (rights_[i] & PF_R) != 0;
    mapping.writable = (rights_[i] & PF_W) != 0;
    if (const FileMapping* file = FileAt(mapping.start)) mapping.name = file->path;
    if (in_stack_ >= mapping.start && in_stack_ < mapping.end) mapping.name = "[stack]";
    mappings_.push_back(std::move(mapping));
    executable_.push_back((rights_[i] & PF_X) != 0);
  }
  const Segment* stack = SegmentAt(in_stack_);
  // The kernel leaves out shared mappings of files, and with a filter all memory. It also leaves out private memory that
  // was never written and has no pointers. Nothing in a core distinguishes such a private mapping of a file from a shared
  // one, so it counts as missing, too.
  const bool lacks_all = stack != nullptr && stack->is_left_out;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const bool may_be_shared =
        mappings_[i].name.starts_with('/') && MayHoldPointers(mappings_[i]) && !IsHoldfastTable(mappings_[i]);
    if (!mappings_[i].writable || !segments_[i].is_left_out || (!lacks_all && !may_be_shared)) continue;
    missing_bytes_ += mappings_[i].end - mappings_[i].start;
    if (!lacks_all) unclear_bytes_ += mappings_[i].end - mappings_[i].start;
  }
  if (stack != nullptr) FindStackStart(stack->range.start);
}

// Adds mappings of files that have no segment. The kernel writes one for each mapping; gcore leaves out those that the
// process did not write, and shared ones.
void CoreAddressSpace::AddLeftOutFiles() {
  std::vector<std::pair<Segment, uint32_t>> all;
  for (size_t i = 0; i < segments_.size(); ++i) all.emplace_back(segments_[i], rights_[i]);
  uint64_t done = 0;
  for (const FileMapping& file : files_) {
    MemoryMapping mapping;
    mapping.name = file.path;
    const uint32_t rights = PF_R | (IsMemoryFile(mapping) ? PF_W : 0);
    uint64_t from = std::max(done, file.range.start);
    auto next = std::partition_point(segments_.begin(), segments_.end(),
                                     [&](const Segment& one) { return one.range.end <= from; });
    for (const uint64_t end = std::min(file.range.end, kUserEnd); from < end;) {
      const bool is_last = next == segments_.end() || next->range.start >= end;
      const uint64_t stop = is_last ? end : next->range.start;
      if (from < stop) all.emplace_back(Segment{.range = {from, stop}}, rights);
      from = is_last ? end : std::max(from, (next++)->range.end);
    }
    done = std::max(done, from);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first.range.start < b.first.range.start; });
  segments_.clear();
  rights_.clear();
  for (const auto& [segment, rights] : all) {
    segments_.push_back(segment);
    rights_.push_back(rights);
  }
}

// On the stack are, in ascending order: argc, the arguments, 0, the environment, 0, the auxiliary vector.
void CoreAddressSpace::FindStackStart(uint64_t lowest) {
  constexpr uint64_t kLargestArguments = uint64_t{8} << 20;
  uint64_t first[2];
  if (auxv_.size() < sizeof first) return;
  memcpy(first, auxv_.data(), sizeof first);
  const uint64_t from = std::max(lowest, in_stack_ - std::min(in_stack_, kLargestArguments)) & ~uint64_t{7};
  std::vector<uint64_t> words((in_stack_ - from) / sizeof(uint64_t));
  if (words.size() < 4 || !Read(from, words.data(), words.size() * sizeof(uint64_t))) return;
  size_t at = words.size() - 2;
  while (at > 0 && (words[at] != first[0] || words[at + 1] != first[1] || words[at - 1] != 0)) --at;
  if (at < 2) return;
  for (at -= 2; at > 0 && words[at] != 0;) --at;  // the end of the arguments
  for (size_t arguments = 0; at > arguments; ++arguments) {
    if (words[at - 1 - arguments] != arguments) continue;
    stack_start_ = from + (at - 1 - arguments) * sizeof(uint64_t);
    return;
  }
}

// The kernel writes the thread that crashed first. Ids are assigned in ascending order, and main has the process's.
void CoreAddressSpace::OrderThreads() {
  std::sort(threads_.begin(), threads_.end(), [this](const TargetThread& a, const TargetThread& b) {
    return std::pair(a.id != pid_, a.id) < std::pair(b.id != pid_, b.id);
  });
  uint32_t number = pid_ != 0 && !threads_.empty() && threads_.front().id != pid_ ? 1 : 0;  // main has ended
  for (TargetThread& thread : threads_) {
    thread.number = ++number;
    if (thread.id == pid_) thread.name = program_;
  }
}

const CoreAddressSpace::Segment* CoreAddressSpace::SegmentAt(uint64_t address) const {
  const auto next = std::upper_bound(segments_.begin(), segments_.end(), address,
                                     [](uint64_t at, const Segment& segment) { return at < segment.range.start; });
  if (next == segments_.begin() || address >= std::prev(next)->range.end) return nullptr;
  return &*std::prev(next);
}

const CoreAddressSpace::FileMapping* CoreAddressSpace::FileAt(uint64_t address) const {
  const auto next = std::upper_bound(files_.begin(), files_.end(), address,
                                     [](uint64_t at, const FileMapping& file) { return at < file.range.start; });
  if (next == files_.begin() || address >= std::prev(next)->range.end) return nullptr;
  return &*std::prev(next);
}

bool CoreAddressSpace::Read(uint64_t address, void* to, size_t bytes) const {
  char* into = static_cast<char*>(to);
  while (bytes > 0) {
    const Segment* segment = SegmentAt(address);
    const uint64_t offset = segment == nullptr ? 0 : address - segment->range.start;
    size_t here = 0;
    if (segment != nullptr && offset < segment->bytes) {
      here = std::min<uint64_t>(bytes, segment->bytes - offset);
      if (!ReadAt(file_, segment->offset + offset, into, here)) return false;
    } else {
      const FileMapping* file = FileAt(address);
      if (file == nullptr ||
          (segment != nullptr && !IsReadOnlyFile(mappings_[static_cast<size_t>(segment - segments_.data())])))
        return false;
      here = std::min<uint64_t>(
          bytes, std::min(file->range.end, segment == nullptr ? file->range.end : segment->range.end) - address);
      if (!ReadFromFile(address, into, here)) return false;
    }
    into += here;
    address += here;
    bytes -= here;
  }
  return true;
}

// Reads what the process had mapped from a file, if the file on this machine has the same first page.
bool CoreAddressSpace::ReadFromFile(uint64_t address, void* to, size_t bytes) const {
  const FileMapping* file = FileAt(address);
  const auto [place, added] = opened_.emplace(file->path, FileDescriptor());
  if (added) {
    const auto first = std::find_if(files_.begin(), files_.end(),
                                    [&](const FileMapping& one) { return one.offset == 0 && one.path == file->path; });
    if (first == files_.end()) return false;
    const Segment* segment = SegmentAt(first->range.start);
    char in_core[kSmallestPage], in_file[kSmallestPage];
    absl::StatusOr<FileDescriptor> opened = OpenRegular(file->path);
    if (segment == nullptr || segment->range.start != first->range.start || segment->bytes < kSmallestPage ||
        !opened.ok() || !ReadAt(file_, segment->offset, in_core, kSmallestPage) ||
        !ReadAt(*opened, 0, in_file, kSmallestPage) || memcmp(in_core, in_file, kSmallestPage) != 0)
      return false;
    place->second = *std::move(opened);
  }
  return place->second.valid() && ReadAt(place->second, file->offset + (address - file->range.start), to, bytes);
}

MemoryRange CoreAddressSpace::PopulatedRun(uint64_t from, uint64_t end) {
  auto segment = std::upper_bound(segments_.begin(), segments_.end(), from,
                                  [](uint64_t at, const Segment& one) { return at < one.range.end; });
  for (; segment != segments_.end() && segment->range.start < end; ++segment) {
    const uint64_t start = std::max(from, segment->range.start), offset = start - segment->range.start;
    if (offset >= segment->bytes) continue;
    const uint64_t place = segment->offset + offset, last = segment->offset + segment->bytes;
    const auto data = std::partition_point(data_runs_.begin(), data_runs_.end(),
                                           [&](const MemoryRange& one) { return one.end <= place; });
    if (data == data_runs_.end() || data->start >= last) continue;
    // Holes begin and end at blocks of the file, which may be within words of the process: gcore places memory anywhere in
    // the file. Holes are zeros, so these words can be read.
    const auto address_of = [&](uint64_t in_file) { return segment->range.start + (in_file - segment->offset); };
    const MemoryRange run{std::max(start, address_of(std::max(data->start, place)) & ~uint64_t{7}),
                          std::min({end, (address_of(data->end) + 7) & ~uint64_t{7}, address_of(last)})};
    if (run.start < run.end) return run;
    if (run.start >= end) break;
  }
  return {end, end};
}

std::vector<std::pair<uint64_t, std::string>> CoreAddressSpace::FirstPages() const {
  std::vector<std::pair<uint64_t, std::string>> pages;
  for (const FileMapping& file : files_) {
    if (file.offset == 0 && file.path.starts_with('/')) pages.emplace_back(file.range.start, file.path);
  }
  return pages;
}

}  // namespace holdfast
