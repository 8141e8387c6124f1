// A page table as the kernel writes it, made by hand: which pages are there, and which are swapped out.
#ifndef HOLDFAST_TESTS_UNIT_MADE_PAGEMAP_H_
#define HOLDFAST_TESTS_UNIT_MADE_PAGEMAP_H_

#include <sys/mman.h>
#include <unistd.h>

#include "report/observe/memory/mappings.h"

namespace holdfast {

class MadePagemap {
 public:
  static constexpr uint64_t kHere = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62,
                            kGuard = kSwapped | uint64_t{1} << 58;

  MadePagemap() : file_(memfd_create("pagemap", MFD_CLOEXEC)) { Set(uint64_t{1} << 30, 0, 1); }
  void Set(uint64_t address, uint64_t entry, uint64_t pages) {
    for (uint64_t page = address / kPage; pages > 0; ++page, --pages) {
      if (pwrite(file_.get(), &entry, sizeof entry, static_cast<off_t>(page * sizeof entry)) != sizeof entry) abort();
    }
  }
  PageTable Pages() const { return PageTable(FileDescriptor(dup(file_.get()))); }

 private:
  FileDescriptor file_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_MADE_PAGEMAP_H_
