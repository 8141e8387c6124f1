// A pprof profile as OTLP's request: ExportProfilesServiceRequest of opentelemetry.proto.collector.profiles.v1development, which
// has the fields of ProfilesData. OTLP's profiles have one type each, so that one of ours becomes several: those of its types
// that have a value.
#ifndef HOLDFAST_REPORT_OTLP_OTLP_REQUEST_H_
#define HOLDFAST_REPORT_OTLP_OTLP_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

struct OtlpOrigin {
  // Of the resource, by OpenTelemetry's names: "service.name". Numbers where the conventions have them.
  std::vector<std::pair<std::string, std::string>> attributes;
  // "memory", "mutex", "block": the type of the period, by which servers tell the delays of mutex and block profiles apart.
  std::string family;
  std::string id;  // 16 bytes, the same each time that it is sent
  int64_t from_ns = 0, until_ns = 0;
};

inline constexpr char kOtlpPath[] = "/v1development/profiles", kOtlpType[] = "application/x-protobuf";

std::string EncodeOtlp(const Profile& profile, const OtlpOrigin& origin);

// Of a response with status 200: why profiles were rejected, if any were.
std::optional<std::string> RejectedByOtlp(std::string_view response);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OTLP_OTLP_REQUEST_H_
