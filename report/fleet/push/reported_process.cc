#include "report/fleet/push/reported_process.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "report/fleet/live/kept_values.h"
#include "report/fleet/push/label_pairs.h"

namespace holdfast {
namespace {

enum ReportedField : uint32_t { kProcess = 1, kProgram = 2, kPid = 3, kLabelsPart = 4, kKinds = 5, kLastEntry = 6 };
enum KindField : uint32_t { kKind = 1 };  // followed by the fields of EncodeValues

void AddKind(protozero::pbf_writer& writer, uint64_t kind, const CumulativeValues& values) {
  std::string message;
  protozero::pbf_writer(message).add_uint64(kKind, kind);
  writer.add_message(kKinds, message + EncodeValues(values));
}

bool ReadKind(std::string_view bytes, ReportedProcess* reported) {
  protozero::pbf_reader message(bytes.data(), bytes.size());
  const uint64_t kind = message.next(kKind) ? message.get_uint64() : 0;
  std::optional<CumulativeValues> values = DecodeValues(bytes);
  if (kind >= kProfileKinds || !values.has_value()) return false;
  reported->kinds[kind] = *std::move(values);
  return true;
}

}  // namespace

std::string EncodeReported(const ReportedProcess& reported) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_string(kProcess, reported.process);
  writer.add_string(kProgram, reported.program);
  writer.add_uint32(kPid, reported.pid);
  for (const auto& [name, value] : reported.labels) AddLabelPair(writer, kLabelsPart, name, value);
  for (size_t kind = 0; kind < reported.kinds.size(); ++kind) AddKind(writer, kind, reported.kinds[kind]);
  writer.add_uint64(kLastEntry, reported.last_entry);
  return bytes;
}

std::optional<ReportedProcess> DecodeReported(std::string_view bytes) {
  ReportedProcess reported;
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      switch (reader.tag()) {
        case kProcess:
          reported.process = reader.get_string();
          break;
        case kProgram:
          reported.program = reader.get_string();
          break;
        case kPid:
          reported.pid = reader.get_uint32();
          break;
        case kLabelsPart:
          reported.labels.push_back(ReadLabelPair(reader.get_message()));
          break;
        case kKinds:
          if (const auto view = reader.get_view(); !ReadKind({view.data(), view.size()}, &reported))
            return std::nullopt;
          break;
        case kLastEntry:
          reported.last_entry = reader.get_uint64();
          break;
        default:
          reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  if (reported.process.empty()) return std::nullopt;
  return reported;
}

}  // namespace holdfast
