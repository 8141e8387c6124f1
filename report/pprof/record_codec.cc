#include "report/pprof/record_codec.h"

#include <cmath>
#include <concepts>
#include <protozero/pbf_writer.hpp>
#include <type_traits>

#include "report/base/utf8.h"
#include "report/pprof/damage.h"
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

// Writes the fields of one message. As in proto3, 0, false and "" are not written.
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
  void operator()(uint32_t tag, const char*, const Stacks& stacks) {
    std::vector<uint64_t> ids;
    for (const std::vector<uint32_t>& stack : stacks) {
      ids.clear();
      for (const uint32_t location : stack) ids.push_back(uint64_t{location} + 1);
      pbf_writer sub(writer_, tag);
      sub.add_packed_uint64(kLocationId, ids.begin(), ids.end());
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
    pbf_writer sub(writer_, tag);
    FieldWriter fields(&sub);
    Message::Fields(message, fields);
  }

  pbf_writer& writer_;
};

// Reads the field at which the reader is, into the member that has its number.
class FieldReader {
 public:
  FieldReader(pbf_reader* reader, const LocationOfId& location_of) : reader_(*reader), location_of_(location_of) {}

  // Whether some member had the number.
  bool found() const { return found_; }

  template <typename Member>
  void operator()(uint32_t tag, const char*, Member& member) {
    if (found_ || reader_.tag() != tag) return;
    found_ = true;
    Read(&member);
  }

 private:
  pbf_reader Message() {
    Expect(pbf_wire_type::length_delimited, "a message or text");
    return reader_.get_message();
  }
  void Expect(pbf_wire_type type, const char* what) {
    if (reader_.wire_type() != type) Fail("field {} of a record is not {}", reader_.tag(), what);
  }

  void Read(std::string* text) {
    Expect(pbf_wire_type::length_delimited, "a message or text");
    *text = Utf8(reader_.get_string());
  }
  void Read(double* value) {
    Expect(pbf_wire_type::fixed64, "a fraction");
    const double read = reader_.get_double();
    *value = std::isfinite(read) ? read : 0;
  }
  void Read(std::integral auto* value) {
    Expect(pbf_wire_type::varint, "a number");
    *value = static_cast<std::remove_pointer_t<decltype(value)>>(reader_.get_uint64());
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Read(Enum* value) {
    int32_t number = 0;
    Read(&number);
    *value = static_cast<Enum>(number);
  }
  template <typename Record>
  void Read(std::optional<Record>* message) {
    if (!message->has_value()) message->emplace();
    ReadMessage(Message(), &**message);
  }
  void Read(std::vector<std::string>* texts) { Read(&texts->emplace_back()); }
  void Read(std::vector<uint32_t>* numbers) {
    if (reader_.wire_type() == pbf_wire_type::varint) {
      numbers->push_back(reader_.get_uint32());
      return;
    }
    Expect(pbf_wire_type::length_delimited, "numbers");
    for (const uint32_t number : reader_.get_packed_uint32()) numbers->push_back(number);
  }
  void Read(Stacks* stacks) {
    std::vector<uint32_t>& stack = stacks->emplace_back();
    pbf_reader message = Message();
    while (message.next()) {
      if (message.tag() == kLocationId && message.wire_type() == pbf_wire_type::length_delimited) {
        for (const uint64_t id : message.get_packed_uint64()) stack.push_back(location_of_(id));
      } else if (message.tag() == kLocationId && message.wire_type() == pbf_wire_type::varint) {
        stack.push_back(location_of_(message.get_uint64()));
      } else {
        message.skip();
      }
    }
  }
  template <typename Record>
  requires kIsMessage<Record>
  void Read(std::vector<Record>* messages) { ReadMessage(Message(), &messages->emplace_back()); }
  void Read(TimeCounts* times) {
    pbf_reader message = Message();
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
