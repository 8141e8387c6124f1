#include "report/fleet/push/told_process.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "report/fleet/live/kept_values.h"
#include "report/fleet/push/label_pairs.h"

namespace holdfast {
namespace {

enum ToldField : uint32_t { kProcess = 1, kProgram = 2, kPid = 3, kLabelsPart = 4, kKinds = 5, kLastEntry = 6 };
enum KindField : uint32_t { kKind = 1 };  // followed by the fields of EncodeValues

void AddKind(protozero::pbf_writer& writer, uint64_t kind, const CumulativeValues& values) {
  std::string message;
  protozero::pbf_writer(message).add_uint64(kKind, kind);
  writer.add_message(kKinds, message + EncodeValues(values));
}

bool ReadKind(std::string_view bytes, ToldProcess* told) {
  protozero::pbf_reader message(bytes.data(), bytes.size());
  const uint64_t kind = message.next(kKind) ? message.get_uint64() : 0;
  std::optional<CumulativeValues> values = DecodeValues(bytes);
  if (kind >= kProfileKinds || !values.has_value()) return false;
  told->kinds[kind] = *std::move(values);
  return true;
}

}  // namespace

std::string EncodeTold(const ToldProcess& told) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  writer.add_string(kProcess, told.process);
  writer.add_string(kProgram, told.program);
  writer.add_uint32(kPid, told.pid);
  for (const auto& [name, value] : told.labels) AddLabelPair(writer, kLabelsPart, name, value);
  for (size_t kind = 0; kind < told.kinds.size(); ++kind) AddKind(writer, kind, told.kinds[kind]);
  writer.add_uint64(kLastEntry, told.last_entry);
  return bytes;
}

std::optional<ToldProcess> DecodeTold(std::string_view bytes) {
  ToldProcess told;
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      switch (reader.tag()) {
        case kProcess:
          told.process = reader.get_string();
          break;
        case kProgram:
          told.program = reader.get_string();
          break;
        case kPid:
          told.pid = reader.get_uint32();
          break;
        case kLabelsPart:
          told.labels.push_back(ReadLabelPair(reader.get_message()));
          break;
        case kKinds:
          if (const auto view = reader.get_view(); !ReadKind({view.data(), view.size()}, &told)) return std::nullopt;
          break;
        case kLastEntry:
          told.last_entry = reader.get_uint64();
          break;
        default:
          reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  if (told.process.empty()) return std::nullopt;
  return told;
}

}  // namespace holdfast
