// A stack as text in a comment: " 0x55d2c0901233 0x55d2c0901300", the addresses of its locations, innermost first.
#ifndef HOLDFAST_REPORT_PPROF_STACK_TEXT_H_
#define HOLDFAST_REPORT_PPROF_STACK_TEXT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/pprof/profile.h"

namespace holdfast {

using LocationsByAddress = absl::flat_hash_map<uint64_t, uint32_t>;  // address → first location with it
LocationsByAddress LocationsByAddressOf(const Profile& profile);

std::string StackText(const Profile& profile, std::span<const uint32_t> locations);

// Reads the known locations of `text`. Returns false if there are none, or if the text contains anything else.
bool ReadStackText(std::string_view text, const LocationsByAddress& locations, std::vector<uint32_t>* stack);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_STACK_TEXT_H_
