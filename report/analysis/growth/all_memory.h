// Finds the part of a process's resident memory that grows. `holdfast leaks` and the page print the answer.
//
//     resident 29MiB → 209MiB in 8.4s: own mappings +180MiB
//     resident 40MiB → 190MiB in 20s: free memory that glibc keeps +148MiB
//
// Each heap and map profile contains the kernel's total. The parts come from the account in heap profiles
// (report/observe/memory/account.h). Without accounts, the parts are the totals of the profiles, and the remainder. One thread
// at a time.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_ALL_MEMORY_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_ALL_MEMORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/analysis/growth/growth.h"
#include "report/analysis/growth/growth_answer.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/observe/memory/account.h"

namespace holdfast {

struct MemoryAnswer {
  struct Part {
    std::string what;
    int64_t before = 0, now = 0;
    double error = 0;            // half-width of the 95 % interval of the change
    bool is_unprofiled = false;  // in neither heap nor map profiles
    bool leaks = false;          // for an unprofiled part: its own series is a leak
    int64_t change() const { return now - before; }
  };
  int64_t before = 0, now = 0;      // resident bytes at the first and the last time with known parts
  double hours = 0;                 // between the two
  Grows grows = Grows::kUndecided;  // the resident total; kUndecided: no growth was seen
  std::vector<Part> parts = {};     // largest change first
  int64_t kept = 0;                 // bytes that the allocator has now beyond live blocks; 0: few, or unknown
  std::string allocator = {};       // "glibc"
  // Returns the part that explains the growth if neither the heap nor mappings do; null if there is none.
  const Part* Unexplained() const;
};

class AllMemory {
 public:
  // Adds a heap or map profile of the process. Files of one snapshot count once.
  void Add(const ProfileFile& file);
  // Returns nothing if the amounts are known at fewer than two times.
  std::optional<MemoryAnswer> Answer() const;
  // "unknown age, allocated before the attach: …"; "" if the process was not attached.
  std::string OlderBlocks() const;

 private:
  struct Amounts {
    int64_t resident = 0;
    std::optional<MemoryAccount> account;
    std::optional<int64_t> heap, mapped;  // in use, from the profiles
    double heap_variance = 0;
  };
  // In use in the heap and in mappings at one time. A profile that is missing then has its previous value.
  struct InProfiles {
    int64_t heap = 0, mapped = 0;
    double heap_variance = 0;
  };
  std::vector<InProfiles> Profiled() const;  // at each time
  // Returns the course of the resident bytes beyond those.
  Series OutsideProfiles() const;
  std::map<int64_t, Amounts> amounts_;  // by time
  bool is_attached_ = false;
};

// "growing: free memory that glibc keeps, 15MiB → 35MiB in 10s"; "" if the heap and mappings explain what grows.
std::string UnexplainedText(const MemoryAnswer& answer);

// Returns one line, and a second one if the allocator keeps much free memory.
std::vector<std::string> TextsOf(const MemoryAnswer& answer);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_ALL_MEMORY_H_
