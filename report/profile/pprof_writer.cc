// The pprof writer: Profile → messages → gzip → file descriptor, one message at a time.
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <protozero/pbf_writer.hpp>

#include "fmt/format.h"
#include "report/base/utf8.h"
#include "report/profile/pprof.h"
#include "report/profile/pprof_bytes.h"
#include "report/profile/pprof_fields.h"
#include "report/profile/record_codec.h"
#include "report/profile/written_comments.h"

namespace holdfast {
namespace {

// Measured with a profile of 1,000,000 samples, 117 MB of protobuf (zlib 1.2.13, one core at 2 cores shared): level 1
// gives 41.5 MB in 1.0 s, level 3 40.8 MB in 1.2 s, level 6 38.9 MB in 2.0 s.
constexpr int kGzipLevel = 1;
constexpr size_t kBufferBytes = 64 * 1024;
// A profile of up to this many bytes is stored in the file as it is. It takes one block of a disk anyway, and zlib's tables for it
// cost more than all else in writing it.
constexpr size_t kStoredBytes = 3 * 1024;

// gzip, into a descriptor or a string. Keeps the first failure; later calls do nothing.
class GzipSink {
 public:
  explicit GzipSink(int fd) : fd_(fd) {}
  explicit GzipSink(std::string* out) : out_(out) {}
  GzipSink(const GzipSink&) = delete;
  GzipSink& operator=(const GzipSink&) = delete;
  ~GzipSink() { deflateEnd(&stream_); }

  void Append(std::string_view bytes) {
    if (pending_.size() + bytes.size() > kBufferBytes) Deflate(Z_NO_FLUSH);
    if (bytes.size() > kBufferBytes) {
      pending_.assign(bytes);
      Deflate(Z_NO_FLUSH);
    } else {
      pending_.append(bytes);
    }
  }

  absl::Status Finish() {
    Deflate(Z_FINISH);
    return status_;
  }

 private:
  // When the first bytes are packed: only then it is known whether they are all.
  void Init(bool is_all) {
    const bool stores = is_all && pending_.size() <= kStoredBytes;
    packed_.resize(stores ? 2 * kStoredBytes : kBufferBytes);
    // + 16: with a gzip header that has no time or name, so that equal profiles give equal files. 15, 8: the largest window
    // and the usual memory.
    const int window = stores ? 10 : 15, memory = stores ? 1 : 8;
    if (deflateInit2(&stream_, stores ? Z_NO_COMPRESSION : kGzipLevel, Z_DEFLATED, window + 16, memory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      status_ = absl::ResourceExhaustedError("no memory for zlib");
    }
  }

  void Deflate(int flush) {
    if (packed_.empty()) Init(flush == Z_FINISH);
    if (!status_.ok()) return;
    stream_.next_in = reinterpret_cast<Bytef*>(pending_.data());
    stream_.avail_in = static_cast<uInt>(pending_.size());
    int result;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(packed_.data());
      stream_.avail_out = static_cast<uInt>(packed_.size());
      result = deflate(&stream_, flush);
      Emit({packed_.data(), packed_.size() - stream_.avail_out});
    } while (status_.ok() && (stream_.avail_out == 0 || (flush == Z_FINISH && result != Z_STREAM_END)));
    pending_.clear();
  }

  void Emit(std::string_view bytes) {
    if (out_ != nullptr) {
      out_->append(bytes);
      return;
    }
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        status_ =
            absl::Status(absl::ErrnoToStatusCode(errno), fmt::format("could not write ({})", std::strerror(errno)));
        return;
      }
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  int fd_ = -1;
  std::string* out_ = nullptr;
  z_stream stream_ = {};
  std::string pending_;
  std::string packed_;  // empty before Init; not on the stack, which may be small inside the program
  absl::Status status_;
};

class Encoder {
 public:
  Encoder(const Profile& profile, GzipSink* sink) : profile_(profile), sink_(sink) {}

