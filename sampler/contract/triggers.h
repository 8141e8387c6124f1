// Conditions under which a snapshot is taken besides those of each interval: what `run --snapshot-when` and HOLDFAST_SNAPSHOT_WHEN
// take. The library reads them to say what is wrong and hands the text on in the table; the exporter reads that and looks.
//
//     inuse>2GiB  rss>80%limit      more than so much, or than that part of the control group's memory limit
//     growth>100MiB/min             in use has grown by more than that within a minute
//     delay>10s/min                 threads have waited for locks for more than that, all together, within a minute
//
// Several stand with commas between. Without libc, any thread.
#ifndef HOLDFAST_SAMPLER_CONTRACT_TRIGGERS_H_
#define HOLDFAST_SAMPLER_CONTRACT_TRIGGERS_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

enum class TriggerQuantity : uint8_t { kInUse, kResident, kGrowth, kDelay };

struct Trigger {
  TriggerQuantity quantity;
  uint64_t above;         // bytes; of kDelay nanoseconds; 0: `of_limit` says it
  uint64_t within_ns;     // kGrowth, kDelay
  uint32_t of_limit;      // hundredths of a percent of the memory limit; 0: `above` says it
  uint16_t start, bytes;  // of its own text, without blanks around it
};

inline constexpr int kMostTriggers = 8;
inline constexpr size_t kTriggerTextBytes = 256;  // with the zero at its end

struct TriggerList {
  Trigger all[kMostTriggers];
  int count;
};

// As in messages: what is allowed.
inline constexpr char kTriggersTake[] =
    "conditions such as inuse>2GiB, rss>80%limit, growth>100MiB/min, delay>10s/min, at most 8 with commas between";

// False: `text` is none. Nothing (or blanks) is no condition, and true.
bool ParseTriggers(const char* text, TriggerList* list);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_TRIGGERS_H_
