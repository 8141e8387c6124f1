// The pprof reader: bytes (see pprof_bytes.h) → messages → Profile. Checks everything, see pprof.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/varint.hpp>
#include <string_view>

#include "fmt/format.h"
#include "report/base/utf8.h"
#include "report/profile/damage.h"
#include "report/profile/id_map.h"
#include "report/profile/old_comments.h"
#include "report/profile/pprof.h"
#include "report/profile/pprof_bytes.h"
#include "report/profile/pprof_fields.h"
#include "report/profile/record_codec.h"
#include "report/profile/text_profile.h"

namespace holdfast {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// More value types than any writer uses (perf's converter: one per event). The limit keeps the values of a sample in
// proportion to the bytes that declare them.
constexpr size_t kMaxSampleTypes = 256;

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : bytes_(bytes) {}

  // Makes several passes over the outermost fields, because a message may refer to one that comes later. Writers put all
  // samples, which are nearly the whole file, in one place: only two of the passes read that part.
  Profile Decode() {
    ReadStrings();
    if (strings_.empty()) Fail("no string table");
    if (strings_[0] != 0) Fail("string_table[0] is not empty");
    ReadTables();
    if (profile_.sample_types.empty()) Fail("no sample type");
    ReadLocations();
    ReadSamples();
    ReadRecords();
    return std::move(profile_);
  }

 private:
  template <typename Field, typename Visit>
  static void Each(std::string_view message, Visit visit) {
    pbf_reader reader(message.data(), message.size());
    while (reader.next()) {
      if (!visit(static_cast<Field>(reader.tag()), reader)) reader.skip();
    }
  }

  // Calls `visit` for each message of one kind in `part`.
  template <typename Visit>
  static void EachMessage(std::string_view part, ProfileField wanted, Visit visit) {
    Each<ProfileField>(part, [&](ProfileField field, pbf_reader& reader) {
      if (field != wanted) return false;
      visit(Bytes(reader));
      return true;
    });
  }

  // Notes where the samples are. A header that is longer than necessary counts as another place.
  void NoteSample(std::string_view message) {
    constexpr char kTag = static_cast<char>(static_cast<int>(ProfileField::kSample) << 3 | 2);
    const char* begin = message.data() - 1 - protozero::length_of_varint(message.size());
    if (samples_ == 0) sample_bytes_ = {begin, 0};
    are_scattered_ = are_scattered_ || begin != sample_bytes_.data() + sample_bytes_.size() || *begin != kTag;
    if (!are_scattered_)
      sample_bytes_ = {sample_bytes_.data(),
                       static_cast<size_t>(message.data() + message.size() - sample_bytes_.data())};
    ++samples_;
  }
  std::string_view Samples() const { return are_scattered_ ? bytes_ : sample_bytes_; }
  // Returns the parts before and after the samples.
  std::array<std::string_view, 2> OtherParts() const {
    if (are_scattered_ || samples_ == 0) return {bytes_, {}};
    const auto before = static_cast<size_t>(sample_bytes_.data() - bytes_.data());
    return {bytes_.substr(0, before), bytes_.substr(before + sample_bytes_.size())};
  }

  static std::string_view Bytes(pbf_reader& reader) {
    if (reader.wire_type() != pbf_wire_type::length_delimited) Fail("field {} is not a message or text", reader.tag());
    const auto view = reader.get_view();
    return {view.data(), view.size()};
  }
  static uint64_t Unsigned(pbf_reader& reader) {
    if (reader.wire_type() != pbf_wire_type::varint) Fail("field {} is not a number", reader.tag());
    return reader.get_uint64();
  }
  static int64_t Signed(pbf_reader& reader) { return static_cast<int64_t>(Unsigned(reader)); }

  // Calls `visit` for each element of a repeated number, packed or not.
  template <typename Visit>
  static void Numbers(pbf_reader& reader, Visit visit) {
    if (reader.wire_type() == pbf_wire_type::length_delimited) {
      const std::string_view bytes = Bytes(reader);
      for (const char *at = bytes.data(), *end = at + bytes.size(); at != end;) visit(Varint(&at, end));
    } else {
      visit(Unsigned(reader));
    }
  }

