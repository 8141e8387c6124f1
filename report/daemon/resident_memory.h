// Keeps the exporter small between snapshots, and makes it the first victim of the out-of-memory killer: its memory is
// charged to the container of the program that it serves.
#ifndef HOLDFAST_REPORT_DAEMON_RESIDENT_MEMORY_H_
#define HOLDFAST_REPORT_DAEMON_RESIDENT_MEMORY_H_

namespace holdfast {

// Makes operator delete return pages to the kernel at once. Call once, before the process begins its work. By default
// mimalloc waits some milliseconds, and for another allocation afterwards, which an idle exporter does not make: up to
// 10 MiB remained resident. Also forbids huge pages, which mimalloc 3 requests: 12 MiB remained.
void GiveBackFreedPagesAtOnce();

// For a child that executes a program of the user, which would inherit that they are forbidden.
void AllowHugePages();

// Returns the allocators' free memory to the kernel, and drops pages of code and constants that are mapped from files:
// needed ones come back from the page cache, in chunks of 64 KiB. Takes about a millisecond.
void GiveBackMemory();

// oom_score_adj, by which the kernel chooses its victim: 1000 corresponds to all memory of the machine or the control
// group. At rest the exporter precedes any process with less than a third of the memory. So the program that used it
// all is killed first and has a last profile. While the exporter builds a profile, it precedes every process.
inline constexpr int kBadnessAtRest = 300, kBadnessAtWork = 1000;
// Never sets a lower value than at the start of the process, which would need a privilege.
void SetBadness(int badness);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_RESIDENT_MEMORY_H_
