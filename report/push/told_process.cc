#include "report/push/told_process.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "report/push/label_pairs.h"

namespace holdfast {
namespace {

enum ToldField : uint32_t { kProcess = 1, kProgram = 2, kPid = 3, kLabelsPart = 4, kKinds = 5, kLastEntry = 6 };
enum KindField : uint32_t { kKind = 1, kTime = 2, kIds = 3, kValues = 4 };

void AddKind(protozero::pbf_writer& writer, uint64_t kind, const CumulativeValues& values) {
  std::vector<uint64_t> ids;
  std::vector<int64_t> numbers;
  for (const auto& [id, of_types] : values.all()) {
    ids.push_back(id);
    numbers.insert(numbers.end(), of_types.begin(), of_types.end());
  }
  protozero::pbf_writer message(writer, kKinds);
  message.add_uint64(kKind, kind);
  message.add_int64(kTime, values.time_nanos());
  message.add_packed_fixed64(kIds, ids.begin(), ids.end());
  message.add_packed_int64(kValues, numbers.begin(), numbers.end());
}

bool ReadKind(protozero::pbf_reader message, ToldProcess* told) {
  uint64_t kind = 0;
  CumulativeValues values;
  std::vector<uint64_t> ids;
  std::vector<int64_t> numbers;
  while (message.next()) {
    if (message.tag() == kKind) {
      kind = message.get_uint64();
    } else if (message.tag() == kTime) {
      values.set_time_nanos(message.get_int64());
    } else if (message.tag() == kIds) {
      const auto range = message.get_packed_fixed64();
      ids.assign(range.begin(), range.end());
    } else if (message.tag() == kValues) {
      const auto range = message.get_packed_int64();
      numbers.assign(range.begin(), range.end());
    } else {
      message.skip();
    }
  }
  constexpr size_t kTypes = CumulativeValues::kMostTypes;
  if (kind >= kProfileKinds || numbers.size() != ids.size() * kTypes) return false;
  for (size_t i = 0; i < ids.size(); ++i) {
    CumulativeValues::Values of_types;
    for (size_t type = 0; type < kTypes; ++type) of_types[type] = numbers[i * kTypes + type];
    values.Put(ids[i], of_types);
  }
  told->kinds[kind] = std::move(values);
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
          if (!ReadKind(reader.get_message(), &told)) return std::nullopt;
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
