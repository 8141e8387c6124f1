// Unpacks data in the xz format.
#ifndef HOLDFAST_REPORT_NAMES_ELF_XZ_H_
#define HOLDFAST_REPORT_NAMES_ELF_XZ_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace holdfast {

// Fails if `packed` is damaged, unpacks to more than `most` bytes, or needs more than 128 MiB of memory to unpack.
absl::StatusOr<std::string> UnpackXz(std::string_view packed, size_t most);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_XZ_H_