  // Reads ids of up to 2,097,151 in three bytes: nearly all numbers of a sample. protozero reads larger ones.
  static uint64_t Varint(const char** at, const char* end) {
    const char* p = *at;
    const auto byte = [p](int i) -> uint64_t { return static_cast<uint8_t>(p[i]); };
    if (end - p >= 3) [[likely]] {
      if (byte(0) < 0x80) return *at += 1, byte(0);
      if (byte(1) < 0x80) return *at += 2, (byte(0) & 0x7f) | byte(1) << 7;
      if (byte(2) < 0x80) return *at += 3, (byte(0) & 0x7f) | (byte(1) & 0x7f) << 7 | byte(2) << 14;
    }
    return protozero::decode_varint(at, end);
  }

  StringId Text(uint64_t index) const {
    if (index >= strings_.size()) {
      Fail("string {} is used, but the table has {}", static_cast<int64_t>(index), strings_.size());
    }
    return strings_[index];
  }
  StringId Text(pbf_reader& reader) const { return Text(Unsigned(reader)); }

  // One field per line, as in profile.proto.
  // clang-format off
  void ReadStrings() {
    Each<ProfileField>(bytes_, [&](ProfileField field, pbf_reader& reader) {
      switch (field) {
        case ProfileField::kStringTable: {
          const std::string_view text = Bytes(reader);
          if (const size_t good = ValidUtf8Prefix(text); good != text.size()) {
            Fail("string {} is not UTF-8 (byte 0x{:02x} at {})", strings_.size(), static_cast<uint8_t>(text[good]), good);
          }
          strings_.push_back(profile_.strings.Intern(text));
          return true;
        }
        case ProfileField::kSample: {
          const std::string_view message = Bytes(reader);
          NoteSample(message);
          numbers_ += NumbersIn(message);
          return true;
        }
        case ProfileField::kMapping: ++mappings_; return false;
        case ProfileField::kLocation: ++locations_; return false;
        case ProfileField::kFunction: ++functions_; return false;
        default: return false;
      }
    });
  }

  // Returns an upper bound on the number of frames in the sample: each varint ends with a byte without the high bit.
  static size_t NumbersIn(std::string_view message) {
    size_t numbers = 0, at = 0;
    for (; at + 8 <= message.size(); at += 8) {
      uint64_t bytes;
      memcpy(&bytes, message.data() + at, 8);
      numbers += (~bytes >> 7 & 0x0101010101010101) * 0x0101010101010101 >> 56;  // the sum of eight bytes of 0 or 1
    }
    for (; at < message.size(); ++at) numbers += static_cast<uint8_t>(message[at]) < 0x80;
    return numbers;
  }

  void ReadTables() {
    mapping_ids_.emplace("mapping", mappings_);
    function_ids_.emplace("function", functions_);
    std::vector<StringId> records;  // appended after the comments, whichever came first in the file
    const auto read = [&](ProfileField field, pbf_reader& reader) {
      switch (field) {
        case ProfileField::kSampleType:
          if (profile_.sample_types.size() == kMaxSampleTypes) Fail("more than {} sample types", kMaxSampleTypes);
          profile_.sample_types.push_back(ReadType(Bytes(reader)));
          return true;
        case ProfileField::kMapping: ReadMapping(Bytes(reader)); return true;
        case ProfileField::kFunction: ReadFunction(Bytes(reader)); return true;
        case ProfileField::kDropFrames: profile_.drop_frames = Text(reader); return true;
        case ProfileField::kKeepFrames: profile_.keep_frames = Text(reader); return true;
        case ProfileField::kTimeNanos: profile_.time_nanos = Signed(reader); return true;
        case ProfileField::kDurationNanos: profile_.duration_nanos = Signed(reader); return true;
        case ProfileField::kPeriodType: profile_.period_type = ReadType(Bytes(reader)); return true;
        case ProfileField::kPeriod: profile_.period = Signed(reader); return true;
        case ProfileField::kComment:
          Numbers(reader, [&](uint64_t index) { profile_.comments.push_back(Text(index)); });
          return true;
        case ProfileField::kRecord:
          Numbers(reader, [&](uint64_t index) { records.push_back(Text(index)); });
          return true;
        case ProfileField::kDefaultSampleType: profile_.default_sample_type = Text(reader); return true;
        default: has_records_ = has_records_ || reader.tag() >= kFirstRecordField; return false;
      }
    };
    for (const std::string_view part : OtherParts()) Each<ProfileField>(part, read);
    profile_.comments.insert(profile_.comments.end(), records.begin(), records.end());
  }

  // The typed records; of files without any, the comments that older releases wrote in their place.
  void ReadRecords() {
    const LocationOfId location_of = [this](uint64_t id) { return location_ids_->Find(id); };
    for (const std::string_view part : OtherParts()) {
      for (pbf_reader reader(part.data(), part.size()); has_records_ && reader.next();) {
        if (reader.tag() < kFirstRecordField) {
          reader.skip();
        } else {
          ReadRecordField(reader, location_of, profile_.mutable_records());
        }
      }
    }
    if (!has_records_) ReadOldComments(&profile_);
  }

