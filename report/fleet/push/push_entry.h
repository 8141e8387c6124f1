// One profile to be sent: its form in the spool, and its form in a request.
//
// A request of push.v1 holds many profiles. Pyroscope 2 processes them in any order, and Pyroscope 1 in turn.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_PUSH_ENTRY_H_
#define HOLDFAST_REPORT_FLEET_PUSH_PUSH_ENTRY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/fleet/push/push_labels.h"

namespace holdfast {

struct PushEntry {
  std::string
      family;  // memory, mutex, block, map, threads, exceptions, process_cpu, wall: the prefix of Pyroscope's types
  std::vector<PushLabel> labels;
  std::string id;  // a random UUID, the same in each attempt
  int64_t from_ns = 0, until_ns = 0;
  std::string pprof;  // gzip

  // Moves the profile as well, to its end.
  void SetTimes(int64_t from, int64_t until);
};

std::string EncodeEntry(const PushEntry& entry);
// Returns nothing if the bytes are invalid.
std::optional<PushEntry> DecodeEntry(std::string_view bytes);

std::string RandomUuid();

enum class PushProtocol {
  kPush,    // push.v1.PusherService/Push, Pyroscope 1.0 and newer
  kIngest,  // /ingest, for older servers
  kOtlp,    // OpenTelemetry's, with profiles as of opentelemetry-proto 1.10
};

struct PushRequest {
  std::string path, content_type, body;
  bool is_gzip = false;  // Content-Encoding of the body
};

// Returns how many entries a request may hold.
constexpr size_t MaxEntries(PushProtocol protocol) { return protocol == PushProtocol::kPush ? 256 : 1; }
// `entries`: at least one, at most MaxEntries.
PushRequest RequestOf(std::span<const PushEntry* const> entries, PushProtocol protocol);
PushRequest RequestOf(const PushEntry& entry, PushProtocol protocol);

// For a request that failed, returns which of `entries` the server rejected: for its own errors, not for limits and
// invalid profiles, Pyroscope 2 names each by its id, and has accepted the others. Returns nothing if the answer does
// not say.
std::optional<std::vector<bool>> NotTakenOf(std::string_view answer, std::span<const PushEntry* const> entries);

// If Pyroscope 1 rejected a profile as out of order, returns the time of the last profile of that series. Returns
// nothing for other answers.
std::optional<int64_t> LastTimeIn(std::string_view answer);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_PUSH_ENTRY_H_
