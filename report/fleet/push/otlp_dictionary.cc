#include "report/fleet/push/otlp_dictionary.h"

#include <protozero/pbf_writer.hpp>

namespace holdfast {
namespace {

using Writer = protozero::pbf_writer;
using Index = OtlpDictionary::Index;

// As in proto3, zeros are not written.
void Number(Writer& writer, uint32_t field, int64_t value) {
  if (value != 0) writer.add_int64(field, value);
}
void Unsigned(Writer& writer, uint32_t field, uint64_t value) {
  if (value != 0) writer.add_uint64(field, value);
}

template <typename Table>
Index Known(absl::flat_hash_map<std::string, Index>* known, Table* table, std::string entry) {
  if (entry.empty()) return 0;
  const auto [place, added] = known->emplace(std::move(entry), table->size);
  if (added) table->Add(place->first);
  return place->second;
}

}  // namespace

Index OtlpDictionary::Table::Add(std::string_view entry) {
  Writer writer(bytes);
  writer.add_message(field, entry.data(), entry.size());
  return size++;
}

OtlpDictionary::OtlpDictionary(const Profile& from)
    : from_(from),
      of_mapping_(from.mappings.size()),
      of_location_(from.locations.size()),
      of_function_(from.functions.size()) {
  for (Table* table : {&mappings_, &locations_, &functions_, &links_, &strings_, &attributes_, &stacks_})
    table->Add("");
}

Index OtlpDictionary::String(std::string_view text) {
  const Index index = static_cast<Index>(texts_.Intern(text));
  if (index == strings_.size) strings_.Add(text);
  return index;
}

Index OtlpDictionary::Attribute(std::string_view key, std::string_view value) {
  std::string entry;
  Writer writer(entry);
  Number(writer, otlp::kAttributeKey, String(key));
  {
    Writer any(writer, otlp::kAttributeValue);
    any.add_string(otlp::kStringValue, value.data(), value.size());
  }
  return Known(&known_attributes_, &attributes_, std::move(entry));
}

Index OtlpDictionary::Mapping(uint32_t number) {
  Index& index = of_mapping_[number];
  if (index != 0) return index;
  const Profile::Mapping& mapping = from_.mappings[number];
  std::string entry;
  Writer writer(entry);
  Unsigned(writer, otlp::kMemoryStart, mapping.start);
  Unsigned(writer, otlp::kMemoryLimit, mapping.limit);
  Unsigned(writer, otlp::kFileOffset, mapping.offset);
  Number(writer, otlp::kMappingFile, String(mapping.file));
  if (mapping.build_id != 0) {
    const Index build_id[] = {Attribute("process.executable.build_id.gnu", from_.strings[mapping.build_id])};
    writer.add_packed_int32(otlp::kMappingAttributes, std::begin(build_id), std::end(build_id));
  }
  return index = Known(&known_mappings_, &mappings_, std::move(entry));
}

Index OtlpDictionary::Function(uint32_t number) {
  Index& index = of_function_[number];
  if (index != 0) return index;
  const Profile::Function& function = from_.functions[number];
  std::string entry;
  Writer writer(entry);
  Number(writer, otlp::kName, String(function.name));
  Number(writer, otlp::kSystemName, String(function.system_name));
  Number(writer, otlp::kFunctionFile, String(function.filename));
  Number(writer, otlp::kStartLine, function.start_line);
  return index = Known(&known_functions_, &functions_, std::move(entry));
}

Index OtlpDictionary::Location(uint32_t number) {
  Index& index = of_location_[number];
  if (index != 0) return index;
  const Profile::Location& location = from_.locations[number];
  std::string entry;
  Writer writer(entry);
  if (location.mapping != Profile::kNone) Number(writer, otlp::kMappingIndex, Mapping(location.mapping));
  Unsigned(writer, otlp::kAddress, location.address);
  for (const Profile::Line& line : from_.LinesOf(location)) {
    Writer one(writer, otlp::kLines);
    if (line.function != Profile::kNone) Number(one, otlp::kFunctionIndex, Function(line.function));
    Number(one, otlp::kLineNumber, line.line);
  }
  return index = Known(&known_locations_, &locations_, std::move(entry));
}

Index OtlpDictionary::Stack(const Profile::Sample& sample) {
  std::vector<Index> locations;
  for (const uint32_t frame : from_.FramesOf(sample)) locations.push_back(Location(frame));
  std::string entry;
  Writer writer(entry);
  writer.add_packed_int32(otlp::kStackLocations, locations.begin(), locations.end());
  return Known(&known_stacks_, &stacks_, std::move(entry));
}

std::string OtlpDictionary::Take() {
  std::string message;
  for (Table* table : {&mappings_, &locations_, &functions_, &links_, &strings_, &attributes_, &stacks_}) {
    message += std::exchange(table->bytes, {});
  }
  return message;
}

}  // namespace holdfast
