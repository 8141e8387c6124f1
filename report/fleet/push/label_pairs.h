// Labels as messages {1: name, 2: value}, in Pyroscope's requests and in files.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_LABEL_PAIRS_H_
#define HOLDFAST_REPORT_FLEET_PUSH_LABEL_PAIRS_H_

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <string_view>

#include "report/fleet/push/push_labels.h"

namespace holdfast {

enum LabelPairField : uint32_t { kPairName = 1, kPairValue = 2 };

inline void AddLabelPair(protozero::pbf_writer& writer, uint32_t field, std::string_view name, std::string_view value) {
  protozero::pbf_writer pair(writer, field);
  pair.add_string(kPairName, name.data(), name.size());
  pair.add_string(kPairValue, value.data(), value.size());
}

// Throws protozero::exception for invalid bytes.
inline PushLabel ReadLabelPair(protozero::pbf_reader pair) {
  PushLabel label;
  while (pair.next()) {
    if (pair.tag() == kPairName) {
      label.first = pair.get_string();
    } else if (pair.tag() == kPairValue) {
      label.second = pair.get_string();
    } else {
      pair.skip();
    }
  }
  return label;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_LABEL_PAIRS_H_
