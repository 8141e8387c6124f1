#include "sampler/contract/cpu_sampling.h"

#include "sampler/contract/text.h"

namespace holdfast {
namespace {

// Reads the number at `*text`, up to 9 digits, and moves past it. False: there is none.
bool ReadNumber(const char** text, uint64_t* number) {
  const char* at = *text;
  for (*number = 0; *at >= '0' && *at <= '9' && at - *text < 9; ++at)
    *number = *number * 10 + static_cast<uint64_t>(*at - '0');
  const bool any = at != *text;
  *text = at;
  return any;
}

}  // namespace

bool DefersCpuTimers(const char* release) {
  uint64_t major = 0, minor = 0;
  if (!ReadNumber(&release, &major) || *release++ != '.' || !ReadNumber(&release, &minor)) return false;
  return major > 5 || (major == 5 && minor >= 9);
}

bool ParseCpu(const char* text, uint64_t* interval_ns, bool* is_forced) {
  uint64_t hz = kDefaultCpuHz;
  if (TextStartsWith(text, "yes")) {
    text += 3;
  } else if (TextStartsWith(text, "no")) {
    text += 2;
    hz = 0;
  } else if (!TextStartsWith(text, "force") && !ReadNumber(&text, &hz)) {
    return false;
  }
  if (*text == ',') ++text;
  const bool forced = TextEquals(text, "force");
  if ((!forced && *text != '\0') || hz > kMaxCpuHz) return false;
  *interval_ns = CpuIntervalNs(hz);
  *is_forced = forced;
  return true;
}

}  // namespace holdfast