  void Encode() {
    for (const auto& type : profile_.sample_types)
      Message(ProfileField::kSampleType, [&](Writer& w) { Type(w, type); });
    for (size_t i = 0; i < profile_.samples.size(); ++i) {
      Message(ProfileField::kSample, [&](Writer& w) { Sample(w, i); });
    }
    for (size_t i = 0; i < profile_.mappings.size(); ++i) {
      Message(ProfileField::kMapping, [&](Writer& w) { Mapping(w, i); });
    }
    for (size_t i = 0; i < profile_.locations.size(); ++i) {
      Message(ProfileField::kLocation, [&](Writer& w) { Location(w, i); });
    }
    for (size_t i = 0; i < profile_.functions.size(); ++i) {
      Message(ProfileField::kFunction, [&](Writer& w) { Function(w, i); });
    }
    for (size_t i = 0; i < profile_.strings.size(); ++i) Text(profile_.strings[static_cast<StringId>(i)]);

    Scalar(ProfileField::kDropFrames, profile_.drop_frames);
    Scalar(ProfileField::kKeepFrames, profile_.keep_frames);
    Scalar(ProfileField::kTimeNanos, profile_.time_nanos);
    Scalar(ProfileField::kDurationNanos, profile_.duration_nanos);
    if (profile_.period_type.type != 0 || profile_.period_type.unit != 0) {
      Message(ProfileField::kPeriodType, [&](Writer& w) { Type(w, profile_.period_type); });
    }
    Scalar(ProfileField::kPeriod, profile_.period);
    const std::vector<StringId> comments = CommentsToWrite(profile_);
    if (!comments.empty()) {
      Field([&](Writer& w) { w.add_packed_int64(FieldTag(ProfileField::kComment), comments.begin(), comments.end()); });
    }
    Scalar(ProfileField::kDefaultSampleType, profile_.default_sample_type);
    field_.clear();
    AppendRecords(profile_.records(), &field_);
    sink_->Append(field_);
  }

 private:
  using Writer = protozero::pbf_writer;

  template <typename Fill>
  void Field(Fill fill) {
    field_.clear();
    Writer writer(field_);
    fill(writer);
    sink_->Append(field_);
  }

  template <typename Fill>
  void Message(ProfileField field, Fill fill) {
    message_.clear();
    Writer writer(message_);
    fill(writer);
    Field([&](Writer& w) { w.add_message(FieldTag(field), message_); });
  }

  void Scalar(ProfileField field, int64_t value) {
    if (value != 0) Field([&](Writer& w) { w.add_int64(FieldTag(field), value); });
  }

  void Text(std::string_view text) {
    const bool valid = ValidUtf8Prefix(text) == text.size();
    const std::string repaired = valid ? std::string() : RepairUtf8(text);
    const std::string_view good = valid ? text : repaired;
    Field([&](Writer& w) { w.add_string(FieldTag(ProfileField::kStringTable), good.data(), good.size()); });
  }

  // As in proto3, zeros are not written.
  static void Number(Writer& w, protozero::pbf_tag_type tag, int64_t value) {
    if (value != 0) w.add_int64(tag, value);
  }
  static void Unsigned(Writer& w, protozero::pbf_tag_type tag, uint64_t value) {
    if (value != 0) w.add_uint64(tag, value);
  }

  static void Type(Writer& w, const Profile::ValueType& type) {
    Number(w, FieldTag(ValueTypeField::kType), type.type);
    Number(w, FieldTag(ValueTypeField::kUnit), type.unit);
  }

  void Sample(Writer& w, size_t index) {
    const Profile::Sample& sample = profile_.samples[index];
    ids_.clear();
    for (const uint32_t frame : profile_.FramesOf(sample)) ids_.push_back(uint64_t{frame} + 1);
    w.add_packed_uint64(FieldTag(SampleField::kLocationId), ids_.begin(), ids_.end());
    const auto values = profile_.ValuesOf(index);
    w.add_packed_int64(FieldTag(SampleField::kValue), values.begin(), values.end());
    for (const Profile::Label& label : profile_.LabelsOf(sample)) {
      Writer sub(w, FieldTag(SampleField::kLabel));
      Number(sub, FieldTag(LabelField::kKey), label.key);
      Number(sub, FieldTag(LabelField::kStr), label.text);
      Number(sub, FieldTag(LabelField::kNum), label.number);
      Number(sub, FieldTag(LabelField::kNumUnit), label.unit);
    }
  }

