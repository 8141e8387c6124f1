// A pprof profile in memory, used by the writer, the reader and all views.
//
// Designed for 1,000,000 samples of 30 frames and 100,000 locations in about 200 MB: strings are ids in one table, and
// the frames, values and labels of all samples are in three flat arrays.
//
//   samples[i] ──► frames  [first_frame, first_frame + frames)     indices into `locations`, leaf first
//              ──► values_ [i × sample_types.size(), …)            one for each sample type
//              ──► labels_ [first_label, first_label + labels)
//
// In memory all references are indices from 0 (kNone where pprof has id 0); ids 1..N exist only in files. Not
// synchronized: one thread at a time. Strings may hold any bytes; the writer repairs invalid UTF-8.
#ifndef HOLDFAST_REPORT_PROFILE_PROFILE_H_
#define HOLDFAST_REPORT_PROFILE_PROFILE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/string_table.h"

namespace holdfast {

namespace record {
struct Process;
struct Profile;
}  // namespace record

struct Profile {
  static constexpr uint32_t kNone = 0xffffffff;

  struct ValueType {
    StringId type = 0;
    StringId unit = 0;
  };

  struct Sample {
    uint64_t first_frame = 0;
    uint64_t first_label = 0;
    uint32_t frames = 0;
    uint32_t labels = 0;
  };

  struct Label {
    StringId key = 0;
    StringId text = 0;   // a string label …
    int64_t number = 0;  // … or a numeric one
    StringId unit = 0;
    bool operator==(const Label&) const = default;
  };

  struct Mapping {
    uint64_t start = 0, limit = 0, offset = 0;
    StringId file = 0, build_id = 0;
    bool has_functions = false, has_filenames = false, has_line_numbers = false, has_inline_frames = false;
    // Location.address − bias = ELF address. Known only for profiles built from a snapshot; not part of pprof's format.
    uint64_t bias = 0;
    bool has_bias = false;
  };

  struct Function {
    StringId name = 0;
    StringId system_name = 0;  // the mangled name; 0 if it is equal to `name`
    StringId filename = 0;
    int64_t start_line = 0;
  };

  struct Line {  // a location may have several: functions inlined at that address, innermost first
    uint32_t function = kNone;
    int64_t line = 0;
  };

  struct Location {
    uint64_t address = 0;
    uint64_t first_line = 0;
    uint32_t lines = 0;
    uint32_t mapping = kNone;
    bool is_folded = false;
    bool is_tail_call =
        false;  // not a real call: the function had left with a jump (report/names/symbolize/tail_calls.h)
  };

  StringTable strings;
  std::vector<ValueType> sample_types;
  StringId default_sample_type = 0;
  std::vector<Sample> samples;
  std::vector<Mapping> mappings;
  std::vector<Location> locations;
  std::vector<Function> functions;
  StringId drop_frames = 0, keep_frames = 0;
  int64_t time_nanos = 0;      // wall clock, since 1970
  int64_t duration_nanos = 0;  // 0 in cumulative profiles
  ValueType period_type;
  int64_t period = 0;
  std::vector<StringId> comments;  // for people

  std::span<const uint32_t> FramesOf(const Sample& sample) const {
    return {frames_.data() + sample.first_frame, sample.frames};
  }
  std::span<const Label> LabelsOf(const Sample& sample) const {
    return {labels_.data() + sample.first_label, sample.labels};
  }
  // Whether this sample is a wait in progress, with the time so far. Only in block profiles of holdfast.
  bool IsWaiting(const Sample& sample) const {
    for (const Label& label : LabelsOf(sample)) {
      if (strings[label.key] == "state" && strings[label.text] == "waiting") return true;
    }
    return false;
  }
  std::span<const int64_t> ValuesOf(size_t sample) const {
    return {values_.data() + sample * sample_types.size(), sample_types.size()};
  }
  std::span<int64_t> ValuesOf(size_t sample) {
    return {values_.data() + sample * sample_types.size(), sample_types.size()};
  }
  std::span<const Line> LinesOf(const Location& location) const {
    return {lines_.data() + location.first_line, location.lines};
  }

  // `values`: one per sample type. Set sample_types first.
  void AddSample(std::span<const uint32_t> frames, std::span<const int64_t> values, std::span<const Label> labels);
  // Replaces the frames of one sample. The old ones stay in memory, unused.
  void SetFrames(size_t sample, std::span<const uint32_t> frames);
  // The same for its labels.
  void SetLabels(size_t sample, std::span<const Label> labels);
  void SetLines(Location* location, std::span<const Line> lines);
  // Typed records beside the samples (report/profile/typed_records.h); empty if nothing is.
  const record::Profile& records() const;
  record::Profile* mutable_records();
  // An empty one if the records name no process.
  const record::Process& process() const;
  record::Process* mutable_process();

  void AddComment(std::string_view text) { comments.push_back(strings.Intern(text)); }

  // Returns the value of the first comment `key: value`, or "".
  std::string_view CommentValue(std::string_view key) const;
  std::vector<std::string_view> CommentTexts() const;  // all comments, in order

  // Returns the sum of one metric over all samples, which every viewer shows as the total.
  int64_t Total(size_t sample_type) const;

  // For a reader that knows the sizes in advance.
  void Reserve(size_t sample_count, size_t frame_count, size_t label_count);

 private:
  std::vector<uint32_t> frames_;
  std::vector<int64_t> values_;
  std::vector<Label> labels_;
  std::vector<Line> lines_;
  std::shared_ptr<record::Profile> records_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_PROFILE_H_
