// Marks for code paths; "One malloc" in docs/how_it_works.md shows a hot and a slow one.
#ifndef HOLDFAST_SAMPLER_CONTRACT_ATTRIBUTES_H_
#define HOLDFAST_SAMPLER_CONTRACT_ATTRIBUTES_H_

// Inline, one screen, ends in a likely return or a tail-jump.
#define HOLDFAST_HOT __attribute__((always_inline, hot))
// Out of line, but beside the hot code: what runs at every allocation when all are recorded. Half of that cost is cache
// misses in code and data; functions that are placed together need fewer pages and lines.
#define HOLDFAST_WARM __attribute__((noinline, hot))
// Out of line and away from the hot code; such functions end in `Slow`.
#define HOLDFAST_COLD __attribute__((noinline, cold))
#define HOLDFAST_EXPORT __attribute__((visibility("default")))
// For data that several files share: hidden, so reached by one PC-relative access without the GOT.
#define HOLDFAST_HIDDEN __attribute__((visibility("hidden")))
// For data that hot paths read and only the start writes: kept apart from data that changes later, so that no thread
// waits for its cache lines.
#define HOLDFAST_HOT_DATA __attribute__((section("holdfast_hot")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif  // HOLDFAST_SAMPLER_CONTRACT_ATTRIBUTES_H_
