#include "sampler/profile.h"

#include <algorithm>
#include <cstring>

#include "sampler/huge_pages.h"

namespace holdfast {

StringId StringTable::Intern(std::string_view text) {
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  constexpr size_t kBlock = 64 * 1024;
  if (text.size() > left_) {
    // A long string gets a block of its own; the current block stays in use.
    const size_t size = std::max(kBlock, text.size());
    blocks_.push_back(std::unique_ptr<char[]>(new char[size]));
    if (size == kBlock) {
      next_ = blocks_.back().get();
      left_ = kBlock;
    }
  }
  char* place = text.size() > left_ ? blocks_.back().get() : next_;
  if (!text.empty()) std::memcpy(place, text.data(), text.size());
  if (place == next_) {
    next_ += text.size();
    left_ -= text.size();
  }
  const auto id = static_cast<StringId>(strings_.size());
  strings_.emplace_back(place, text.size());
  ids_.emplace(strings_.back(), id);
  return id;
}

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

void Profile::SetLines(Location* location, std::span<const Line> lines) {
  location->first_line = lines_.size();
  location->lines = static_cast<uint32_t>(lines.size());
  lines_.insert(lines_.end(), lines.begin(), lines.end());
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

int64_t Profile::Total(size_t sample_type) const {
  // Unsigned, so that a hostile file cannot overflow: the sum then wraps, as it does in other readers.
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

// The length of the UTF-8 character that `text` begins with, or 0: overlong forms, surrogates and what lies above
// U+10FFFF are not valid (Unicode 15, table 3-7).
static size_t Utf8Length(std::string_view text) {
  const auto at = [&](size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return follows(1) ? 2 : 0;
  if (first < 0xf0) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0 && at(1) < 0xa0) return 0;
    if (first == 0xed && at(1) > 0x9f) return 0;
    return 3;
  }
  if (first < 0xf5) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0 && at(1) < 0x90) return 0;
    if (first == 0xf4 && at(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

std::string RepairUtf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size() + 8);
  while (!text.empty()) {
    const size_t good = ValidUtf8Prefix(text);
    repaired.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    repaired.append("\xef\xbf\xbd");
    text.remove_prefix(1);
  }
  return repaired;
}

}  // namespace holdfast
