#include "report/fleet/push/push_entry.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/fleet/push/label_pairs.h"
#include "report/fleet/push/otlp_request.h"
#include "report/profile/pprof.h"
#include "report/profile/pprof_bytes.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

enum EntryField : uint32_t { kFamily = 1, kLabels = 2, kId = 3, kFrom = 4, kUntil = 5, kPprof = 6 };
// push.v1 of grafana/pyroscope
enum PushRequestField : uint32_t { kSeries = 1 };
enum SeriesField : uint32_t { kSeriesLabels = 1, kSamples = 2 };
enum RawSampleField : uint32_t { kRawProfile = 1, kSampleId = 2 };

PushRequest ToPush(std::span<const PushEntry* const> entries) {
  PushRequest request{.path = "/push.v1.PusherService/Push", .content_type = "application/proto", .body = {}};
  protozero::pbf_writer message(request.body);
  for (const PushEntry* entry : entries) {
    protozero::pbf_writer series(message, kSeries);
    AddLabelPair(series, kSeriesLabels, "__name__", entry->family);
    AddLabelPair(series, kSeriesLabels, "__delta__",
                 "false");  // otherwise Pyroscope 1 takes alloc_* for totals and subtracts
    for (const auto& [name, value] : entry->labels) AddLabelPair(series, kSeriesLabels, name, value);
    protozero::pbf_writer sample(series, kSamples);
    sample.add_bytes(kRawProfile, entry->pprof.data(), entry->pprof.size());
    sample.add_string(kSampleId, entry->id);
  }
  return request;
}

size_t CountOf(std::string_view what, std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; at += what.size()) ++count;
  return count;
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
         c == '.' || c == '~';
}

// Escapes text for the query of a URL.
std::string UrlEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += IsPlain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

// Returns the server's names for the values of a family, and that none is to be subtracted. Servers before 1.0 show each
// value under its name. Later ones take the family from the names: memory from "alloc_" and "inuse_", mutex and block
// from "mutex_" and "block_", else the last name. So other families avoid these parts in their names.
std::string_view SampleTypesOf(std::string_view family) {
  if (family == "map") {
    return R"({"alloc_objects":{"units":"objects","display-name":"map_allocated_objects"},)"
           R"("alloc_space":{"units":"bytes","display-name":"map_allocated_space"},)"
           R"("inuse_objects":{"units":"objects","aggregation":"average","display-name":"map_objects"},)"
           R"("inuse_space":{"units":"bytes","aggregation":"average","display-name":"map"}})";
  }
  if (family == "resident") {
    return R"({"inuse_objects":{"units":"objects","aggregation":"average","display-name":"resident_objects"},)"
           R"("inuse_space":{"units":"bytes","aggregation":"average","display-name":"resident_heap"},)"
           R"("resident_space":{"units":"bytes","aggregation":"average"},)"
           R"("swapped_space":{"units":"bytes","aggregation":"average","display-name":"resident_swapped"}})";
  }
  if (family == "memory") {
    return R"({"alloc_objects":{"units":"objects"},"alloc_space":{"units":"bytes"},)"
           R"("inuse_objects":{"units":"objects","aggregation":"average"},)"
           R"("inuse_space":{"units":"bytes","aggregation":"average"}})";
  }
  if (family == "threads") {
    return R"({"created":{"units":"objects","display-name":"threads_created"},)"
           R"("alive":{"units":"objects","aggregation":"average","display-name":"threads"}})";
  }
  if (family == "exceptions") return R"({"exceptions":{"units":"exceptions"}})";
  if (family == "process_cpu") {
    return R"({"samples":{"units":"samples","sampled":true,"display-name":"cpu_samples"},)"
           R"("cpu":{"units":"nanoseconds","sampled":true}})";
  }
  if (family == "wall") return R"({"wall":{"units":"nanoseconds","sampled":true,"display-name":"wall"}})";
  if (family == "mutex") {
    return R"({"contentions":{"units":"lock_samples","display-name":"mutex_count"},)"
           R"("delay":{"units":"lock_nanoseconds","display-name":"mutex_duration"}})";
  }
  return R"({"contentions":{"units":"lock_samples","display-name":"block_count"},)"
         R"("delay":{"units":"lock_nanoseconds","display-name":"block_duration"}})";
}

