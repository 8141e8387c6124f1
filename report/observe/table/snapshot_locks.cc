#include "report/observe/table/snapshot_locks.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "sampler/contract/shadow_words.h"

namespace holdfast {
namespace {

class LockReader {
 public:
  LockReader(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
             TimesReader* times, TableSnapshot* snapshot)
      : bytes_(bytes),
        limit_(limit),
        head_(*reinterpret_cast<const TableHeader*>(bytes)),
        stack_of_row_(stack_of_row),
        times_(*times),
        snapshot_(*snapshot) {}

  absl::Status Read() {
    for (const auto& list : head_.lock_heads) {
      for (Offset at = CounterValue(list); at != 0;) {
        const auto* record = At<LockRecord>(at);
        if (record == nullptr || snapshot_.locks_known.size() == kMaxLocks + kRaces ||
            static_cast<int>(record->kind) >= kWaitKinds) {
          return Corrupt("bad lock", at);
        }
        index_.emplace(at, static_cast<uint32_t>(snapshot_.locks_known.size()));
        snapshot_.locks_known.push_back({.address = record->lock,
                                         .kind = record->kind,
                                         .number = record->number,
                                         .waits = CounterValue(record->waits),
                                         .wait_ns = CounterValue(record->wait_ns),
                                         .longest_ns = CounterValue(record->longest_ns),
                                         .holds = CounterValue(record->holds),
                                         .hold_ns = CounterValue(record->hold_ns),
                                         .held_ns = CounterValue(record->held_ns),
                                         .longest_held_ns = CounterValue(record->longest_held_ns),
                                         .alone_ns = CounterValue(record->alone_ns)});
        LockInfo& lock = snapshot_.locks_known.back();
        absl::Status status = times_.Read(CounterValue(record->wait_times), &lock.wait_times);
        if (status.ok()) status = times_.Read(CounterValue(record->hold_times), &lock.hold_times);
        if (!status.ok()) return status;
        at = record->next;
      }
    }
    size_t pairs = 0;  // also counts skipped ones: a damaged list may be cyclic
    for (const auto& list : head_.pair_heads) {
      for (Offset at = CounterValue(list); at != 0;) {
        const auto* pair = At<LockPairRecord>(at);
        if (pair == nullptr || pairs++ == kMaxPairs + kRaces) return Corrupt("bad pair of holder and waiter", at);
        if (absl::Status status = ReadPair(*pair, at); !status.ok()) return status;
        at = pair->next;
      }
    }
    if (!snapshot_.locks_known.empty()) FindBlocks();
    return absl::OkStatus();
  }

 private:
  // Threads that add the last records at the same time may exceed the limit by this much.
  static constexpr size_t kRaces = 1024;

  static absl::Status Corrupt(std::string_view what, uint64_t offset) {
    return absl::DataLossError(absl::StrFormat("%s at byte %d", what, offset * kUnit));
  }

  template <typename T>
  const T* At(Offset offset, uint64_t bytes = sizeof(T)) const {
    return RecordAt<T>(bytes_, limit_, offset, bytes);
  }

  absl::Status ReadPair(const LockPairRecord& pair, Offset at) {
    const auto lock = index_.find(pair.lock);
    if (lock == index_.end()) {
      // The lock is new: its list was already copied, but the list of its pairs was not.
      return At<LockRecord>(pair.lock) != nullptr ? absl::OkStatus() : Corrupt("pair with an unknown lock", at);
    }
    const auto stack = [this](Offset row) {
      const auto found = stack_of_row_.find(row);
      return found != stack_of_row_.end() ? found->second : kNoStack;
    };
    snapshot_.lock_pairs.push_back(
        {.lock = lock->second,
         .holder = stack(pair.holder),
         .waiter = stack(pair.waiter),
         .contentions = static_cast<double>(CounterValue(pair.contentions)) / (1 << kCountFractionBits),
         .delay_ns = static_cast<double>(CounterValue(pair.delay)) / (1 << kAmountFractionBits)});
    return absl::OkStatus();
  }

  // Finds the locks in the blocks of live samples.
  void FindBlocks() {
    LocksByAddress locks;
    for (LockInfo& lock : snapshot_.locks_known) locks.emplace_back(lock.address, &lock);
    std::sort(locks.begin(), locks.end());
    for (uint32_t segment = 0; segment < kLiveSegments; ++segment) {
      const uint32_t slots = LiveSlotsIn(segment);
      const auto* keys = At<std::atomic<uint64_t>>(CounterValue(head_.live_segments[segment]),
                                                   slots * (sizeof(uint64_t) + sizeof(LiveSample)));
      if (keys == nullptr) continue;
      const auto* samples = reinterpret_cast<const LiveSample*>(keys + slots);
      for (uint32_t i = 0; i < slots; ++i) {
        const uint64_t address = CounterValue(keys[i]);
        if (address <= 1 || (address & 1) != 0) continue;
        FindLocksIn(address, samples[i].size, samples[i].row, locks);
      }
    }
    FindInShadow(locks);
  }

