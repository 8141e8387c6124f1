// One profile on its way: what waits in the spool, and what it becomes on the wire.
//
// A request of push.v1 holds many profiles, of each series one: within a request Pyroscope 2 takes them in any order.
#ifndef HOLDFAST_REPORT_PUSH_PUSH_ENTRY_H_
#define HOLDFAST_REPORT_PUSH_PUSH_ENTRY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/push/push_labels.h"

namespace holdfast {

struct PushEntry {
  std::string family;  // memory, mutex, block, map, threads, exceptions: what Pyroscope's types begin with
  std::vector<PushLabel> labels;
  std::string id;  // a random UUID, the same each time that it is tried
  int64_t from_ns = 0, until_ns = 0;
  std::string pprof;  // gzip
};

std::string EncodeEntry(const PushEntry& entry);
// Nothing where the bytes are not one.
std::optional<PushEntry> DecodeEntry(std::string_view bytes);

std::string RandomUuid();

enum class PushProtocol {
  kPush,    // push.v1.PusherService/Push, Pyroscope 1.0 and newer
  kIngest,  // /ingest, as before
  kOtlp,    // OpenTelemetry's, as profiles are from opentelemetry-proto 1.10 on
};

struct PushRequest {
  std::string path, content_type, body;
  bool is_gzip = false;  // the body, as Content-Encoding says
};

// How many entries a request may hold.
constexpr size_t MostEntries(PushProtocol protocol) { return protocol == PushProtocol::kPush ? 256 : 1; }
// `entries`: at least one, at most MostEntries.
PushRequest RequestOf(std::span<const PushEntry* const> entries, PushProtocol protocol);
PushRequest RequestOf(const PushEntry& entry, PushProtocol protocol);

// Which of `entries` the server did not take, by what it said of a request that it answered with an error: Pyroscope 2 names each
// by its id, and has taken the others. Nothing: the answer does not tell.
std::optional<std::vector<bool>> NotTakenOf(std::string_view answer, std::span<const PushEntry* const> entries);

// The time of the last profile of a series, where Pyroscope 1 refused one as out of order; nothing in other answers.
std::optional<int64_t> LastTimeIn(std::string_view answer);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_PUSH_ENTRY_H_
