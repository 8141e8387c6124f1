// Waits and allocates a little, with sums in its rows as after years of work: they are set after the first wait and
// allocation. For intervals of 1.
//     full_sums        years FUNCTION value: the value in the rows
#include <pthread.h>

#include <ctime>

#include "known.h"
#include "own_table.h"

using namespace holdfast;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

extern "C" KNOWN void waits_for_years() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += 1'000'000;
  if (t.tv_nsec >= 1'000'000'000) t = {t.tv_sec + 1, t.tv_nsec - 1'000'000'000};
  pthread_mutex_lock(&mutex);
  pthread_cond_timedwait(&condition, &mutex, &t);
  pthread_mutex_unlock(&mutex);
}
extern "C" KNOWN void* allocates_for_years() { return malloc(64); }

// At the very end of what the numbers can hold.
constexpr uint64_t kDelayNs = (UINT64_MAX >> kAmountFractionBits) - 1000,
                   kObjects = (UINT64_MAX >> kCountFractionBits) - 5;

static void MakeOld(TableHeader* table) {
  char* bytes = reinterpret_cast<char*>(table);
  for (const auto& head : table->stack_lists) {
    for (Offset at = head; at != 0;) {
      const auto* stack = reinterpret_cast<Stack*>(bytes + uint64_t{at} * kUnit);
      // Of the heap's rows only the newest, which is the one that goes on.
      bool heap_done = false;
      for (Offset row_at = stack->rows; row_at != 0;) {
        auto* row = reinterpret_cast<Row*>(bytes + uint64_t{row_at} * kUnit);
        const bool heap = row->profile == ProfileKind::kHeap;
        if (!heap && row->wait == WaitKind::kCondition) row->sums[kDelay] = kDelayNs << kAmountFractionBits;
        if (heap) row->sums[kAllocObjects] = heap_done ? 0 : kObjects << kCountFractionBits;
        heap_done |= heap;
        row_at = row->next;
      }
      at = stack->next;
    }
  }
}

int main() {
  TableHeader* table = nullptr;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 10; ++i) {
      waits_for_years();
      Use(allocates_for_years());
    }
    if (round == 0) table = OwnTable();
    if (round == 0 && table != nullptr) MakeOld(table);
  }
  printf("years waits_for_years %llu\n", static_cast<unsigned long long>(kDelayNs));
  printf("years allocates_for_years %llu\n", static_cast<unsigned long long>(kObjects));
  return 0;
}
