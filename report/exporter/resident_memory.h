// What keeps the exporter small between snapshots, and first in the way of the out-of-memory killer: it is charged to the
// container of the program that it serves.
#ifndef HOLDFAST_REPORT_EXPORTER_RESIDENT_MEMORY_H_
#define HOLDFAST_REPORT_EXPORTER_RESIDENT_MEMORY_H_

namespace holdfast {

// For the whole process, once, before it works: freed pages of operator new go back to the kernel when they are freed. mimalloc
// would wait for some milliseconds, and for another allocation after them, which an exporter at rest does not make: up to
// 10 MiB stayed.
void GiveBackFreedPagesAtOnce();

// Gives the allocators' free memory back to the kernel, and lets go of the pages of code and constants that are mapped from
// files: what is needed of them again comes from the page cache, in chunks of 64 KiB. About a millisecond.
void GiveBackMemory();

// Badness by which the kernel chooses whom to kill for want of memory: 1000 stands for all the memory of the machine, or of the
// control group. At rest the exporter goes before whoever holds less than a third of it, so that the program that ate it all
// goes first and has a last profile; while it builds one it goes before everybody.
inline constexpr int kBadnessAtRest = 300, kBadnessAtWork = 1000;
// Never below what it was when the process was started, which takes a privilege.
void SetBadness(int badness);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_RESIDENT_MEMORY_H_