// Pyroscope 1.0 rejects profiles at /ingest if they have fields that pprof does not define.
std::string WithoutRecords(const std::string& pprof) {
  absl::StatusOr<Profile> profile = DecodePprof(pprof, "entry");
  if (!profile.ok()) return pprof;
  *profile->mutable_records() = {};
  return EncodePprof(*profile);
}

PushRequest ToIngest(const PushEntry& entry) {
  std::string service = "unknown", labels;
  for (const auto& [name, value] : entry.labels) {
    std::string plain = value;  // braces, commas and equals signs cannot be quoted
    for (char& c : plain) {
      if (c == ',' || c == '=' || c == '{' || c == '}') c = '_';
    }
    if (name == "service_name") {  // the server accepts no other characters there
      for (char& c : plain) {
        if (!IsPlain(c) || c == '~') c = '_';
      }
      service = plain;
      continue;
    }
    labels += fmt::format("{}{}={}", labels.empty() ? "" : ",", name, plain);
  }
  const std::string boundary = "holdfast-" + entry.id;
  const auto part = [&](std::string_view name, std::string_view file, std::string_view content) {
    return fmt::format(
        "--{}\r\nContent-Disposition: form-data; name=\"{}\"; filename=\"{}\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n{}\r\n",
        boundary, name, file, content);
  };
  return {.path = fmt::format("/ingest?name={}&from={}&until={}&spyName=holdfast",
                              UrlEscaped(fmt::format("{}{{{}}}", service, labels)), entry.from_ns, entry.until_ns),
          .content_type = "multipart/form-data; boundary=" + boundary,
          .body = part("profile", "profile.pprof", WithoutRecords(entry.pprof)) +
                  part("sample_type_config", "sample_type_config.json", SampleTypesOf(entry.family)) +
                  fmt::format("--{}--\r\n", boundary)};
}

// Returns OpenTelemetry's name for one of our labels. Other labels, and the user's own, keep their names.
std::string_view AttributeOf(std::string_view label) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"service_name", "service.name"},
                                                                      {"program", "process.executable.name"},
                                                                      {"host", "host.name"},
                                                                      {"pid", "process.pid"},
                                                                      {"version", "service.version"},
                                                                      {"build_id", "process.executable.build_id.gnu"},
                                                                      {"container", "container.id"},
                                                                      {"pod", "k8s.pod.name"},
                                                                      {"namespace", "k8s.namespace.name"},
                                                                      {"node", "k8s.node.name"}};
  for (const auto& [ours, theirs] : kNames) {
    if (label == ours) return theirs;
  }
  return label;
}

PushRequest ToOtlp(const PushEntry& entry) {
  PushRequest request{.path = kOtlpPath, .content_type = kOtlpType, .body = {}, .is_gzip = true};
  const absl::StatusOr<Profile> profile = DecodePprof(entry.pprof, "entry");
  const Profile none;
  OtlpOrigin origin{
      .attributes = {}, .family = entry.family, .id = {}, .from_ns = entry.from_ns, .until_ns = entry.until_ns};
  for (const auto& [name, value] : entry.labels) origin.attributes.emplace_back(AttributeOf(name), value);
  std::string digits;
  std::copy_if(entry.id.begin(), entry.id.end(), std::back_inserter(digits), [](char c) { return c != '-'; });
  origin.id = absl::HexStringToBytes(digits);
  request.body = Gzip(EncodeOtlp(profile.ok() ? *profile : none, origin), kFastGzip);
  return request;
}

}  // namespace

void PushEntry::SetTimes(int64_t from, int64_t until) {
  if (until != until_ns) pprof = AtTime(pprof, until, std::max<int64_t>(1, until - from));
  from_ns = from;
  until_ns = until;
}