  Profile::ValueType ReadType(std::string_view message) {
    Profile::ValueType type;
    Each<ValueTypeField>(message, [&](ValueTypeField field, pbf_reader& reader) {
      switch (field) {
        case ValueTypeField::kType: type.type = Text(reader); return true;
        case ValueTypeField::kUnit: type.unit = Text(reader); return true;
        default: return false;
      }
    });
    return type;
  }

  void ReadMapping(std::string_view message) {
    uint64_t id = 0;
    Profile::Mapping mapping;
    Each<MappingField>(message, [&](MappingField field, pbf_reader& reader) {
      switch (field) {
        case MappingField::kId: id = Unsigned(reader); return true;
        case MappingField::kMemoryStart: mapping.start = Unsigned(reader); return true;
        case MappingField::kMemoryLimit: mapping.limit = Unsigned(reader); return true;
        case MappingField::kFileOffset: mapping.offset = Unsigned(reader); return true;
        case MappingField::kFilename: mapping.file = Text(reader); return true;
        case MappingField::kBuildId: mapping.build_id = Text(reader); return true;
        case MappingField::kHasFunctions: mapping.has_functions = Unsigned(reader) != 0; return true;
        case MappingField::kHasFilenames: mapping.has_filenames = Unsigned(reader) != 0; return true;
        case MappingField::kHasLineNumbers: mapping.has_line_numbers = Unsigned(reader) != 0; return true;
        case MappingField::kHasInlineFrames: mapping.has_inline_frames = Unsigned(reader) != 0; return true;
        default: return false;
      }
    });
    mapping_ids_->Add(id, static_cast<uint32_t>(profile_.mappings.size()));
    profile_.mappings.push_back(mapping);
  }

  void ReadFunction(std::string_view message) {
    uint64_t id = 0;
    Profile::Function function;
    Each<FunctionField>(message, [&](FunctionField field, pbf_reader& reader) {
      switch (field) {
        case FunctionField::kId: id = Unsigned(reader); return true;
        case FunctionField::kName: function.name = Text(reader); return true;
        case FunctionField::kSystemName: function.system_name = Text(reader); return true;
        case FunctionField::kFilename: function.filename = Text(reader); return true;
        case FunctionField::kStartLine: function.start_line = Signed(reader); return true;
        default: return false;
      }
    });
    function_ids_->Add(id, static_cast<uint32_t>(profile_.functions.size()));
    profile_.functions.push_back(function);
  }

  void ReadLocations() {
    location_ids_.emplace("location", locations_);
    const auto read = [&](std::string_view message) {
      uint64_t id = 0;
      Profile::Location location;
      lines_.clear();
      Each<LocationField>(message, [&](LocationField field, pbf_reader& reader) {
        switch (field) {
          case LocationField::kId: id = Unsigned(reader); return true;
          case LocationField::kMappingId:
            if (const uint64_t mapping = Unsigned(reader); mapping != 0) location.mapping = mapping_ids_->Get(mapping);
            return true;
          case LocationField::kAddress: location.address = Unsigned(reader); return true;
          case LocationField::kLine: lines_.push_back(ReadLine(Bytes(reader))); return true;
          case LocationField::kIsFolded: location.is_folded = Unsigned(reader) != 0; return true;
          case LocationField::kIsTailCall: location.is_tail_call = Unsigned(reader) != 0; return true;
          default: return false;
        }
      });
      location_ids_->Add(id, static_cast<uint32_t>(profile_.locations.size()));
      profile_.SetLines(&location, lines_);
      profile_.locations.push_back(location);
    };
    for (const std::string_view part : OtherParts()) EachMessage(part, ProfileField::kLocation, read);
  }

  Profile::Line ReadLine(std::string_view message) {
    uint64_t function = 0;
    Profile::Line line;
    Each<LineField>(message, [&](LineField field, pbf_reader& reader) {
      switch (field) {
        case LineField::kFunctionId: function = Unsigned(reader); return true;
        case LineField::kLine: line.line = Signed(reader); return true;
        default: return false;
      }
    });
    line.function = function_ids_->Get(function);  // pprof, too, rejects a line without a function
    return line;
  }

