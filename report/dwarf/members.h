// Which member of a global or static variable lies at an offset, by the variable's type:
//
//     struct Account { std::string name; std::mutex mutex; };
//     struct Server { Account accounts_[8]; } server;
//     server, 264   →   .accounts_[3].mutex
//
// Ends at what is itself a lock (std::mutex, pthread_cond_t, absl::Mutex, std::atomic …), and at names that are reserved for
// the implementation (_M_mutex, __data): the last name is one that somebody of the program typed. Bases and members without
// a name are passed.
//
// Not found are types that lie in another unit (LTO, dwz, type units) or in a split file. Reads what it is given as hostile, as the
// rest of this room: steps and sizes are bounded.
#ifndef HOLDFAST_REPORT_DWARF_MEMBERS_H_
#define HOLDFAST_REPORT_DWARF_MEMBERS_H_

#include <cstdint>
#include <span>
#include <string>

#include "report/base/time_budget.h"
#include "report/dwarf/unit.h"

namespace holdfast::dwarf {

struct WantedMember {
  uint64_t variable;  // its address in the file
  uint64_t offset;
  bool is_known = false;  // the type was found
  std::string path = {};  // ".accounts_[3].mutex"; "" for the variable itself
};

// One pass over all units, until all are known or the deadline has passed.
void FindMembers(Sections* file, std::span<WantedMember> wanted, const Deadline& deadline);

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_DWARF_MEMBERS_H_
