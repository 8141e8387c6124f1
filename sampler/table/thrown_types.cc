#include "sampler/table/thrown_types.h"

namespace holdfast {
namespace {

bool IsNamed(const ThrownType& type, const char* name, uint32_t bytes) {
  if (type.bytes != bytes) return false;
  for (uint32_t i = 0; i < bytes; ++i) {
    if (type.text[i] != name[i]) return false;
  }
  return true;
}

const ThrownType* Find(SharedTable* table, Offset from, Offset to, const char* name, uint32_t bytes) {
  for (Offset at = from; at != to;) {
    const auto* type = table->At<ThrownType>(at);
    if (IsNamed(*type, name, bytes)) return type;
    at = type->next;
  }
  return nullptr;
}

}  // namespace

uint16_t NumberOfType(SharedTable* table, const char* name) {
  if (name == nullptr) return 0;
  uint64_t hash = 0;
  uint32_t bytes = 0;
  for (; bytes < kMaxTypeBytes && name[bytes] != '\0'; ++bytes)
    hash = (hash ^ static_cast<unsigned char>(name[bytes])) * 0x9e3779b97f4a7c15;
  TableHeader& head = *table->header();
  std::atomic<Offset>& list = head.type_heads[hash >> 32 & (kTypeHeads - 1)];
  Offset first = list.load(std::memory_order_acquire);
  if (const ThrownType* found = Find(table, first, 0, name, bytes)) return found->number;
  ThrownType* made = nullptr;
  if (head.type_count.load(std::memory_order_relaxed) < kMaxTypes)
    made = static_cast<ThrownType*>(table->Allocate(static_cast<uint32_t>(sizeof(ThrownType)) + bytes));
  const uint32_t number = made != nullptr ? head.type_count.fetch_add(1, std::memory_order_relaxed) + 1 : 0;
  if (made == nullptr || number > kMaxTypes) {
    table->Count(Loss::kTypesFull);
    return kTypeOverflow;
  }
  made->number = static_cast<uint16_t>(number);
  made->bytes = static_cast<uint16_t>(bytes);
  for (uint32_t i = 0; i < bytes; ++i) made->text[i] = name[i];
  while (true) {
    made->next = first;
    const Offset before = first;
    // Release: a thread that finds the offset finds the filled record.
    if (list.compare_exchange_strong(first, table->OffsetOf(made), std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      return made->number;
    // Another thread was first, perhaps with this very type: then ours stays unused.
    if (const ThrownType* found = Find(table, first, before, name, bytes)) return found->number;
  }
}

}  // namespace holdfast
