// Sizes, times and numbers as people write them, read without libc: no sign, no blanks, at most one point. Any thread, any time.
#ifndef HOLDFAST_SAMPLER_CONTRACT_QUANTITIES_H_
#define HOLDFAST_SAMPLER_CONTRACT_QUANTITIES_H_

#include <cstdint>

namespace holdfast {

// "512KiB" → 524288; B, KiB, MiB, GiB, KB, MB, GB; no unit = bytes. False: not a size.
bool ParseSize(const char* text, uint64_t* bytes);
// "100us" → 100000; ns, us, ms, s, m, h; only 0 needs no unit. False: not a time.
bool ParseTime(const char* text, uint64_t* ns);
// "100" → 100. False: not a whole number.
bool ParseCount(const char* text, uint64_t* value);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_QUANTITIES_H_
