// Text without libc: libc's string functions are ifuncs, which do not work before the shim is relocated, and its
// formatting allocates. Any thread, any time.
#ifndef HOLDFAST_SAMPLER_CONTRACT_TEXT_H_
#define HOLDFAST_SAMPLER_CONTRACT_TEXT_H_

#include <cstddef>
#include <cstdint>

namespace holdfast {

inline size_t TextLength(const char* text) {
  size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}

inline bool TextStartsWith(const char* text, const char* start) {
  while (*start != '\0') {
    if (*text++ != *start++) return false;
  }
  return true;
}

inline bool TextEquals(const char* a, const char* b) {
  while (*a == *b && *a != '\0') {
    ++a;
    ++b;
  }
  return *a == *b;
}

// Copies what fits, always zero-terminated.
inline void CopyText(char* to, size_t capacity, const char* from) {
  size_t i = 0;
  for (; i + 1 < capacity && from[i] != '\0'; ++i) to[i] = from[i];
  to[i] = '\0';
}

// A fixed buffer for text; excess is cut off.
template <size_t kCapacity>
class TextBuffer {
 public:
  TextBuffer& Add(char c) {
    if (length_ + 1 < kCapacity) {
      text_[length_++] = c;
      text_[length_] = '\0';
    }
    return *this;
  }
  TextBuffer& Add(const char* text) {
    while (*text != '\0') Add(*text++);
    return *this;
  }
  TextBuffer& AddNumber(uint64_t number) {
    char digits[20];
    int count = 0;
    do {
      digits[count++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    while (count > 0) Add(digits[--count]);
    return *this;
  }
  TextBuffer& AddHex16(uint64_t number) {
    for (int shift = 60; shift >= 0; shift -= 4) Add("0123456789abcdef"[(number >> shift) & 15]);
    return *this;
  }
  const char* text() const { return text_; }
  size_t length() const { return length_; }

 private:
  char text_[kCapacity] = {};
  size_t length_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_TEXT_H_
