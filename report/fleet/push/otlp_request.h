// Encodes a pprof profile as an OTLP request: ExportProfilesServiceRequest of
// opentelemetry.proto.collector.profiles.v1development, which has the fields of ProfilesData. Each OTLP profile has one
// value type, so one of our profiles becomes several: one per type that has a value.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_OTLP_REQUEST_H_
#define HOLDFAST_REPORT_FLEET_PUSH_OTLP_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

struct OtlpOrigin {
  // Attributes of the resource, with OpenTelemetry's names: "service.name". Values are numbers if the conventions say so.
  std::vector<std::pair<std::string, std::string>> attributes;
  // "memory", "mutex", "block": the type of the period. Servers use it to distinguish the delays of mutex and block
  // profiles.
  std::string family;
  std::string id;  // 16 bytes; the same whenever the profile is sent again
  int64_t from_ns = 0, until_ns = 0;
};

inline constexpr char kOtlpPath[] = "/v1development/profiles", kOtlpType[] = "application/x-protobuf";

std::string EncodeOtlp(const Profile& profile, const OtlpOrigin& origin);

// For a response with status 200: returns why profiles were rejected, if any were.
std::optional<std::string> RejectedByOtlp(std::string_view response);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_OTLP_REQUEST_H_
