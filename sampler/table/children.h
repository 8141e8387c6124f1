// Records that belong to a parent: the nodes and the stacks of a node, the rows of a stack. A few are found by their
// list, close to the parent; larger sets have an index.
//
//     parent ──newest──► c ──► b ──► a                   up to kListed: a search reads the list
//     parent ──newest──► e (indexed) ──► d ──► c …       more: a … d were added to the index before e became the head, and the index
//                                                        alone says what is there
//
// Each record exists once, even if several threads add it at the same moment: a list's head has then changed, and the
// list is searched again; for an index see hash_index.h. Any thread, lock-free, also in signal handlers. A thread that
// jumps out leaves either an unused record or a complete one.
#ifndef HOLDFAST_SAMPLER_TABLE_CHILDREN_H_
#define HOLDFAST_SAMPLER_TABLE_CHILDREN_H_

#include "sampler/table/hash_index.h"
#include "sampler/table/record_lists.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// Returns the record that `what` describes, found or made. 0: there is no room for it, in the table or in the index.
//
//   Record, kLink            the type, and its link to the previous record
//   kListed                  how many are found by the list
//   kListsAll                readers rely on the list: it also has the records of the index
//   Newest(table)            the head
//   Is(record)               whether the record is the wanted one, among those with this parent and hash
//   Hash(), HashOf(record)   in the index
//   Index()                  which index
//   HasRoom(table)           for one more; once false, always false
//   Make(table)              in no list yet; null: no room
template <typename What>
Offset FindOrMakeChild(SharedTable* table, const What& what);

// The same if the list is not enough. `head`: its newest, to which `indexed` refers; `made`: the record, if already
// made.
template <typename What>
__attribute__((noinline)) Offset FindOrMakeIndexed(SharedTable* table, const What& what, Offset head, bool indexed,
                                                   typename What::Record* made) {
  using Record = typename What::Record;
  // It is absent, and will be: no need for an index. Otherwise each search in a full table would add all of them again.
  if (!indexed && made == nullptr && !what.HasRoom(table)) return 0;
  for (Offset at = indexed ? 0 : head; at != 0;) {
    const Record& record = *table->At<Record>(at);
    const auto is = [=](Offset other) { return other == at; };
    if (What::Index().FindOrAdd(table, what.HashOf(record), is, [=] { return at; }) == 0) return 0;
    at = record.*What::kLink;
  }
  return What::Index().FindOrAdd(
      table, what.Hash(), [&](Offset at) { return what.Is(*table->At<Record>(at)); },
      [&]() -> Offset {
        if (made == nullptr) made = what.Make(table);
        if (made == nullptr) return 0;
        What::SetIndexed(made);
        // Before it is in the index: a jump out in between leaves an unused record in the list.
        if constexpr (What::kListsAll) {
          Push(table, what.Newest(table), made, What::kLink);
        } else if (!indexed) {
          made->*What::kLink = head;
          what.Newest(table).compare_exchange_strong(head, table->OffsetOf(made), std::memory_order_release,
                                                     std::memory_order_relaxed);
        }
        return table->OffsetOf(made);
      });
}

template <typename What>
HOLDFAST_WARM Offset FindOrMakeChild(SharedTable* table, const What& what) {
  using Record = typename What::Record;
  std::atomic<Offset>& newest = what.Newest(table);
  Record* made = nullptr;
  // Acquire: makes the records' contents visible, and the index entries that led there.
  Offset head = newest.load(std::memory_order_acquire);
  for (;;) {
    if (head != 0 && What::IsIndexed(*table->At<Record>(head))) return FindOrMakeIndexed(table, what, head, true, made);
    int listed = 0;
    for (Offset at = head; at != 0; ++listed) {
      const Record& record = *table->At<Record>(at);
      if (what.Is(record)) return at;
      at = record.*What::kLink;
    }
    if (UNLIKELY(listed >= What::kListed)) return FindOrMakeIndexed(table, what, head, false, made);
    if (made == nullptr) made = what.Make(table);
    if (made == nullptr) return 0;
    made->*What::kLink = head;
    // Release: a thread that finds the offset finds the filled record.
    if (newest.compare_exchange_weak(head, table->OffsetOf(made), std::memory_order_release,
                                     std::memory_order_acquire)) {
      return table->OffsetOf(made);
    }
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_CHILDREN_H_
