// Any bytes as a profile: read or refused with a message, never a crash. What was read is written and read again, and is
// the same then.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "report/profile/pprof.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint64_t kMaxBytes = 16 << 20;
  const absl::StatusOr<holdfast::Profile> profile =
      holdfast::DecodePprof({reinterpret_cast<const char*>(data), size}, "fuzz", kMaxBytes);
  if (!profile.ok()) return 0;
  const absl::StatusOr<holdfast::Profile> again =
      holdfast::DecodePprof(holdfast::EncodePprof(*profile), "again", 8 * kMaxBytes);
  if (!again.ok() || again->samples.size() != profile->samples.size() ||
      again->locations.size() != profile->locations.size())
    abort();
  for (size_t type = 0; type < profile->sample_types.size(); ++type) {
    if (again->Total(type) != profile->Total(type)) abort();
  }
  return 0;
}
