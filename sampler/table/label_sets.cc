#include "sampler/table/label_sets.h"

#include <bit>

#include "sampler/contract/text.h"

namespace holdfast {
namespace {

struct LabelEntry {
  uint32_t hash;
  uint32_t text;  // its start in `texts`
  uint16_t bytes;
  std::atomic<Offset> in_table;  // 0: not yet
};

constexpr uint32_t kPlaces = 2 * kMaxLabelSets;
static_assert(std::has_single_bit(kPlaces));

// All zeros at first, touched only as used. Set 0 means no labels; a number that lost a race stays unused.
constinit std::atomic<uint32_t> sets_taken{0}, text_taken{0};
constinit std::atomic<uint64_t> not_counted{0};  // labels that became kLabelOverflow, until a sample counts them
constinit std::atomic<uint16_t> places[kPlaces] = {};
constinit LabelEntry sets[kMaxLabelSets + 1] = {};
constinit char texts[kLabelTextBytes] = {};

// A set in the making.
struct MadeSet {
  uint32_t bytes = 0;
  bool overflow = false;  // reports missing room: may use the reserve
  char text[kMaxLabelBytes];

  // False: it does not fit.
  bool Add(const char* added, uint32_t count) {
    if (count > sizeof text - bytes) return false;
    for (uint32_t i = 0; i < count; ++i) text[bytes++] = added[i];
    return true;
  }
  bool AddPair(const char* key, uint32_t key_bytes, const char* value, uint32_t value_bytes) {
    return Add(key, key_bytes) && Add("", 1) && Add(value, value_bytes) && Add("", 1);
  }
  uint32_t Hash() const {
    uint64_t hash = bytes;
    for (uint32_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x9e3779b97f4a7c15;
    return static_cast<uint32_t>(hash >> 32);
  }
};

// Returns the length up to `most`, without cutting a UTF-8 character in two.
uint32_t BoundedLength(const char* text, uint32_t most) {
  uint32_t length = 0;
  while (length < most && text[length] != '\0') ++length;
  if (length == most) {
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  return length;
}

// <0, 0, >0: in string order.
int Compare(const char* a, uint32_t a_bytes, const char* b, uint32_t b_bytes) {
  for (uint32_t i = 0; i < a_bytes && i < b_bytes; ++i) {
    if (a[i] != b[i]) return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[i]) ? -1 : 1;
  }
  return a_bytes < b_bytes ? -1 : a_bytes > b_bytes ? 1 : 0;
}

bool IsSame(const LabelEntry& entry, const MadeSet& made, uint32_t hash) {
  if (entry.hash != hash || entry.bytes != made.bytes) return false;
  for (uint32_t i = 0; i < made.bytes; ++i) {
    if (texts[entry.text + i] != made.text[i]) return false;
  }
  return true;
}

// 0: no room.
uint16_t TakeNumber(const MadeSet& made, uint32_t hash) {
  const uint32_t kept_sets = made.overflow ? 0 : kKeptLabelSets, kept_text = made.overflow ? 0 : kLabelTextBytes / 64;
  if (sets_taken.load(std::memory_order_relaxed) >= kMaxLabelSets - kept_sets ||
      text_taken.load(std::memory_order_relaxed) + made.bytes > kLabelTextBytes - kept_text)
    return 0;
  // Other threads may have taken the last ones since.
  const uint32_t number = sets_taken.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint32_t text = text_taken.fetch_add(made.bytes, std::memory_order_relaxed);
  if (number > kMaxLabelSets || text + made.bytes > kLabelTextBytes) return 0;
  for (uint32_t i = 0; i < made.bytes; ++i) texts[text + i] = made.text[i];
  LabelEntry& entry = sets[number];
  entry.hash = hash;
  entry.text = text;
  entry.bytes = static_cast<uint16_t>(made.bytes);
  return static_cast<uint16_t>(number);
}

// Returns the number of a set that is not empty; 0: there is no room.
uint16_t Intern(const MadeSet& made) {
  const uint32_t hash = made.Hash();
  uint16_t mine = 0;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    std::atomic<uint16_t>& place = places[(hash + i) % kPlaces];
    uint16_t found = place.load(std::memory_order_acquire);
    if (found == 0) {
      if (mine == 0 && (mine = TakeNumber(made, hash)) == 0) return 0;
      // Release: a thread that finds the number finds the filled entry. Acquire: so do we, before comparing.
      if (place.compare_exchange_strong(found, mine, std::memory_order_acq_rel, std::memory_order_acquire)) return mine;
    }
    if (IsSame(sets[found], made, hash)) return found;  // ours stays unused: lost to a race
  }
  return 0;
}

// The set of a single label that replaces all. In the caller's memory, because little stack may be left.
uint16_t NothingButOverflow(MadeSet* made) {
  constexpr char kKey[] = "labels";
  made->bytes = 0;
  made->overflow = true;
  made->AddPair(kKey, sizeof kKey - 1, kLabelOverflow, sizeof kLabelOverflow - 1);
  return Intern(*made);
}

// Copies `set` with `key` at its place in the order. False: it does not fit.
bool Make(uint16_t set, const char* key, uint32_t key_bytes, const char* value, uint32_t value_bytes, MadeSet* made) {
  made->bytes = 0;
  const char* const begin = &texts[sets[set].text];
  bool added = value_bytes == 0;
  for (const char* at = begin; at < begin + sets[set].bytes;) {
    const auto name_bytes = static_cast<uint32_t>(TextLength(at));
    const auto text_bytes = static_cast<uint32_t>(TextLength(at + name_bytes + 1));
    const int order = Compare(at, name_bytes, key, key_bytes);
    if (order >= 0 && !added) {
      if (!made->AddPair(key, key_bytes, value, value_bytes)) return false;
      added = true;
    }
    if (order != 0 && !made->Add(at, name_bytes + text_bytes + 2)) return false;
    at += name_bytes + text_bytes + 2;
  }
  return added || made->AddPair(key, key_bytes, value, value_bytes);
}

}  // namespace

uint16_t WithLabel(uint16_t set, const char* key, const char* value) {
  const uint32_t key_bytes = key != nullptr ? BoundedLength(key, kMaxLabelKey) : 0;
  if (key_bytes == 0) return set;
  const uint32_t value_bytes = value != nullptr ? BoundedLength(value, kMaxLabelValue) : 0;
  MadeSet made;
  const bool fits = Make(set, key, key_bytes, value, value_bytes, &made);
  if (fits && made.bytes == 0) return 0;
  uint16_t number = fits ? Intern(made) : 0;
  if (number != 0) return number;
  CountLabelLost();
  if (value_bytes != 0) {
    made.overflow = true;
    if (Make(set, key, key_bytes, kLabelOverflow, sizeof kLabelOverflow - 1, &made)) number = Intern(made);
  }
  return number != 0 ? number : NothingButOverflow(&made);
}

const char* LabelIn(uint16_t set, const char* key) {
  const char* const begin = &texts[sets[set].text];
  for (const char* at = begin; at < begin + sets[set].bytes;) {
    const char* value = at + TextLength(at) + 1;
    if (TextEquals(at, key)) return value;
    at = value + TextLength(value) + 1;
  }
  return nullptr;
}

void CountLabelLost() { not_counted.fetch_add(1, std::memory_order_relaxed); }

bool IsLabelSet(uint32_t number) {
  return number <= kMaxLabelSets && number <= sets_taken.load(std::memory_order_relaxed) &&
         (number == 0 || sets[number].bytes != 0);
}

TaggedPc LabelFrameSlow(SharedTable* table, uint16_t set) {
  LabelEntry& entry = sets[set];
  if (UNLIKELY(not_counted.load(std::memory_order_relaxed) != 0)) {
    table->header()->losses[static_cast<int>(Loss::kLabelsFull)].fetch_add(
        not_counted.exchange(0, std::memory_order_relaxed), std::memory_order_relaxed);
  }
  Offset found = entry.in_table.load(std::memory_order_acquire);
  if (found == 0) {
    auto* made = static_cast<LabelSet*>(table->Allocate((sizeof(LabelSet) + entry.bytes + kUnit - 1) / kUnit * kUnit));
    if (made == nullptr) {
      table->Count(Loss::kLabelsFull);
      return kLabelMark;
    }
    for (uint32_t i = 0; i < entry.bytes; ++i) made->text[i] = texts[entry.text + i];
    made->bytes = entry.bytes;
    // Release: a thread that finds the offset finds the filled record. The loser of a race leaves a few bytes unused.
    const Offset mine = table->OffsetOf(made);
    if (entry.in_table.compare_exchange_strong(found, mine, std::memory_order_acq_rel, std::memory_order_acquire))
      found = mine;
  }
  return kLabelMark | found;
}

void ForgetLabelFrames() {
  not_counted.store(0, std::memory_order_relaxed);
  const uint32_t taken = sets_taken.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i <= taken && i <= kMaxLabelSets; ++i) sets[i].in_table.store(0, std::memory_order_relaxed);
}

}  // namespace holdfast
