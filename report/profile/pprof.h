// The only writer and the only reader of pprof files. Format: profile.proto of google/pprof, compressed with gzip.
//
// The writer streams: besides the profile, it holds one message, 64 KiB and zlib's window. Every file, whatever the
// profile contains, has ids 1..N in table order, string_table[0] "", valid UTF-8 (invalid bytes become U+FFFD), and
// fields in the order of their numbers, so that default_sample_type is the last field known to other tools.
//
// The reader accepts gzip (also several consecutive members), plain protobuf, or text profiles of other tools
// (text_profile.h). It trusts nothing: it checks every length against the remaining bytes and every index against its
// table. Invalid input gives one absl::Status with a complete message:
//     /tmp/app.heap.pb.gz: truncated at byte 4096 (gzip trailer missing). The process was probably killed while …
// Input above kMaxProfileBytes, compressed or not, is rejected. Memory: the uncompressed file and the profile.
#ifndef HOLDFAST_REPORT_PROFILE_PPROF_H_
#define HOLDFAST_REPORT_PROFILE_PPROF_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/profile/profile.h"

namespace holdfast {

inline constexpr uint64_t kMaxProfileBytes = uint64_t{4} << 30;

// Writes everything, or fails with a reason that includes errno's text. Neither syncs nor closes `fd`.
absl::Status WritePprof(const Profile& profile, int fd);
std::string EncodePprof(const Profile& profile);
// Returns the same profile with another time, without compressing it again: a gzip file may have several members, and
// if a number occurs twice, protobuf uses the last. `pprof`: from EncodePprof. Adds about 40 bytes.
std::string AtTime(std::string_view pprof, int64_t time_nanos, int64_t duration_nanos);

// `path` "-" is standard input. `max_bytes` is for tests.
absl::StatusOr<Profile> ReadPprofFile(const std::string& path, uint64_t max_bytes = kMaxProfileBytes);
// `name`: the beginning of an error message.
absl::StatusOr<Profile> DecodePprof(std::string_view bytes, std::string_view name,
                                    uint64_t max_bytes = kMaxProfileBytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_PPROF_H_
