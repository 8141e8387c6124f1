// The tables that all profiles of a request share. Each entry is stored once, and only if a sample refers to it. The
// first entry of each table is empty and means "none".
//
//   samples ──► stacks ──► locations ──► lines ──► functions ──► strings
//           ──► attributes             └► mappings
#ifndef HOLDFAST_REPORT_FLEET_PUSH_OTLP_DICTIONARY_H_
#define HOLDFAST_REPORT_FLEET_PUSH_OTLP_DICTIONARY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/fleet/push/otlp_fields.h"
#include "report/profile/profile.h"

namespace holdfast {

class OtlpDictionary {
 public:
  using Index = int32_t;

  // `from` must outlive this object.
  explicit OtlpDictionary(const Profile& from);

  Index String(std::string_view text);
  Index Attribute(std::string_view key, std::string_view value);
  Index Stack(const Profile::Sample& sample);

  // Returns the message.
  std::string Take();

 private:
  // One table: consecutive entries, each with its tag and length.
  struct Table {
    otlp::DictionaryField field;
    std::string bytes;
    Index size = 0;
    Index Add(std::string_view entry);
  };

  Index String(StringId id) { return String(from_.strings[id]); }
  Index Function(uint32_t function);
  Index Mapping(uint32_t mapping);
  Index Location(uint32_t location);

  const Profile& from_;
  Table mappings_{otlp::kMappingTable, {}}, locations_{otlp::kLocationTable, {}}, functions_{otlp::kFunctionTable, {}},
      links_{otlp::kLinkTable, {}}, strings_{otlp::kStringTable, {}}, attributes_{otlp::kAttributeTable, {}},
      stacks_{otlp::kStackTable, {}};
  StringTable texts_;
  // Entries by content, because two of our entries may become the same one.
  absl::flat_hash_map<std::string, Index> known_mappings_, known_locations_, known_functions_, known_attributes_,
      known_stacks_;
  std::vector<Index> of_mapping_, of_location_, of_function_;  // by index in `from_`; 0: not yet
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_OTLP_DICTIONARY_H_
