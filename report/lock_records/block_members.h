// Which member of which class a lock in a block on the heap is: `lock N member: …` comments (report/lock_records/lock_comments.h).
//
//   lock 4 block: 136 bytes, 40 into it, stack 2
//   lock 4 member: bank::Server::accounts_mutex_ (server)
//
// Debug information has no types of allocations. So it is a guess that has to fit in three ways: the class has the block's size, a lock
// lies there, and a function that allocated the block, held the lock or waited for it names the class. Of several classes none is said.
#ifndef HOLDFAST_REPORT_LOCK_RECORDS_BLOCK_MEMBERS_H_
#define HOLDFAST_REPORT_LOCK_RECORDS_BLOCK_MEMBERS_H_

#include <functional>
#include <memory>
#include <string_view>

#include "report/base/time_budget.h"
#include "report/dwarf/unit.h"
#include "report/pprof/profile.h"

namespace holdfast {

// The debug information of a mapping's file; null where there is none.
using SectionsOfMapping = std::function<std::shared_ptr<dwarf::Sections>(const Profile::Mapping&)>;

// Adds the comments for locks that have none yet. The functions of the profile have to be named.
void NameMembersOfBlocks(Profile* profile, const SectionsOfMapping& open, const Deadline& deadline);

// Whether a function's text has the class's name, as a whole: "bank::Server" is in "bank::Server::Transfer(int)" and
// "std::make_unique<bank::Server>()", not in "bank::Servers::Count()" or "other::bank::Server::Run()". For tests, too.
bool NamesClass(std::string_view function, std::string_view class_name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LOCK_RECORDS_BLOCK_MEMBERS_H_
