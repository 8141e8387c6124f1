// The field numbers of pprof's format (profile.proto of google/pprof), in one place for the writer and the reader.
// tests/support/profile.proto repeats them for an independent reader.
#ifndef HOLDFAST_REPORT_PROFILE_PPROF_FIELDS_H_
#define HOLDFAST_REPORT_PROFILE_PPROF_FIELDS_H_

#include <cstdint>

namespace holdfast {

// clang-format off
enum class ProfileField : uint32_t {
  kSampleType = 1, kSample = 2, kMapping = 3, kLocation = 4, kFunction = 5, kStringTable = 6, kDropFrames = 7,
  kKeepFrames = 8, kTimeNanos = 9, kDurationNanos = 10, kPeriodType = 11, kPeriod = 12, kComment = 13,
  kDefaultSampleType = 14,
  // Comments that are not for people, in files of older releases (old_comments.h).
  kRecord = 1002,
};
enum class ValueTypeField : uint32_t { kType = 1, kUnit = 2 };
enum class SampleField : uint32_t { kLocationId = 1, kValue = 2, kLabel = 3 };
enum class LabelField : uint32_t { kKey = 1, kStr = 2, kNum = 3, kNumUnit = 4 };
enum class MappingField : uint32_t {
  kId = 1, kMemoryStart = 2, kMemoryLimit = 3, kFileOffset = 4, kFilename = 5, kBuildId = 6, kHasFunctions = 7,
  kHasFilenames = 8, kHasLineNumbers = 9, kHasInlineFrames = 10,
};
enum class LocationField : uint32_t {
  kId = 1, kMappingId = 2, kAddress = 3, kLine = 4, kIsFolded = 5,
  // Our own field. Other readers skip it.
  kIsTailCall = 1001,
};
enum class LineField : uint32_t { kFunctionId = 1, kLine = 2 };
enum class FunctionField : uint32_t { kId = 1, kName = 2, kSystemName = 3, kFilename = 4, kStartLine = 5 };
// clang-format on

template <typename Field>
constexpr uint32_t FieldTag(Field field) {
  return static_cast<uint32_t>(field);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_PPROF_FIELDS_H_
