// One profile on its way: what waits in the spool, and what it becomes on the wire.
//
// A request holds one profile: Pyroscope keeps those of a request that it takes although it answers 429 for another, so that
// trying again would count them twice.
#ifndef HOLDFAST_REPORT_PUSH_PUSH_ENTRY_H_
#define HOLDFAST_REPORT_PUSH_PUSH_ENTRY_H_

#include <cstdint>
#include <optional>
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

PushRequest RequestOf(const PushEntry& entry, PushProtocol protocol);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_PUSH_ENTRY_H_
