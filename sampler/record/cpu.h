// CPU samples, by the code that ran, and in system calls by their caller. Each counts for the CPU time since the
// thread's last one.
#ifndef HOLDFAST_SAMPLER_RECORD_CPU_H_
#define HOLDFAST_SAMPLER_RECORD_CPU_H_

#include "sampler/process/cpu_timers.h"

namespace holdfast {

// In the handler of a CPU timer, with all signals blocked. It may have interrupted anything, our own code as well: then
// the sample has no stack. About 3 KiB of stack are needed for one; with less it is counted without a stack.
void RecordCpu(const CpuTick& tick);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_CPU_H_
