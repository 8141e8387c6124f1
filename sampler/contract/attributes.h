// Marks for code paths: "One malloc" in docs/how_it_works.md shows both.
#ifndef HOLDFAST_SAMPLER_CONTRACT_ATTRIBUTES_H_
#define HOLDFAST_SAMPLER_CONTRACT_ATTRIBUTES_H_

// Inline, one screen, ends in a likely return or a tail-jump.
#define HOLDFAST_HOT __attribute__((always_inline, hot))
// Out of line, but beside the hot code: what runs for each allocation where all are recorded. There half of the cost is waiting for
// code and data that are in no cache; functions that lie together need fewer pages and lines of it.
#define HOLDFAST_WARM __attribute__((noinline, hot))
// Out of line and away from the hot code; such functions end in `Slow`.
#define HOLDFAST_COLD __attribute__((noinline, cold))
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
// For data that several files share: known to be ours, so reached by one PC-relative access and no GOT.
#define HOLDFAST_HIDDEN __attribute__((visibility("hidden")))
// For data that hot paths read and that is written at the start only: together, away from whatever is written later, so
// that no thread waits for a cache line of these.
#define HOLDFAST_HOT_DATA __attribute__((section("holdfast_hot")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif  // HOLDFAST_SAMPLER_CONTRACT_ATTRIBUTES_H_
