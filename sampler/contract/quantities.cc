#include "sampler/contract/quantities.h"

#include <cstddef>

#include "sampler/contract/text.h"

namespace holdfast {
namespace {

struct QuantityUnit {
  const char* name;
  uint64_t factor;
};
constexpr QuantityUnit kSizeUnits[] = {{"", 1},          {"B", 1},      {"KiB", 1 << 10},  {"MiB", 1 << 20},
                                       {"GiB", 1 << 30}, {"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}};
constexpr QuantityUnit kTimeUnits[] = {
    {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}};

// Digits with at most one point, then a unit; no sign, no blanks.
template <size_t N>
bool ParseQuantity(const char* text, const QuantityUnit (&units)[N], uint64_t* value) {
  uint64_t whole = 0;
  uint64_t fraction = 0, scale = 1;
  const char* at = text;
  if (*at < '0' || *at > '9') return false;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (whole > (UINT64_MAX - 9) / 10) return false;
    whole = whole * 10 + static_cast<uint64_t>(*at - '0');
  }
  if (*at == '.') {
    for (++at; *at >= '0' && *at <= '9'; ++at) {
      if (scale >= 1'000'000) continue;
      fraction = fraction * 10 + static_cast<uint64_t>(*at - '0');
      scale *= 10;
    }
  }
  for (const QuantityUnit& unit : units) {
    if (!TextEquals(at, unit.name)) continue;
    if (whole > (uint64_t{1} << 62) / unit.factor) return false;
    *value = whole * unit.factor + fraction * unit.factor / scale;
    // 0 often means "off", so a positive value below the smallest unit becomes 1.
    if (*value == 0 && fraction != 0) *value = 1;
    return true;
  }
  return false;
}

}  // namespace

bool ParseCount(const char* text, uint64_t* value) {
  for (const char* at = text; *at != '\0'; ++at) {
    if (*at == '.') return false;
  }
  constexpr QuantityUnit kNone[] = {{"", 1}};
  return ParseQuantity(text, kNone, value);
}

bool ParseSize(const char* text, uint64_t* bytes) { return ParseQuantity(text, kSizeUnits, bytes); }

bool ParseTime(const char* text, uint64_t* ns) {
  if (TextEquals(text, "0")) {
    *ns = 0;
    return true;
  }
  return ParseQuantity(text, kTimeUnits, ns);
}

}  // namespace holdfast
