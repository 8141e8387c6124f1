#include "report/profile/record_codec.h"

#include <cmath>
#include <concepts>
#include <cstddef>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <type_traits>

#include "report/base/utf8.h"
#include "report/profile/damage.h"
#include "sampler/contract/time_buckets.h"

namespace holdfast {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

using Stacks = std::vector<std::vector<uint32_t>>;

// The fields of messages Stack, Times and TimeCount, which have C++ types of their own.
constexpr uint32_t kLocationId = 1, kBucket = 1, kIncomplete = 2, kFromNs = 1, kCount = 2;

template <typename T>
constexpr bool kIsMessage = std::is_class_v<T> && !std::same_as<T, std::string>;

std::string Utf8(const std::string& text) { return ValidUtf8Prefix(text) == text.size() ? text : RepairUtf8(text); }

// Writes the fields of one message. As in proto3, 0, false and "" are not written. A message is written even if it is empty:
// stacks and threads are numbered by their places. (protozero's nested writer would drop an empty one.)
class FieldWriter {
 public:
  explicit FieldWriter(pbf_writer* writer) : writer_(*writer) {}

  void operator()(uint32_t tag, const char*, const std::string& text) {
    if (!text.empty()) writer_.add_string(tag, Utf8(text));
  }
  void operator()(uint32_t tag, const char*, double value) {
    if (value != 0) writer_.add_double(tag, value);
  }
  void operator()(uint32_t tag, const char*, std::integral auto value) {
    if (value == 0) return;
    if constexpr (std::is_signed_v<decltype(value)>) {
      writer_.add_int64(tag, value);
    } else {
      writer_.add_uint64(tag, value);
    }
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void operator()(uint32_t tag, const char* name, Enum value) { (*this)(tag, name, static_cast<int64_t>(value)); }
  template <typename Message>
  void operator()(uint32_t tag, const char*, const std::optional<Message>& message) {
    if (message.has_value()) Add(tag, *message);
  }
  void operator()(uint32_t tag, const char*, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) writer_.add_string(tag, Utf8(text));
  }
  void operator()(uint32_t tag, const char*, const std::vector<uint32_t>& numbers) {
    writer_.add_packed_uint32(tag, numbers.begin(), numbers.end());
  }
  void operator()(uint32_t tag, const char*, const std::vector<uint64_t>& numbers) {
    writer_.add_packed_uint64(tag, numbers.begin(), numbers.end());
  }
  void operator()(uint32_t tag, const char*, const Stacks& stacks) {
    std::vector<uint64_t> ids;
    for (const std::vector<uint32_t>& stack : stacks) {
      ids.clear();
      for (const uint32_t location : stack) ids.push_back(uint64_t{location} + 1);
      std::string bytes;
      pbf_writer(bytes).add_packed_uint64(kLocationId, ids.begin(), ids.end());
      writer_.add_message(tag, bytes);
    }
  }
  template <typename Message>
  requires kIsMessage<Message>
  void operator()(uint32_t tag, const char*, const std::vector<Message>& messages) {
    for (const Message& message : messages) Add(tag, message);
  }
  void operator()(uint32_t tag, const char*, const TimeCounts& times) {
    if (times.empty() && times.complete()) return;
    pbf_writer sub(writer_, tag);
    for (const auto& [bucket, count] : times.counts()) {
      pbf_writer of_bucket(sub, kBucket);
      of_bucket.add_uint64(kFromNs, bucket == 0 ? 0 : TimeBucketStart(bucket));
      of_bucket.add_double(kCount, count);
    }
    if (!times.complete()) sub.add_bool(kIncomplete, true);
  }

 private:
  template <typename Message>
  void Add(uint32_t tag, const Message& message) {
    std::string bytes;
    pbf_writer sub(bytes);
    FieldWriter fields(&sub);
    Message::Fields(message, fields);
    writer_.add_message(tag, bytes);
  }

  pbf_writer& writer_;
};

// Reads the field at which the reader is, into the member that has its number and type.
class FieldReader {
 public:
  FieldReader(pbf_reader* reader, const LocationOfId& location_of) : reader_(*reader), location_of_(location_of) {}

  // Whether some member had the number and the type. If none has, the caller skips the field.
  bool found() const { return found_; }

  template <typename Member>
  void operator()(uint32_t tag, const char*, Member& member) {
    if (found_ || reader_.tag() != tag || !Fits<Member>(reader_.wire_type())) return;
    found_ = true;
    Read(&member);
  }

