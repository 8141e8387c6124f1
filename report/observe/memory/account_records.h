// The account as a record of a heap profile (message Account of proto/holdfast.proto), so that it outlives the process.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_RECORDS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_RECORDS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "report/observe/memory/account.h"
#include "report/profile/profile.h"
#include "report/profile/typed_records.h"

namespace holdfast {

inline constexpr size_t kMaxAccountFiles = 8;

record::Account RecordOf(const MemoryAccount& account);
// Nothing: the profile has none.
std::optional<MemoryAccount> AccountOf(const Profile& profile);
// How much is in use from before `holdfast attach` (OlderBlocksText); "" if this is no heap of a process that was attached.
std::string OlderBlocksIn(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_RECORDS_H_
