// The kernel's uprobes, as an eBPF profiler uses them: a breakpoint on an instruction of a file, in one process. For tests
// only.
//
//     if (!HasUprobes()) GTEST_SKIP() << "the kernel has no uprobes";
//     Uprobe probe(pid, ProgramPath("known_heap"), address);
//     if (!probe.valid()) GTEST_SKIP() << "the kernel permits no uprobes here";
//     EXPECT_EQ(probe.Count(), 100);
#ifndef HOLDFAST_TESTS_SUPPORT_UPROBE_H_
#define HOLDFAST_TESTS_SUPPORT_UPROBE_H_

#include <elf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "tests/support/profiled.h"

namespace holdfast::testing {

// Returns the position in the file of this address of its code.
inline uint64_t OffsetInFile(const std::string& file, uint64_t address) {
  Elf64_Ehdr head;
  std::memcpy(&head, file.data(), sizeof head);
  for (size_t i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, file.data() + head.e_phoff + i * sizeof segment, sizeof segment);
    if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz)
      return address - segment.p_vaddr + segment.p_offset;
  }
  return 0;
}

inline std::string UprobeType() { return ReadFile("/sys/bus/event_source/devices/uprobe/type"); }
inline bool HasUprobes() { return !UprobeType().empty(); }

class Uprobe {
 public:
  Uprobe(pid_t pid, const std::string& path, uint64_t address) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = static_cast<uint32_t>(std::stoul(UprobeType()));
    attributes.config1 = reinterpret_cast<uint64_t>(path.c_str());
    attributes.config2 = OffsetInFile(ReadFile(path), address);
    counter_ = static_cast<int>(syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
  }
  Uprobe(Uprobe&& other) noexcept : counter_(other.counter_) { other.counter_ = -1; }
  Uprobe(const Uprobe&) = delete;
  Uprobe& operator=(const Uprobe&) = delete;
  // Takes the breakpoint out.
  ~Uprobe() {
    if (counter_ >= 0) close(counter_);
  }

  bool valid() const { return counter_ >= 0; }
  // How often the instruction has run; −1: not known.
  int64_t Count() const {
    int64_t count = -1;
    return read(counter_, &count, sizeof count) == static_cast<ssize_t>(sizeof count) ? count : -1;
  }

 private:
  int counter_;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_UPROBE_H_
