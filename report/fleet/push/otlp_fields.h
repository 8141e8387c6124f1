// The field numbers of the OpenTelemetry messages that we write: opentelemetry/proto/profiles/v1development
// (opentelemetry-proto 1.10 and 1.11), common/v1 and resource/v1. Alpha: they may change until 1.0 of the signal.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_OTLP_FIELDS_H_
#define HOLDFAST_REPORT_FLEET_PUSH_OTLP_FIELDS_H_

#include <cstdint>

namespace holdfast::otlp {

// ExportProfilesServiceRequest, and ProfilesData
enum RequestField : uint32_t { kResourceProfiles = 1, kDictionary = 2 };
enum ResourceProfilesField : uint32_t { kResource = 1, kScopeProfiles = 2 };
enum ResourceField : uint32_t { kResourceAttributes = 1 };
enum ScopeProfilesField : uint32_t { kScope = 1, kProfiles = 2 };
enum ScopeField : uint32_t { kScopeName = 1, kScopeVersion = 2 };
enum DictionaryField : uint32_t {
  kMappingTable = 1,
  kLocationTable = 2,
  kFunctionTable = 3,
  kLinkTable = 4,
  kStringTable = 5,
  kAttributeTable = 6,
  kStackTable = 7,
};
enum ProfileField : uint32_t {
  kSampleType = 1,
  kSamples = 2,
  kTimeUnixNano = 3,  // fixed64
  kDurationNano = 4,
  kPeriodType = 5,
  kPeriod = 6,
  kProfileId = 7,
};
enum ValueTypeField : uint32_t { kType = 1, kUnit = 2 };
enum SampleField : uint32_t { kStackIndex = 1, kSampleAttributes = 2, kValues = 4 };
enum StackField : uint32_t { kStackLocations = 1 };
enum MappingField : uint32_t {
  kMemoryStart = 1,
  kMemoryLimit = 2,
  kFileOffset = 3,
  kMappingFile = 4,
  kMappingAttributes = 5
};
enum LocationField : uint32_t { kMappingIndex = 1, kAddress = 2, kLines = 3 };
enum LineField : uint32_t { kFunctionIndex = 1, kLineNumber = 2 };
enum FunctionField : uint32_t { kName = 1, kSystemName = 2, kFunctionFile = 3, kStartLine = 4 };
enum AttributeField : uint32_t { kAttributeKey = 1, kAttributeValue = 2 };  // KeyValueAndUnit: the key is an index
enum KeyValueField : uint32_t { kKey = 1, kValue = 2 };                     // KeyValue: the key is text
enum AnyValueField : uint32_t { kStringValue = 1, kIntValue = 3 };
// ExportProfilesServiceResponse
enum ResponseField : uint32_t { kPartialSuccess = 1 };
enum PartialSuccessField : uint32_t { kRejectedProfiles = 1, kErrorMessage = 2 };

}  // namespace holdfast::otlp

#endif  // HOLDFAST_REPORT_FLEET_PUSH_OTLP_FIELDS_H_
