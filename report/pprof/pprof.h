// pprof files: the one writer and the one reader. Format: profile.proto of google/pprof, gzip around it.
//
// The writer streams: besides the profile it holds one message, 64 KiB and zlib's window. What it guarantees of every
// file, whatever the profile holds: ids 1..N in table order, string_table[0] "", valid UTF-8 (bad bytes become U+FFFD),
// fields in the order of their numbers, so that default_sample_type comes last of those that others know.
//
// The reader takes gzip (also several members after each other), plain protobuf, or the text of other tools (text_profile.h), and
// trusts nothing: every length is
// checked against the bytes that are left, every index against its table. What it cannot take is one absl::Status whose
// message stands by itself:
//     /tmp/app.heap.pb.gz: truncated at byte 4096 (gzip trailer missing). The process was probably killed while …
// Input, packed or unpacked, is refused above kMaxProfileBytes. Memory: the unpacked file and the profile.
#ifndef HOLDFAST_REPORT_PPROF_PPROF_H_
#define HOLDFAST_REPORT_PPROF_PPROF_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/pprof/profile.h"

namespace holdfast {

inline constexpr uint64_t kMaxProfileBytes = uint64_t{4} << 30;

// Writes all of it or fails with the reason, errno's text included; `fd` is neither synced nor closed.
absl::Status WritePprof(const Profile& profile, int fd);
std::string EncodePprof(const Profile& profile);
// The same profile at another time, without packing it again: a gzip file may have several members, and of a number that stands
// twice protobuf takes the last. `pprof` is what EncodePprof made; some 40 bytes more.
std::string AtTime(std::string_view pprof, int64_t time_nanos, int64_t duration_nanos);

// `path` "-" is standard input. `max_bytes` is for tests.
absl::StatusOr<Profile> ReadPprofFile(const std::string& path, uint64_t max_bytes = kMaxProfileBytes);
// `name` begins the message of an error.
absl::StatusOr<Profile> DecodePprof(std::string_view bytes, std::string_view name,
                                    uint64_t max_bytes = kMaxProfileBytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PPROF_PPROF_H_