  using LocksByAddress = std::vector<std::pair<uint64_t, LockInfo*>>;
  void FindLocksIn(uint64_t address, uint64_t bytes, Offset row, const LocksByAddress& locks) {
    auto at = std::lower_bound(locks.begin(), locks.end(), std::pair<uint64_t, LockInfo*>(address, nullptr));
    for (; at != locks.end() && at->first - address < bytes; ++at) {
      const auto stack = stack_of_row_.find(row);
      if (stack == stack_of_row_.end()) break;
      at->second->block_bytes = bytes;
      at->second->block_offset = at->first - address;
      at->second->block_stack = stack->second;
    }
  }

  // Reads the shadow words before each lock: a block that contains it begins at most kLargestShadowed bytes earlier.
  void FindInShadow(const LocksByAddress& locks) {
    const auto* directory = At<ShadowDirectory>(CounterValue(head_.in_use.shadow));
    if (directory == nullptr) return;
    for (const auto& [lock, info] : locks) {
      for (uint64_t back = 0; back < kLargestShadowed + kShadowGrain && back <= lock; back += kShadowGrain) {
        const uint64_t start = (lock - back) / kShadowGrain * kShadowGrain;
        const uint64_t entry = CounterValue(directory->chunks[(start >> kShadowShift) % kShadowChunks]);
        if (entry == 0 || entry >> 32 != start >> kShadowShift) continue;
        const auto* chunk = At<ShadowChunk>(static_cast<Offset>(entry));
        if (chunk == nullptr) continue;
        const std::atomic<uint32_t>* word = &chunk->slots[start / kShadowGrain % kShadowSlots];
        const uint32_t value = CounterValue(*word);
        if (HasTinies(value) && FindInTinies(value, lock, locks)) break;
        const uint64_t address = start + ShadowedAt(value);
        if (!IsShadowedRow(value) || address > lock) continue;
        FindInBlock(address, value, CounterValue(word[1]), locks);
        break;
      }
    }
  }
  bool FindInTinies(uint32_t word, uint64_t lock, const LocksByAddress& locks) {
    const auto* tinies = At<ShadowTinies>(ShadowedTinies(word));
    if (tinies == nullptr) return false;
    for (uint64_t back = 0; back < kLargestTiny; back += kTinyGrain) {
      const uint64_t address = (lock - back) / kTinyGrain * kTinyGrain;
      if (address / kTinyPage != lock / kTinyPage) break;
      const uint32_t value = CounterValue(tinies->slots[TinySlot(address)]);
      if (!IsShadowedRow(value)) continue;
      FindInBlock(address, value, 0, locks);
      return true;
    }
    return false;
  }
  void FindInBlock(uint64_t address, uint32_t word, uint32_t second, const LocksByAddress& locks) {
    const auto* found = At<Row>(ShadowedRow(word));
    const auto bytes = found != nullptr ? CheckedShadowedBytes(found->size_class, second) : std::nullopt;
    if (bytes.has_value()) FindLocksIn(address, *bytes, ShadowedRow(word), locks);
  }

  const char* bytes_;
  uint64_t limit_;
  const TableHeader& head_;
  const absl::flat_hash_map<Offset, uint32_t>& stack_of_row_;
  TimesReader& times_;
  TableSnapshot& snapshot_;
  absl::flat_hash_map<Offset, uint32_t> index_;
};

}  // namespace

absl::Status TimesReader::Read(Offset offset, TimesInfo* times) {
  const auto corrupt = [](const char* what, Offset at) {
    return absl::DataLossError(absl::StrFormat("%s at byte %d", what, uint64_t{at} * kUnit));
  };
  times->complete = offset != kNoRoom;
  if (offset == 0 || offset == kNoRoom) return absl::OkStatus();
  const auto* histogram = RecordAt<TimeHistogram>(bytes_, limit_, offset);
  if (histogram == nullptr || histograms_left_-- == 0) return corrupt("bad counts of times", offset);
  for (uint32_t i = 0; i < kTimeParts; ++i) {
    const Offset at = CounterValue(histogram->parts[i]);
    if (at == 0) continue;
    if (at == kNoRoom) {
      times->complete = false;
      continue;
    }
    const auto* part = RecordAt<TimePart>(bytes_, limit_, at);
    if (part == nullptr || parts_left_-- == 0) return corrupt("bad part of counts of times", at);
    for (uint32_t j = 0; j < kBucketsInPart; ++j) {
      const uint64_t count = CounterValue(part->counts[j]);
      if (count != 0) times->counts.emplace_back(i * kBucketsInPart + j, std::min(count, kMaxSum));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadLocks(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
                       TimesReader* times, TableSnapshot* snapshot) {
  return LockReader(bytes, limit, stack_of_row, times, snapshot).Read();
}

}  // namespace holdfast