  void ReadSamples() {
    std::vector<uint32_t> frames;
    std::vector<int64_t> values;
    std::vector<Profile::Label> labels;
    // A file with fewer numbers is damaged; then reserve nothing.
    if (numbers_ / profile_.sample_types.size() >= samples_) profile_.Reserve(samples_, numbers_, 0);
    EachMessage(Samples(), ProfileField::kSample, [&](std::string_view message) {
      frames.clear();
      values.clear();
      labels.clear();
      Each<SampleField>(message, [&](SampleField field, pbf_reader& reader) {
        switch (field) {
          case SampleField::kLocationId:
            Numbers(reader, [&](uint64_t id) { frames.push_back(location_ids_->Get(id)); });
            return true;
          case SampleField::kValue:
            Numbers(reader, [&](uint64_t value) { values.push_back(static_cast<int64_t>(value)); });
            return true;
          case SampleField::kLabel: labels.push_back(ReadLabel(Bytes(reader))); return true;
          default: return false;
        }
      });
      if (values.size() != profile_.sample_types.size()) {
        Fail("sample {} has {} values, but the profile has {} sample types", profile_.samples.size() + 1, values.size(),
             profile_.sample_types.size());
      }
      profile_.AddSample(frames, values, labels);
    });
  }

  Profile::Label ReadLabel(std::string_view message) {
    Profile::Label label;
    Each<LabelField>(message, [&](LabelField field, pbf_reader& reader) {
      switch (field) {
        case LabelField::kKey: label.key = Text(reader); return true;
        case LabelField::kStr: label.text = Text(reader); return true;
        case LabelField::kNum: label.number = Signed(reader); return true;
        case LabelField::kNumUnit: label.unit = Text(reader); return true;
        default: return false;
      }
    });
    if (label.key == 0) Fail("a label has no key");
    return label;
  }
  // clang-format on

  std::string_view bytes_, sample_bytes_;
  bool are_scattered_ = false;  // the samples are not in one place
  Profile profile_;
  std::vector<StringId> strings_;  // index in the file → id in profile_
  size_t samples_ = 0, mappings_ = 0, locations_ = 0, functions_ = 0;
  size_t numbers_ = 0;  // in samples
  bool has_records_ = false;
  std::optional<IdMap> mapping_ids_, function_ids_, location_ids_;
  std::vector<Profile::Line> lines_;
};

absl::StatusOr<Profile> DecodeMessages(std::string_view bytes, std::string_view name, bool was_gzip) {
  std::string what;
  try {
    return Decoder(bytes).Decode();
  } catch (const Damage& damage) {
    what = damage.what;
  } catch (const protozero::exception& error) {
    what = Explained(error);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: not enough memory to read it. Use a machine with more memory.", name));
  }
  if (!was_gzip) {
    return absl::DataLossError(fmt::format(
        "{}: not a pprof profile (not gzip; as protobuf: {}). Name a file such as app.4242.0001.heap.pb.gz.", name,
        what));
  }
  return absl::DataLossError(
      fmt::format("{}: damaged or not a pprof profile ({}). Copy it again, or use another snapshot.", name, what));
}

}  // namespace

absl::StatusOr<Profile> DecodePprof(std::string_view bytes, std::string_view name, uint64_t max_bytes) {
  if (bytes.empty() && name == "standard input")
    return absl::DataLossError(fmt::format("{}: is empty. Did the command before it fail?", name));
  if (bytes.empty()) {
    return absl::DataLossError(
        fmt::format("{}: empty file. The disk was probably full when it was written; use another snapshot.", name));
  }
  if (!IsGzip(bytes)) return IsTextProfile(bytes) ? DecodeTextProfile(bytes, name) : DecodeMessages(bytes, name, false);
  auto unpacked = Gunzip(bytes, name, max_bytes);
  if (!unpacked.ok()) return unpacked.status();
  if (IsTextProfile(unpacked->view())) return DecodeTextProfile(unpacked->view(), name);
  return DecodeMessages(unpacked->view(), name, true);
}

absl::StatusOr<Profile> ReadPprofFile(const std::string& path, uint64_t max_bytes) {
  if (path == "-") {
    // A command may read the same file twice; standard input can be read only once.
    static const absl::StatusOr<ByteBuffer> bytes = ReadAll(path, "standard input", max_bytes);
    return bytes.ok() ? DecodePprof(bytes->view(), "standard input", max_bytes) : bytes.status();
  }
  auto bytes = ReadAll(path, path, max_bytes);
  if (!bytes.ok()) return bytes.status();
  return DecodePprof(bytes->view(), path, max_bytes);
}

}  // namespace holdfast