std::string EncodeEntry(const PushEntry& entry) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_string(kFamily, entry.family);
  for (const auto& [name, value] : entry.labels) AddLabelPair(writer, kLabels, name, value);
  writer.add_string(kId, entry.id);
  writer.add_int64(kFrom, entry.from_ns);
  writer.add_int64(kUntil, entry.until_ns);
  writer.add_bytes(kPprof, entry.pprof);
  return bytes;
}

std::optional<PushEntry> DecodeEntry(std::string_view bytes) {
  PushEntry entry;
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      switch (reader.tag()) {
        case kFamily:
          entry.family = reader.get_string();
          break;
        case kLabels:
          entry.labels.push_back(ReadLabelPair(reader.get_message()));
          break;
        case kId:
          entry.id = reader.get_string();
          break;
        case kFrom:
          entry.from_ns = reader.get_int64();
          break;
        case kUntil:
          entry.until_ns = reader.get_int64();
          break;
        case kPprof:
          entry.pprof = reader.get_bytes();
          break;
        default:
          reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  if (entry.family.empty() || entry.pprof.empty()) return std::nullopt;
  return entry;
}

std::string RandomUuid() {
  unsigned char bytes[16] = {};
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return {};
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);  // version 4, variant 1
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string text;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  return text;
}

PushRequest RequestOf(std::span<const PushEntry* const> entries, PushProtocol protocol) {
  switch (protocol) {
    case PushProtocol::kIngest:
      return ToIngest(*entries[0]);
    case PushProtocol::kOtlp:
      return ToOtlp(*entries[0]);
    default:
      return ToPush(entries);
  }
}

PushRequest RequestOf(const PushEntry& entry, PushProtocol protocol) {
  const PushEntry* const one[] = {&entry};
  return RequestOf(one, protocol);
}

// "2 errors: push series with index 0 and id 5d1f… failed: …; push series with index 7 and id 93a0… failed: …"
std::optional<std::vector<bool>> NotTakenOf(std::string_view answer, std::span<const PushEntry* const> entries) {
  constexpr std::string_view kSeriesFailed = "push series with index ", kErrors = " errors: ";
  size_t errors = 1;  // a single error comes without its number
  if (const size_t end = answer.find(kErrors); end != std::string_view::npos) {
    const size_t before = answer.find_last_not_of("0123456789", end == 0 ? 0 : end - 1);
    const size_t start = before == std::string_view::npos ? 0 : before + 1;
    if (start < end && !absl::SimpleAtoi(std::string(answer.substr(start, end - start)), &errors)) return std::nullopt;
  }
  if (CountOf(kSeriesFailed, answer) != errors) return std::nullopt;
  std::vector<bool> not_taken;
  size_t named = 0;
  for (const PushEntry* entry : entries) {
    not_taken.push_back(CountOf(fmt::format(" and id {} failed", entry->id), answer) != 0);
    named += not_taken.back() ? 1 : 0;
  }
  return named == errors ? std::optional(std::move(not_taken)) : std::nullopt;
}

// "profile for series {…} out of order (received 2026-11-26 08:48:40.5 +0000 UTC last 2026-11-26 08:52:40.123456789 +0000 UTC)"
std::optional<int64_t> LastTimeIn(std::string_view answer) {
  const size_t start = answer.find("out of order (received ");
  const size_t last = start == std::string_view::npos ? start : answer.find(" last ", start);
  if (last == std::string_view::npos) return std::nullopt;
  const std::string text(answer.substr(last + sizeof " last " - 1, 64));
  tm time = {};
  const char* rest = strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time);
  if (rest == nullptr) return std::nullopt;
  int64_t nanos = 0;
  if (*rest == '.') {
    int64_t unit = 100'000'000;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) nanos += (*rest - '0') * unit;
  }
  int zone = 0;  // hours and minutes as one number
  if (sscanf(rest, " %d", &zone) != 1) return std::nullopt;
  const int64_t zone_s = zone / 100 * 3600 + zone % 100 * 60;
  return (static_cast<int64_t>(timegm(&time)) - zone_s) * 1'000'000'000 + nanos;
}

}  // namespace holdfast
