// The probes of OpenTelemetry's contract for memory profiles. Its eBPF profiler attaches to them in any process that has
// the library, takes the stack itself, and counts what is in use:
//
//   otel_memory:alloc(ptr, size, weighted_bytes)   a sampled block, and its weight in bytes (weight.h, rounded)
//   otel_memory:free(ptr)                          a sampled block is freed, just before the real free
//
// Both fire for exactly the blocks that our own tables record, so an interval of 1 byte fires for every block. A block
// of the program's own pool (include/holdfast.h) has the key of pool_blocks.h as its pointer.
#ifndef HOLDFAST_SAMPLER_RECORD_OTEL_PROBES_H_
#define HOLDFAST_SAMPLER_RECORD_OTEL_PROBES_H_

#include "sampler/arch/probe.h"
#include "sampler/contract/records.h"

namespace holdfast {

HOLDFAST_ARCH void ProbeAlloc(const void* block, uint64_t bytes, uint64_t weighted_bytes) {
  HOLDFAST_PROBE3("otel_memory", "alloc", block, bytes, weighted_bytes);
}
HOLDFAST_ARCH void ProbeFree(const void* block) { HOLDFAST_PROBE1("otel_memory", "free", block); }
// For the short path at interval 1 (exact.h), where even moves count. Tracers that read the note find the arguments.
HOLDFAST_ARCH void ProbeAllocExact(const void* block, uint64_t bytes) {
  HOLDFAST_PROBE3_ANYWHERE("otel_memory", "alloc", block, bytes, bytes);
}
HOLDFAST_ARCH void ProbeFreeExact(const void* block) { HOLDFAST_PROBE1_ANYWHERE("otel_memory", "free", block); }

// Weight::amount in whole bytes.
HOLDFAST_ARCH uint64_t WholeBytes(uint64_t amount) {
  return (amount + (uint64_t{1} << (kAmountFractionBits - 1))) >> kAmountFractionBits;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_OTEL_PROBES_H_
