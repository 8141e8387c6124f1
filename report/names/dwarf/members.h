// Finds the member of an object at an offset. For a global or static variable, by its type:
//
//     struct Account { std::string name; std::mutex mutex; };
//     struct Server { Account accounts_[8]; } server;
//     server, 264   →   .accounts_[3].mutex
//
// For a block on the heap only its size is known, and the functions related to it. The result is a class of that size
// that one of these functions names.
//
//     136 bytes, 40, bank::Server::Transfer(int)   →   bank::Server::accounts_mutex_
//
// The path ends at a lock type (std::mutex, pthread_cond_t, absl::Mutex, std::atomic …) and before names reserved for
// the implementation (_M_mutex, __data): the last name is one from the program's own source. Bases and unnamed members
// are omitted.
//
// Types in another unit (LTO, dwz, type units) or in a split file are not found. The input is untrusted, as everywhere
// in this room: steps and sizes are bounded.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_MEMBERS_H_
#define HOLDFAST_REPORT_NAMES_DWARF_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "report/base/time_budget.h"
#include "report/names/dwarf/unit.h"

namespace holdfast::dwarf {

struct WantedMember {
  uint64_t variable;  // its address in the file
  uint64_t offset;
  bool is_known = false;  // the type was found
  bool is_lock = false;   // a lock begins at the offset
  std::string path = {};  // ".accounts_[3].mutex"; "" for the variable itself
};

struct WantedClass {
  uint64_t size;                     // size of the block, bytes
  uint64_t offset;                   // offset in the block
  std::set<std::string> found = {};  // all candidates; the answer is known only if there is one
};

// One pass over all units, until all are found or the deadline has passed.
void FindMembers(Sections* file, std::span<WantedMember> wanted, const Deadline& deadline);

// Finds classes, with their qualified names, that have a lock at the offset. `is_named(i, class)`: whether a function
// related to the block wanted[i] names the class. Also tries the object after a shared pointer's counts.
using IsNamed = std::function<bool(size_t wanted, std::string_view class_name)>;
void FindClasses(Sections* file, std::span<WantedClass> wanted, const IsNamed& is_named, const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_MEMBERS_H_
