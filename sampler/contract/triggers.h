// Conditions that take an extra snapshot: the syntax of `run --snapshot-when` and HOLDFAST_SNAPSHOT_WHEN. The library
// parses them to report mistakes, and passes the text on in the table; the exporter parses and checks them.
//
//     inuse>2GiB  rss>80%limit      above a size, or above a share of the control group's memory limit
//     growth>100MiB/min             bytes in use have grown by more than that within a minute
//     delay>10s/min                 all threads together have waited longer than that for locks within a minute
//
// Separate several by commas. Without libc, any thread.
#ifndef HOLDFAST_SAMPLER_CONTRACT_TRIGGERS_H_
#define HOLDFAST_SAMPLER_CONTRACT_TRIGGERS_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

enum class TriggerQuantity : uint8_t { kInUse, kResident, kGrowth, kDelay };

struct Trigger {
  TriggerQuantity quantity;
  uint64_t above;         // bytes; nanoseconds for kDelay; 0: see `of_limit`
  uint64_t within_ns;     // kGrowth, kDelay
  uint32_t of_limit;      // hundredths of a percent of the memory limit; 0: see `above`
  uint16_t start, bytes;  // its text, without blanks around it
};

inline constexpr int kMaxTriggers = 8;
inline constexpr size_t kTriggerTextBytes = 256;  // with the terminating zero

struct TriggerList {
  Trigger all[kMaxTriggers];
  int count;
};

// What is allowed, for messages.
inline constexpr char kTriggersTake[] =
    "conditions such as inuse>2GiB, rss>80%limit, growth>100MiB/min, delay>10s/min, at most 8 with commas between";

// Returns false if `text` is invalid. Empty text (or blanks) is no condition, and true.
bool ParseTriggers(const char* text, TriggerList* list);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_TRIGGERS_H_
