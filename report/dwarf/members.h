// Which member of an object lies at an offset. Of a global or static variable, by its type:
//
//     struct Account { std::string name; std::mutex mutex; };
//     struct Server { Account accounts_[8]; } server;
//     server, 264   →   .accounts_[3].mutex
//
// Of a block on the heap only the size is known, and which functions had to do with it: a class of that size that one of them names.
//
//     136 bytes, 40, bank::Server::Transfer(int)   →   bank::Server::accounts_mutex_
//
// Ends at what is itself a lock (std::mutex, pthread_cond_t, absl::Mutex, std::atomic …), and at names that are reserved for
// the implementation (_M_mutex, __data): the last name is one that somebody of the program typed. Bases and members without
// a name are passed.
//
// Not found are types that lie in another unit (LTO, dwz, type units) or in a split file. Reads what it is given as hostile, as the
// rest of this room: steps and sizes are bounded.
#ifndef HOLDFAST_REPORT_DWARF_MEMBERS_H_
#define HOLDFAST_REPORT_DWARF_MEMBERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "report/base/time_budget.h"
#include "report/dwarf/unit.h"

namespace holdfast::dwarf {

struct WantedMember {
  uint64_t variable;  // its address in the file
  uint64_t offset;
  bool is_known = false;  // the type was found
  bool is_lock = false;   // a lock begins there
  std::string path = {};  // ".accounts_[3].mutex"; "" for the variable itself
};

struct WantedClass {
  uint64_t size;                     // of the block
  uint64_t offset;                   // into it
  std::set<std::string> found = {};  // all that may be meant: several are no answer
};

// One pass over all units, until all are known or the deadline has passed.
void FindMembers(Sections* file, std::span<WantedMember> wanted, const Deadline& deadline);

// The same over classes, in namespaces and classes as written, that have a lock at the offset. `is_named`: whether a function that had
// to do with the block of that place in `wanted` names the class. Looks for those that a shared pointer's counts precede, too.
using IsNamed = std::function<bool(size_t wanted, std::string_view class_name)>;
void FindClasses(Sections* file, std::span<WantedClass> wanted, const IsNamed& is_named, const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_MEMBERS_H_
