// Finds the class and the member that a lock in a heap block belongs to, for Lock.member of the records.
//
//   block_bytes 136, block_offset 40  →  member "bank::Server::accounts_mutex_ (server)"
//
// Debug information does not record the types of allocations. The result is therefore a guess that must fit in three
// ways: the class has the block's size, it has a lock at that offset, and its name occurs in a function that allocated
// the block, held the lock or waited for it. If several classes fit, the member stays unknown.
#ifndef HOLDFAST_REPORT_BUILDER_BLOCK_MEMBERS_H_
#define HOLDFAST_REPORT_BUILDER_BLOCK_MEMBERS_H_

#include <functional>
#include <memory>
#include <string_view>

#include "report/base/time_budget.h"
#include "report/names/dwarf/unit.h"
#include "report/profile/profile.h"

namespace holdfast {

// Returns the debug information of a mapping's file, or null if there is none.
using SectionsOfMapping = std::function<std::shared_ptr<dwarf::Sections>(const Profile::Mapping&)>;

// Names the members of locks that have none yet. The functions of the profile must have names.
void NameMembersOfBlocks(Profile* profile, const SectionsOfMapping& open, const Deadline& deadline);

// Whether a function's text contains the class's name as a whole: "bank::Server" is in "bank::Server::Transfer(int)"
// and "std::make_unique<bank::Server>()", not in "bank::Servers::Count()" or "other::bank::Server::Run()". Exported for
// tests.
bool NamesClass(std::string_view function, std::string_view class_name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_BLOCK_MEMBERS_H_
