#include "report/profile/profile.h"

#include "report/base/huge_pages.h"
#include "report/profile/typed_records.h"

namespace holdfast {

void Profile::AddSample(std::span<const uint32_t> frames, std::span<const int64_t> values,
                        std::span<const Label> labels) {
  samples.push_back({.first_frame = frames_.size(),
                     .first_label = labels_.size(),
                     .frames = static_cast<uint32_t>(frames.size()),
                     .labels = static_cast<uint32_t>(labels.size())});
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  values_.insert(values_.end(), values.begin(), values.end());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
}

void Profile::SetFrames(size_t sample, std::span<const uint32_t> frames) {
  samples[sample].first_frame = frames_.size();
  samples[sample].frames = static_cast<uint32_t>(frames.size());
  frames_.insert(frames_.end(), frames.begin(), frames.end());
}

void Profile::SetLabels(size_t sample, std::span<const Label> labels) {
  samples[sample].first_label = labels_.size();
  samples[sample].labels = static_cast<uint32_t>(labels.size());
  labels_.insert(labels_.end(), labels.begin(), labels.end());
}

void Profile::SetLines(Location* location, std::span<const Line> lines) {
  location->first_line = lines_.size();
  location->lines = static_cast<uint32_t>(lines.size());
  lines_.insert(lines_.end(), lines.begin(), lines.end());
}

const record::Profile& Profile::records() const {
  static const record::Profile kEmpty{};
  return records_ == nullptr ? kEmpty : *records_;
}

record::Profile* Profile::mutable_records() {
  if (records_ == nullptr) records_ = std::make_shared<record::Profile>();
  return records_.get();
}

const record::Process& Profile::process() const {
  static const record::Process kEmpty{};
  const std::optional<record::Process>& process = records().process;
  return process.has_value() ? *process : kEmpty;
}

record::Process* Profile::mutable_process() {
  std::optional<record::Process>& process = mutable_records()->process;
  return process.has_value() ? &*process : &process.emplace();
}

std::string_view Profile::CommentValue(std::string_view key) const {
  for (const StringId comment : comments) {
    const std::string_view text = strings[comment];
    if (text.size() > key.size() + 1 && text.starts_with(key) && text.substr(key.size(), 2) == ": ") {
      return text.substr(key.size() + 2);
    }
  }
  return {};
}

std::vector<std::string_view> Profile::CommentTexts() const {
  std::vector<std::string_view> texts;
  texts.reserve(comments.size());
  for (const StringId comment : comments) texts.push_back(strings[comment]);
  return texts;
}

int64_t Profile::Total(size_t sample_type) const {
  // Unsigned, so that a malicious file cannot cause undefined overflow. The sum wraps, as in other readers.
  uint64_t total = 0;
  for (size_t i = 0; i < samples.size(); ++i) total += static_cast<uint64_t>(ValuesOf(i)[sample_type]);
  return static_cast<int64_t>(total);
}

void Profile::Reserve(size_t sample_count, size_t frame_count, size_t label_count) {
  ReserveHuge(&samples, sample_count);
  ReserveHuge(&values_, sample_count * sample_types.size());
  ReserveHuge(&frames_, frame_count);
  ReserveHuge(&labels_, label_count);
}

}  // namespace holdfast
