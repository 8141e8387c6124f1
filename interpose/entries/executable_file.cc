#include "interpose/entries/executable_file.h"

#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include <initializer_list>

#include "sampler/arch/processor.h"
#include "sampler/capture/module_path.h"
#include "sampler/contract/build_id.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"

namespace holdfast {
namespace {

constexpr size_t kMaxSections = 4096;
constexpr size_t kLargestSection = 1 << 30;
constexpr int kPopulate = 0x8000;  // MAP_POPULATE: all of it will be used, and each page fault would take 0.5 µs

bool ReadAt(long file, uint64_t offset, void* to, size_t count) {
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    const long got = RawSyscall(SYS_pread64, file, at, count, offset);
    if (got == -4 /*EINTR*/) continue;
    if (got <= 0) return false;
    at += got;
    offset += static_cast<uint64_t>(got);
    count -= static_cast<size_t>(got);
  }
  return true;
}

// 0: unknown.
uint64_t BytesOf(long file) {
  struct stat info;
  return SyscallFailed(RawSyscall(SYS_fstat, file, &info)) ? 0 : static_cast<uint64_t>(info.st_size);
}

// A truncated file, or one with damaged headers, has sections beyond its end.
bool IsWithin(const Elf64_Shdr& section, uint64_t file_bytes) {
  return section.sh_offset <= file_bytes && section.sh_size <= file_bytes - section.sh_offset;
}

// The section headers of a file, in memory of their own.
class Sections {
 public:
  explicit Sections(long file) : file_(file) {
    Elf64_Ehdr head;
    if (!ReadAt(file, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum == 0 ||
        head.e_shnum > kMaxSections)
      return;
    bytes_ = head.e_shnum * sizeof(Elf64_Shdr);
    headers_ = static_cast<Elf64_Shdr*>(MapAnonymous(bytes_));
    if (headers_ == nullptr || !ReadAt(file, head.e_shoff, headers_, bytes_)) return;
    count_ = head.e_shnum;
    names_ = head.e_shstrndx;
  }
  Sections(const Sections&) = delete;
  Sections& operator=(const Sections&) = delete;
  ~Sections() {
    if (headers_ != nullptr) RawSyscall(SYS_munmap, headers_, bytes_);
  }

  size_t count() const { return count_; }
  const Elf64_Shdr& operator[](size_t index) const { return headers_[index]; }
  bool IsNamed(const Elf64_Shdr& section, const char* name) const {
    constexpr size_t kLongest = 24;
    char text[kLongest];
    const size_t bytes = TextLength(name) + 1;
    if (names_ >= count_ || bytes > kLongest) return false;
    const Elf64_Shdr& names = headers_[names_];
    return section.sh_name + bytes <= names.sh_size && ReadAt(file_, names.sh_offset + section.sh_name, text, bytes) &&
           memcmp(text, name, bytes) == 0;
  }

 private:
  long file_;
  Elf64_Shdr* headers_ = nullptr;
  size_t bytes_ = 0, count_ = 0, names_ = 0;
};

bool HasBuildId(long file, const BuildId& wanted) {
  const Sections sections(file);
  for (size_t i = 0; i < sections.count(); ++i) {
    char notes[512];
    if (sections[i].sh_type != SHT_NOTE || sections[i].sh_size > sizeof notes ||
        !ReadAt(file, sections[i].sh_offset, notes, sections[i].sh_size))
      continue;
    const BuildId id = FindBuildId(notes, sections[i].sh_size);
    if (id.count > 0) return id.count == wanted.count && memcmp(id.bytes, wanted.bytes, id.count) == 0;
  }
  return false;
}

// Whether a segment that is loaded, and can be read, has these bytes.
bool AreLoaded(const Elf64_Phdr* segments, size_t count, uint64_t address, uint64_t bytes) {
  for (size_t i = 0; i < count; ++i) {
    const Elf64_Phdr& one = segments[i];
    if (one.p_type == PT_LOAD && (one.p_flags & PF_R) != 0 && address >= one.p_vaddr && bytes <= one.p_filesz &&
        address - one.p_vaddr <= one.p_filesz - bytes)
      return true;
  }
  return false;
}

// The build id of the executable in memory, in its notes.
BuildId BuildIdIn(const Elf64_Phdr* segments, size_t count, uintptr_t bias) {
  for (size_t i = 0; i < count; ++i) {
    if (segments[i].p_type != PT_NOTE || !AreLoaded(segments, count, segments[i].p_vaddr, segments[i].p_filesz))
      continue;
    const BuildId id = FindBuildId(reinterpret_cast<const void*>(bias + segments[i].p_vaddr), segments[i].p_filesz);
    if (id.count > 0) return id;
  }
  return {};
}

bool HasSegments(long file, const Elf64_Phdr* segments, size_t count) {
  Elf64_Ehdr head;
  const uint64_t file_bytes = BytesOf(file);
  if (!ReadAt(file, 0, &head, sizeof head) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phnum != count)
    return false;
  for (size_t i = 0; i < count; ++i) {
    Elf64_Phdr segment;
    if (!ReadAt(file, head.e_phoff + i * sizeof segment, &segment, sizeof segment) ||
        memcmp(&segment, &segments[i], sizeof segment) != 0)
      return false;
    // Memory beyond the end of the file is SIGBUS.
    if (segment.p_type == PT_LOAD && segment.p_filesz != 0 &&
        (segment.p_offset > file_bytes || segment.p_filesz > file_bytes - segment.p_offset))
      return false;
  }
  return true;
}

}  // namespace

bool ExecutableFile::Open(const Elf64_Phdr* segments, size_t count, uintptr_t start) {
  if (count > kMaxPrograms) return false;
  memcpy(segments_, segments, count * sizeof *segments);
  segment_count_ = count;
  start_ = start;
  file_ = RawSyscall(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CLOEXEC);
  // The main thread may have ended by pthread_exit.
  if (SyscallFailed(file_)) file_ = RawSyscall(SYS_openat, AT_FDCWD, "/proc/thread-self/exe", O_RDONLY | O_CLOEXEC);
  is_running_ = !SyscallFailed(file_) && HasSegments(file_, segments, count);
  if (!is_running_) {
    if (!SyscallFailed(file_)) RawSyscall(SYS_close, file_);
    size_t length;
    const char* path = FindMappedPath(start & ~(kPageBytes - 1), &length);
    if (path == nullptr || length >= 4096) return false;
    TextBuffer<4097> text;
    for (size_t i = 0; i < length; ++i) text.Add(path[i]);
    file_ = RawSyscall(SYS_openat, AT_FDCWD, text.text(), O_RDONLY | O_CLOEXEC);
    if (SyscallFailed(file_)) return false;
    if (!HasSegments(file_, segments, count)) {
      RawSyscall(SYS_close, file_);
      return false;
    }
  }
  is_open_ = true;
  return true;
}

void ExecutableFile::Close() {
  if (is_open_) RawSyscall(SYS_close, file_);
  ReleaseMemory();
  is_open_ = false;
}

void ExecutableFile::ReleaseMemory() {
  if (memory_ != nullptr) RawSyscall(SYS_munmap, memory_, memory_bytes_);
  memory_ = nullptr;
}

bool ExecutableFile::ReadSymbols(bool has_plain_names, Entries wanted, SymbolList* list) {
  return ReadSymbolsOf(file_, has_plain_names, wanted, list) || ReadDebugSymbols(has_plain_names, wanted, list);
}

// The same files as report/names/elf/separate_symbols.h names.
bool ExecutableFile::ReadDebugSymbols(bool has_plain_names, Entries wanted, SymbolList* list) {
  constexpr char kRoot[] = "/usr/lib/debug";
  const BuildId id = BuildIdIn(segments_, segment_count_, FirstObject()->l_addr);
  if (id.count < 2 || id.count > 64) return false;
  const auto read = [&](auto... parts) {
    size_t length = 0;
    for (const char* part : {static_cast<const char*>(parts)...}) {
      while (*part != '\0' && length + 1 < sizeof path_) path_[length++] = *part++;
    }
    path_[length] = '\0';
    const long file = RawSyscall(SYS_openat, AT_FDCWD, path_, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (SyscallFailed(file)) return false;
    const bool found = HasBuildId(file, id) && ReadSymbolsOf(file, has_plain_names, wanted, list);
    list->is_separate = found;
    RawSyscall(SYS_close, file);
    return found;
  };
  char text[2 * 64 + 2], *end = text;
  for (size_t i = 0; i < id.count; ++i) {
    *end++ = "0123456789abcdef"[id.bytes[i] >> 4];
    *end++ = "0123456789abcdef"[id.bytes[i] & 15];
    if (i == 0) *end++ = '/';
  }
  *end = '\0';
  if (read(kRoot, "/.build-id/", text, ".debug")) return true;
  char name[256];
  if (!ReadDebugLink(name, sizeof name)) return false;
  return FindFolder() && (read(folder_, name) || read(folder_, ".debug/", name) || read(kRoot, folder_, name) ||
                          read(kRoot, "/", name));
}

bool ExecutableFile::ReadDebugLink(char* name, size_t capacity) const {
  const Sections sections(file_);
  for (size_t i = 0; i < sections.count(); ++i) {
    const size_t bytes = sections[i].sh_size < capacity ? sections[i].sh_size : capacity;
    if (!sections.IsNamed(sections[i], ".gnu_debuglink") || !ReadAt(file_, sections[i].sh_offset, name, bytes))
      continue;
    // The name ends with a zero, and a checksum follows.
    return bytes > 0 && memchr(name, '\0', bytes) != nullptr && name[0] != '\0' && strchr(name, '/') == nullptr;
  }
  return false;
}

// Writes the folder of the executable, with the last slash.
bool ExecutableFile::FindFolder() {
  size_t length = 0;
  if (is_running_) {
    const long got = RawSyscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", folder_, sizeof folder_);
    length = SyscallFailed(got) ? 0 : static_cast<size_t>(got);
  } else if (const char* path = FindMappedPath(start_ & ~(kPageBytes - 1), &length);
             path != nullptr && length < sizeof folder_) {
    memcpy(folder_, path, length);
  }
  if (length == 0 || length >= sizeof folder_ || folder_[0] != '/') return false;
  while (folder_[length - 1] != '/') --length;
  folder_[length] = '\0';
  return true;
}

bool ExecutableFile::ReadSymbolsOf(long file, bool has_plain_names, Entries wanted, SymbolList* list) {
  const Sections sections(file);
  for (size_t i = 0; i < sections.count(); ++i) {
    const Elf64_Shdr& symbols = sections[i];
    if (symbols.sh_type != SHT_SYMTAB || symbols.sh_entsize != sizeof(Elf64_Sym) || symbols.sh_link >= sections.count())
      continue;
    const Elf64_Shdr& names = sections[symbols.sh_link];
    const SymbolReading how = HowToReadSymbols(symbols.sh_size, names.sh_size, has_plain_names, wanted);
    if ((names.sh_flags & SHF_COMPRESSED) != 0 || (symbols.sh_flags & SHF_COMPRESSED) != 0 ||
        names.sh_size > kLargestSection || symbols.sh_size > kLargestSection || how == SymbolReading::kNone)
      return false;
    const uint64_t file_bytes = BytesOf(file);
    if (!IsWithin(symbols, file_bytes) || !IsWithin(names, file_bytes)) return false;
    if (how == SymbolReading::kGlobal) {
      const auto read = [](void* context, uint64_t offset, void* to, size_t bytes) {
        return ReadAt(*static_cast<const long*>(context), offset, to, bytes);
      };
      if (found_.Search(symbols, names, read, &file) != AllocatorSymbols::Result::kDone) return false;
      *list = found_.list();
      return true;
    }
    if (file == file_ && is_running_ && MapTables(symbols, names, list)) return true;
    memory_bytes_ = symbols.sh_size + names.sh_size + 1;  // ends with a zero
    memory_ = MapAnonymous(memory_bytes_, kPopulate);
    if (memory_ == nullptr) return false;
    auto* text = static_cast<char*>(memory_) + symbols.sh_size;
    if (!ReadAt(file, symbols.sh_offset, memory_, symbols.sh_size) ||
        !ReadAt(file, names.sh_offset, text, names.sh_size)) {
      ReleaseMemory();
      return false;
    }
    list->symbols = static_cast<const Elf64_Sym*>(memory_);
    list->count = symbols.sh_size / sizeof(Elf64_Sym);
    list->names = text;
    list->name_bytes = names.sh_size;
    return true;
  }
  return false;
}

bool ExecutableFile::MapTables(const Elf64_Shdr& symbols, const Elf64_Shdr& names, SymbolList* list) {
  const uint64_t symbols_end = symbols.sh_offset + symbols.sh_size, names_end = names.sh_offset + names.sh_size;
  const uint64_t first = symbols.sh_offset < names.sh_offset ? symbols.sh_offset : names.sh_offset;
  const uint64_t end = symbols_end > names_end ? symbols_end : names_end;
  if (names.sh_size == 0 || symbols.sh_offset % alignof(Elf64_Sym) != 0 ||
      end - first > symbols.sh_size + names.sh_size + kPageBytes)
    return false;
  const uint64_t start = first & ~(uint64_t{kPageBytes} - 1);
  const long made = RawSyscall(SYS_mmap, 0, end - start, PROT_READ, MAP_PRIVATE, file_, start);
  if (SyscallFailed(made)) return false;
  memory_ = reinterpret_cast<void*>(made);
  memory_bytes_ = end - start;
  // Pages that cannot be read, as after an error of the disk or of a network, are an error here. Below they would be
  // SIGBUS.
  constexpr int kPopulateRead = 22;  // MADV_POPULATE_READ, Linux 5.14
  if (SyscallFailed(RawSyscall(SYS_madvise, memory_, memory_bytes_, kPopulateRead))) {
    ReleaseMemory();
    return false;
  }
  const auto* at = static_cast<const char*>(memory_);
  if (at[names_end - 1 - start] != '\0') {
    ReleaseMemory();
    return false;
  }
  list->symbols = reinterpret_cast<const Elf64_Sym*>(at + (symbols.sh_offset - start));
  list->count = symbols.sh_size / sizeof(Elf64_Sym);
  list->names = at + (names.sh_offset - start);
  list->name_bytes = names.sh_size;
  return true;
}

bool ExecutableFile::HasCode(uint64_t address, const uint8_t* bytes, size_t count) {
  if (address < code_at_ || count > code_bytes_ || address - code_at_ > code_bytes_ - count) {
    code_bytes_ = 0;
    for (size_t i = 0; i < segment_count_; ++i) {
      const Elf64_Phdr& segment = segments_[i];
      if (segment.p_type != PT_LOAD || address < segment.p_vaddr || address - segment.p_vaddr >= segment.p_filesz)
        continue;
      const uint64_t left = segment.p_filesz - (address - segment.p_vaddr);
      const size_t wanted = left < sizeof code_ ? left : sizeof code_;
      if (!ReadAt(file_, segment.p_offset + (address - segment.p_vaddr), code_, wanted)) return false;
      code_at_ = address, code_bytes_ = wanted;
      break;
    }
    if (count > code_bytes_) return false;
  }
  return memcmp(code_ + (address - code_at_), bytes, count) == 0;
}

void ExecutableFile::FindRestartable(ExecutableImage* image) const {
  const Sections sections(file_);
  for (size_t i = 0; i < sections.count(); ++i) {
    if ((sections[i].sh_flags & SHF_ALLOC) == 0 || !sections.IsNamed(sections[i], "__rseq_cs") ||
        !AreLoaded(segments_, segment_count_, sections[i].sh_addr, sections[i].sh_size))
      continue;
    // struct rseq_cs: version and flags in one word, start, length, abort
    const auto* word = reinterpret_cast<const uint64_t*>(image->bias + sections[i].sh_addr);
    for (size_t left = sections[i].sh_size / 32; left > 0; --left, word += 4) {
      if (image->restartable_count == ExecutableImage::kMaxRestartable) return;
      image->restartable[image->restartable_count++] = {word[1], word[1] + word[2], word[3]};
    }
  }
}

}  // namespace holdfast