  void Mapping(Writer& w, size_t index) {
    const Profile::Mapping& mapping = profile_.mappings[index];
    w.add_uint64(FieldTag(MappingField::kId), index + 1);
    Unsigned(w, FieldTag(MappingField::kMemoryStart), mapping.start);
    Unsigned(w, FieldTag(MappingField::kMemoryLimit), mapping.limit);
    Unsigned(w, FieldTag(MappingField::kFileOffset), mapping.offset);
    Number(w, FieldTag(MappingField::kFilename), mapping.file);
    Number(w, FieldTag(MappingField::kBuildId), mapping.build_id);
    Unsigned(w, FieldTag(MappingField::kHasFunctions), mapping.has_functions);
    Unsigned(w, FieldTag(MappingField::kHasFilenames), mapping.has_filenames);
    Unsigned(w, FieldTag(MappingField::kHasLineNumbers), mapping.has_line_numbers);
    Unsigned(w, FieldTag(MappingField::kHasInlineFrames), mapping.has_inline_frames);
  }

  void Location(Writer& w, size_t index) {
    const Profile::Location& location = profile_.locations[index];
    w.add_uint64(FieldTag(LocationField::kId), index + 1);
    if (location.mapping != Profile::kNone) {
      w.add_uint64(FieldTag(LocationField::kMappingId), uint64_t{location.mapping} + 1);
    }
    Unsigned(w, FieldTag(LocationField::kAddress), location.address);
    for (const Profile::Line& line : profile_.LinesOf(location)) {
      Writer sub(w, FieldTag(LocationField::kLine));
      if (line.function != Profile::kNone)
        sub.add_uint64(FieldTag(LineField::kFunctionId), uint64_t{line.function} + 1);
      Number(sub, FieldTag(LineField::kLine), line.line);
    }
    Unsigned(w, FieldTag(LocationField::kIsFolded), location.is_folded);
    Unsigned(w, FieldTag(LocationField::kIsTailCall), location.is_tail_call);
  }

  void Function(Writer& w, size_t index) {
    const Profile::Function& function = profile_.functions[index];
    w.add_uint64(FieldTag(FunctionField::kId), index + 1);
    Number(w, FieldTag(FunctionField::kName), function.name);
    Number(w, FieldTag(FunctionField::kSystemName), function.system_name);
    Number(w, FieldTag(FunctionField::kFilename), function.filename);
    Number(w, FieldTag(FunctionField::kStartLine), function.start_line);
  }

  const Profile& profile_;
  GzipSink* sink_;
  std::string message_, field_;
  std::vector<uint64_t> ids_;
};

}  // namespace

absl::Status WritePprof(const Profile& profile, int fd) {
  GzipSink sink(fd);
  Encoder(profile, &sink).Encode();
  return sink.Finish();
}

std::string EncodePprof(const Profile& profile) {
  std::string bytes;
  GzipSink sink(&bytes);
  Encoder(profile, &sink).Encode();
  sink.Finish().IgnoreError();  // only memory can be missing, and that throws
  return bytes;
}

std::string AtTime(std::string_view pprof, int64_t time_nanos, int64_t duration_nanos) {
  std::string times;
  protozero::pbf_writer writer(times);
  writer.add_int64(FieldTag(ProfileField::kTimeNanos), time_nanos);
  writer.add_int64(FieldTag(ProfileField::kDurationNanos), duration_nanos);
  return std::string(pprof) + Gzip(times, kStoredGzip);
}

}  // namespace holdfast
