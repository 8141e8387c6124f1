// Records that belong to one other: the calls and the stacks of a node, the rows of a stack. Few are found by their list, near to
// what leads to them; where there are more, all are found by an index.
//
//     parent ──newest──► c ──► b ──► a                   up to kListed: who looks for one looks at them
//     parent ──newest──► e (indexed) ──► d ──► c …       more: a … d were added to the index before e became the head, and the index
//                                                        alone says what is there
//
// Each is there once, also where threads add it at the same moment: a list has changed at its head since, and is looked at again; of an
// index see hash_index.h. Any thread, lock-free, also in signal handlers. Who jumps out of one leaves a record that nobody uses, or
// one that is whole.
#ifndef HOLDFAST_SAMPLER_TABLES_CHILDREN_H_
#define HOLDFAST_SAMPLER_TABLES_CHILDREN_H_

#include "sampler/tables/hash_index.h"
#include "sampler/tables/record_lists.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// The record that `what` describes, found or made. 0: there is no room for it, in the table or in the index.
//
//   Record, kLink            what it is, and its link to the one before
//   kListed                  how many are found by the list
//   kListsAll                readers rely on the list: it has also what the index finds
//   Newest(table)            the head
//   Is(record)               whether it is the one, among those of this parent and of this hash
//   Hash(), HashOf(record)   in the index
//   Index()                  which
//   HasRoom(table)           for one more; once it has not, it never has
//   Make(table)              in no list yet; null: no room
template <typename What>
Offset FindOrMakeChild(SharedTable* table, const What& what);

// The same where the list does not say. `head`: its newest, which `indexed` says of; `made`: the record, if it was made already.
template <typename What>
__attribute__((noinline)) Offset FindOrMakeIndexed(SharedTable* table, const What& what, Offset head, bool indexed,
                                                   typename What::Record* made) {
  using Record = typename What::Record;
  // It is not there, and will not be: no need for an index. Else each look-up in a full table would add all of them again.
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
        // Before it is in the index: who jumps out in between leaves one that is in the list for nothing.
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
  // Acquire: so that we find the records filled, and in the index what led there.
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
    // Release: who finds the offset finds the filled record.
    if (newest.compare_exchange_weak(head, table->OffsetOf(made), std::memory_order_release,
                                     std::memory_order_acquire)) {
      return table->OffsetOf(made);
    }
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_CHILDREN_H_
