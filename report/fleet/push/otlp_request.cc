#include "report/fleet/push/otlp_request.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/fleet/push/otlp_dictionary.h"
#include "report/fleet/push/otlp_fields.h"

namespace holdfast {
namespace {

using Writer = protozero::pbf_writer;

void AddResource(Writer& above, const OtlpOrigin& origin) {
  Writer resource(above, otlp::kResource);
  for (const auto& [name, value] : origin.attributes) {
    Writer attribute(resource, otlp::kResourceAttributes);
    attribute.add_string(otlp::kKey, name);
    Writer any(attribute, otlp::kValue);
    int64_t number = 0;
    if (name == "process.pid" && absl::SimpleAtoi(value, &number)) {
      any.add_int64(otlp::kIntValue, number);
    } else {
      any.add_string(otlp::kStringValue, value);
    }
  }
}

void AddType(Writer& above, uint32_t field, std::string_view type, std::string_view unit, OtlpDictionary* dictionary) {
  Writer message(above, field);
  message.add_int32(otlp::kType, dictionary->String(type));
  message.add_int32(otlp::kUnit, dictionary->String(unit));
}

// Returns what distinguishes samples with one stack: the lock, and the kind of wait. Of two labels with one name, the
// first counts.
std::vector<OtlpDictionary::Index> AttributesOf(const Profile& profile, const Profile::Sample& sample,
                                                OtlpDictionary* dictionary) {
  std::vector<OtlpDictionary::Index> attributes;
  std::vector<StringId> keys;
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    if (std::find(keys.begin(), keys.end(), label.key) != keys.end()) continue;
    keys.push_back(label.key);
    const std::string number = fmt::format("{}", label.number);
    attributes.push_back(dictionary->Attribute(
        profile.strings[label.key], label.text != 0 ? profile.strings[label.text] : std::string_view(number)));
  }
  return attributes;
}

class RequestWriter {
 public:
  RequestWriter(const Profile& profile, const OtlpOrigin& origin)
      : profile_(profile), origin_(origin), dictionary_(profile) {}

  std::string Write() {
    std::string bytes;
    Writer request(bytes);
    {
      Writer of_resource(request, otlp::kResourceProfiles);
      AddResource(of_resource, origin_);
      Writer of_scope(of_resource, otlp::kScopeProfiles);
      {
        Writer scope(of_scope, otlp::kScope);
        scope.add_string(otlp::kScopeName, "holdfast");
        scope.add_string(otlp::kScopeVersion, HOLDFAST_VERSION);
      }
      for (size_t type = 0; type < profile_.sample_types.size(); ++type) {
        if (HasAny(type)) AddProfile(of_scope, type);
      }
    }
    request.add_message(otlp::kDictionary, dictionary_.Take());
    return bytes;
  }

 private:
  bool HasAny(size_t type) const {
    for (size_t i = 0; i < profile_.samples.size(); ++i) {
      if (profile_.ValuesOf(i)[type] != 0) return true;
    }
    return false;
  }

  void AddProfile(Writer& above, size_t type) {
    Writer message(above, otlp::kProfiles);
    const Profile::ValueType& sample_type = profile_.sample_types[type];
    AddType(message, otlp::kSampleType, profile_.strings[sample_type.type], profile_.strings[sample_type.unit],
            &dictionary_);
    for (size_t i = 0; i < profile_.samples.size(); ++i) {
      if (const int64_t value = profile_.ValuesOf(i)[type]; value != 0) AddSample(message, profile_.samples[i], value);
    }
    message.add_fixed64(otlp::kTimeUnixNano, static_cast<uint64_t>(origin_.from_ns));
    message.add_uint64(otlp::kDurationNano, static_cast<uint64_t>(origin_.until_ns - origin_.from_ns));
    AddType(message, otlp::kPeriodType, origin_.family, profile_.strings[profile_.period_type.unit], &dictionary_);
    message.add_int64(otlp::kPeriod, profile_.period);
    std::string id = origin_.id;  // unique per profile
    if (!id.empty()) id.back() = static_cast<char>(id.back() ^ static_cast<char>(type));
    message.add_bytes(otlp::kProfileId, id);
  }

  void AddSample(Writer& above, const Profile::Sample& sample, int64_t value) {
    Writer message(above, otlp::kSamples);
    message.add_int32(otlp::kStackIndex, dictionary_.Stack(sample));
    const std::vector<OtlpDictionary::Index> attributes = AttributesOf(profile_, sample, &dictionary_);
    message.add_packed_int32(otlp::kSampleAttributes, attributes.begin(), attributes.end());
    const int64_t values[] = {value};
    message.add_packed_int64(otlp::kValues, std::begin(values), std::end(values));
  }

  const Profile& profile_;
  const OtlpOrigin& origin_;
  OtlpDictionary dictionary_;
};

}  // namespace

std::string EncodeOtlp(const Profile& profile, const OtlpOrigin& origin) {
  return RequestWriter(profile, origin).Write();
}

std::optional<std::string> RejectedByOtlp(std::string_view response) {
  int64_t rejected = 0;
  std::string why;
  try {
    protozero::pbf_reader reader(response.data(), response.size());
    while (reader.next(otlp::kPartialSuccess)) {
      protozero::pbf_reader partial = reader.get_message();
      while (partial.next()) {
        if (partial.tag() == otlp::kRejectedProfiles) {
          rejected = partial.get_int64();
        } else if (partial.tag() == otlp::kErrorMessage) {
          why = partial.get_string();
        } else {
          partial.skip();
        }
      }
    }
  } catch (const protozero::exception&) {
    return std::nullopt;  // it was accepted nevertheless
  }
  if (rejected == 0) return std::nullopt;
  return why.empty() ? "rejected, without a reason" : why;
}

}  // namespace holdfast
