#include "sampler/contract/triggers.h"

#include "sampler/contract/quantities.h"
#include "sampler/contract/text.h"

namespace holdfast {
namespace {

struct QuantityName {
  const char* name;
  TriggerQuantity quantity;
};
constexpr QuantityName kQuantities[] = {{"inuse", TriggerQuantity::kInUse},
                                        {"rss", TriggerQuantity::kResident},
                                        {"growth", TriggerQuantity::kGrowth},
                                        {"delay", TriggerQuantity::kDelay}};

constexpr uint64_t kShortestNs = 1'000'000'000, kLongestNs = uint64_t{24} * 3600 * 1'000'000'000;
constexpr uint32_t kWhole = 10'000;  // hundredths of a percent

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// A part of the text, zero-terminated; anything longer is invalid.
using Part = TextBuffer<40>;

Part PartOf(const char* start, const char* end) {
  while (start < end && IsBlank(*start)) ++start;
  while (start < end && IsBlank(end[-1])) --end;
  Part part;
  while (start < end) part.Add(*start++);
  return part;
}

// "80%limit", "12.5%limit"
bool ParseShareOfLimit(const char* text, uint32_t* share) {
  const char* percent = text;
  while (*percent != '\0' && *percent != '%') ++percent;
  const char* of = *percent == '%' ? percent + 1 : percent;
  while (IsBlank(*of)) ++of;
  if (*percent == '\0' || !TextEquals(of, "limit") || *text < '0' || *text > '9') return false;
  uint32_t hundredths = 0;
  int digits_after = -1;
  for (; text < percent; ++text) {
    if (*text == '.' && digits_after < 0) {
      digits_after = 0;
    } else if (*text >= '0' && *text <= '9' && digits_after < 2 && hundredths <= kWhole) {
      hundredths = hundredths * 10 + static_cast<uint32_t>(*text - '0');
      digits_after += digits_after >= 0 ? 1 : 0;
    } else {
      return false;
    }
  }
  for (int i = digits_after < 0 ? 0 : digits_after; i < 2; ++i) hundredths *= 10;
  *share = hundredths;
  return hundredths > 0 && hundredths <= kWhole;
}

// "min", "h", "30s"
bool ParsePeriod(const char* text, uint64_t* ns) {
  if (TextEquals(text, "min") || TextEquals(text, "m")) {
    *ns = uint64_t{60} * 1'000'000'000;
  } else if (TextEquals(text, "h") || TextEquals(text, "s")) {
    *ns = uint64_t{*text == 'h' ? 3600u : 1u} * 1'000'000'000;
  } else {
    Part number;
    number.Add(text);
    const size_t length = number.length();
    // Other units as usual, and "5min".
    if (length > 3 && TextEquals(text + length - 3, "min")) number = PartOf(text, text + length - 2);
    if (!ParseTime(number.text(), ns)) return false;
  }
  return *ns >= kShortestNs && *ns <= kLongestNs;
}

bool ParseAmount(const char* text, TriggerQuantity quantity, uint64_t* amount) {
  return (quantity == TriggerQuantity::kDelay ? ParseTime(text, amount) : ParseSize(text, amount)) && *amount > 0;
}

bool ParseOne(const char* start, const char* end, Trigger* trigger) {
  const char* sign = start;
  while (sign < end && *sign != '>') ++sign;
  if (sign == end) return false;
  const Part name = PartOf(start, sign);
  bool known = false;
  for (const QuantityName& quantity : kQuantities) {
    if (!TextEquals(name.text(), quantity.name)) continue;
    trigger->quantity = quantity.quantity;
    known = true;
  }
  if (!known) return false;
  const char* slash = sign + 1;
  while (slash < end && *slash != '/') ++slash;
  const Part amount = PartOf(sign + 1, slash);
  const bool has_period = slash < end;
  if (trigger->quantity == TriggerQuantity::kGrowth || trigger->quantity == TriggerQuantity::kDelay) {
    return has_period && ParseAmount(amount.text(), trigger->quantity, &trigger->above) &&
           ParsePeriod(PartOf(slash + 1, end).text(), &trigger->within_ns);
  }
  return !has_period && (ParseShareOfLimit(amount.text(), &trigger->of_limit) ||
                         ParseAmount(amount.text(), trigger->quantity, &trigger->above));
}

}  // namespace

bool ParseTriggers(const char* text, TriggerList* list) {
  list->count = 0;
  if (TextLength(text) >= kTriggerTextBytes) return false;
  for (const char *at = text, *end; *at != '\0'; at = *end == ',' ? end + 1 : end) {
    end = at;
    while (*end != '\0' && *end != ',') ++end;
    const char *first = at, *last = end;
    while (first < last && IsBlank(*first)) ++first;
    while (first < last && IsBlank(last[-1])) --last;
    if (first == last) continue;
    if (list->count == kMaxTriggers) return false;
    Trigger trigger{};
    if (!ParseOne(first, last, &trigger)) return false;
    trigger.start = static_cast<uint16_t>(first - text);
    trigger.bytes = static_cast<uint16_t>(last - first);
    list->all[list->count++] = trigger;
  }
  return true;
}

}  // namespace holdfast