 private:
  template <typename Member>
  static bool Fits(pbf_wire_type type) {
    if constexpr (std::same_as<Member, double>) return type == pbf_wire_type::fixed64;
    if constexpr (std::integral<Member> || std::is_enum_v<Member>) return type == pbf_wire_type::varint;
    const bool is_number = std::same_as<Member, std::vector<uint32_t>> || std::same_as<Member, std::vector<uint64_t>>;
    return (is_number && type == pbf_wire_type::varint) || type == pbf_wire_type::length_delimited;
  }

  // Adds an element to a repeated field.
  template <typename Element>
  Element* AddTo(std::vector<Element>* elements) {
    if (elements->size() == kMaxRepeated) Fail("a record has more than {} of field {}", kMaxRepeated, reader_.tag());
    return &elements->emplace_back();
  }

  void Read(std::string* text) { *text = Utf8(reader_.get_string()); }
  void Read(double* value) {
    const double read = reader_.get_double();
    *value = std::isfinite(read) ? read : 0;
  }
  void Read(std::integral auto* value) {
    *value = static_cast<std::remove_pointer_t<decltype(value)>>(reader_.get_uint64());
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Read(Enum* value) { *value = static_cast<Enum>(static_cast<int32_t>(reader_.get_uint64())); }
  template <typename Record>
  void Read(std::optional<Record>* message) {
    if (!message->has_value()) message->emplace();
    ReadMessage(reader_.get_message(), &**message);
  }
  void Read(std::vector<std::string>* texts) { Read(AddTo(texts)); }
  void Read(std::vector<uint32_t>* numbers) {
    if (reader_.wire_type() == pbf_wire_type::varint) {
      numbers->push_back(reader_.get_uint32());
      return;
    }
    for (const uint32_t number : reader_.get_packed_uint32()) numbers->push_back(number);
  }
  void Read(std::vector<uint64_t>* numbers) {
    if (reader_.wire_type() == pbf_wire_type::varint) {
      numbers->push_back(reader_.get_uint64());
      return;
    }
    for (const uint64_t number : reader_.get_packed_uint64()) numbers->push_back(number);
  }
  void Read(Stacks* stacks) {
    std::vector<uint32_t>& stack = *AddTo(stacks);
    bool is_known = true;
    const auto add = [&](uint64_t id) {
      const std::optional<uint32_t> location = location_of_(id);
      is_known = is_known && location.has_value();
      if (is_known) stack.push_back(*location);
    };
    pbf_reader message = reader_.get_message();
    while (message.next()) {
      if (message.tag() == kLocationId && message.wire_type() == pbf_wire_type::length_delimited) {
        for (const uint64_t id : message.get_packed_uint64()) add(id);
      } else if (message.tag() == kLocationId && message.wire_type() == pbf_wire_type::varint) {
        add(message.get_uint64());
      } else {
        message.skip();
      }
    }
    if (!is_known) stack.clear();  // the wrong frames would mislead; an empty stack reads as "not known"
  }
  template <typename Record>
  requires kIsMessage<Record>
  void Read(std::vector<Record>* messages) { ReadMessage(reader_.get_message(), AddTo(messages)); }
  void Read(TimeCounts* times) {
    pbf_reader message = reader_.get_message();
    while (message.next()) {
      if (message.tag() == kIncomplete && message.wire_type() == pbf_wire_type::varint) {
        if (message.get_bool()) times->set_incomplete();
      } else if (message.tag() == kBucket && message.wire_type() == pbf_wire_type::length_delimited) {
        ReadBucket(message.get_message(), times);
      } else {
        message.skip();
      }
    }
  }
  static void ReadBucket(pbf_reader message, TimeCounts* times) {
    uint64_t from_ns = 0;
    double count = 0;
    while (message.next()) {
      if (message.tag() == kFromNs && message.wire_type() == pbf_wire_type::varint) {
        from_ns = message.get_uint64();
      } else if (message.tag() == kCount && message.wire_type() == pbf_wire_type::fixed64) {
        count = message.get_double();
      } else {
        message.skip();
      }
    }
    times->Add(TimeBucket(from_ns), count);
  }
  template <typename Record>
  void ReadMessage(pbf_reader message, Record* record) {
    while (message.next()) {
      FieldReader field(&message, location_of_);
      Record::Fields(*record, field);
      if (!field.found()) message.skip();
    }
  }

  pbf_reader& reader_;
  const LocationOfId& location_of_;
  bool found_ = false;
};

}  // namespace

void AppendRecords(const record::Profile& records, std::string* message) {
  pbf_writer writer(*message);
  FieldWriter fields(&writer);
  record::Profile::Fields(records, fields);
}

void ReadRecordField(protozero::pbf_reader& reader, const LocationOfId& location_of, record::Profile* records) {
  FieldReader field(&reader, location_of);
  record::Profile::Fields(*records, field);
  if (!field.found()) reader.skip();
}

}  // namespace holdfast
