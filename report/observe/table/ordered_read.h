// Reads a table while its program writes it, so that the copy has a whole record wherever it has a record's offset.
//
// The program fills a record, then stores its offset into the head of a list with release order (layout.h). So a reader
// must load the head first, and the processor must not load the record earlier:
//
//     program                            reader                            the two loads swapped
//       fill row R at 0x9000               pread: head H is 0x9000           R: zeros
//       head H = 0x9000, release           acquire fence                     H is 0x9000: a row that is not whole
//                                          pread at 0x9000: R is whole
//
// This holds on every processor, for these reasons:
//  1. Each pread is followed by an acquire fence. The kernel copies with ordinary loads in the calling thread, so they
//     precede the loads of the thread's next pread. A thread that moves to another processor passes the scheduler's
//     barriers.
//  2. A target is at a higher address than its head: records follow the header, and SharedTable::Allocate puts the
//     target of a head in a record after that record. CopyUpwards copies upwards, in parts. So a head is loaded before a
//     target in another part.
//  3. A head and its target may be in the same part. x86-64 keeps loads in order, and the kernel copies upwards. For
//     other processors CopyUpwards reads each part until no byte appears between two reads, that is, was zero in the first and
//     is not in the second. It keeps the first. All of the second follows the head in the first, so the target is whole
//     in the second. A record's bytes begin as zero, because no record is moved or its memory reused. So a byte that
//     the target lacks in the first read would have appeared.
//  4. Lists outside this order have readers of their own, which read a record after its offset, by another pread:
//     modules, ongoing waits, rows at the peak.
//
// The one field that changes from one offset to another before its record is published is `next`, after another thread
// won the race for the list. Such a change does not appear. After two coincidences, this race and swapped loads, the
// winner's record may be missing from one copy.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_ORDERED_READ_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_ORDERED_READ_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace holdfast {

// Reads exactly [start, end). Returns false if the file is shorter. Later reads of this thread load after this one.
bool ReadRange(int fd, char* to, uint64_t start, uint64_t end);

// Copies [start, end) of the table, see above. Returns false if the file is shorter.
bool CopyUpwards(int fd, char* to, uint64_t start, uint64_t end);

// Returns whether a byte is zero in `before` and not in `after`.
inline bool AnyAppears(const char* before, const char* after, size_t bytes) {
  bool any = false;
  for (size_t i = 0; i < bytes; ++i) any |= before[i] == 0 && after[i] != 0;
  return any;
}

// CopyUpwards for processors that reorder loads. `read` is ReadRange without the file.
template <typename Read>
bool CopyUpwardsAndCheck(Read read, char* to, uint64_t start, uint64_t end) {
  // Reading a part takes less than a microsecond, in which few programs make a record. If something appears during 64
  // reads, the last one is taken.
  constexpr uint64_t kPart = 4096;
  constexpr int kMaxReads = 64;
  char second[kPart];
  while (start < end) {
    const uint64_t size = std::min(kPart - start % kPart, end - start);
    if (!read(to, start, start + size)) return false;
    for (int i = 1; i < kMaxReads; ++i) {
      if (!read(second, start, start + size)) return false;
      if (!AnyAppears(to, second, size)) break;
      memcpy(to, second, size);
    }
    to += size;
    start += size;
  }
  return true;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_ORDERED_READ_H_
