// Typed records (typed_records.h) to protobuf and back. Only for the pprof reader and writer; kMaxRepeated is for all who
// make records.
#ifndef HOLDFAST_REPORT_PROFILE_RECORD_CODEC_H_
#define HOLDFAST_REPORT_PROFILE_RECORD_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string>

#include "report/profile/typed_records.h"

namespace holdfast {

// The first field of pprof's message Profile that is a typed record.
inline constexpr uint32_t kFirstRecordField = 1003;

// The most elements of one repeated field that a reader accepts. Without this limit a small file of empty messages could
// fill the memory. Writers leave out what has more.
inline constexpr size_t kMaxRepeated = 100'000;

// Appends fields of message Profile. Text that is not UTF-8 is repaired.
void AppendRecords(const record::Profile& records, std::string* message);

// Index of a location by its id in the file.
using LocationOfId = std::function<std::optional<uint32_t>(uint64_t)>;

// Reads the field of message Profile at which `reader` is, or skips an unknown one. A field of another type than expected is
// skipped, and a stack with an unknown location becomes empty. Throws Damage or protozero's exceptions.
void ReadRecordField(protozero::pbf_reader& reader, const LocationOfId& location_of, record::Profile* records);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_RECORD_CODEC_H_
