// Formats the account of a process's memory as text and as JSON.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_TEXT_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/observe/memory/account.h"

namespace holdfast {

// A line of the account: its bytes, its name ("live blocks"), and details ("glibc: 6 mappings, …"). The lines add up.
struct AccountLine {
  Estimate bytes;
  std::string what, more;
};
std::vector<AccountLine> AccountLines(const MemoryAccount& account);

// `process`: "redis-server (pid 4242)". Returns lines that end with newlines. `first`: an earlier account of the same
// process; each line then also shows its growth. Null: none.
std::string AccountText(const MemoryAccount& account, const std::string& process, const MemoryAccount* first = nullptr);
// The name of blocks from before `holdfast attach`, in all views.
inline constexpr std::string_view kOlderBlocks = "unknown age, allocated before the attach";
// Says how much memory such blocks have, if that is known. `account`: of an attached process; null if there is none.
std::string OlderBlocksText(const MemoryAccount* account);
// Describes the allocator's free memory and how to return it to the system; "" if there is little. `resident`: of the
// process.
std::string FreeMemoryText(const FreeMemory& free, uint64_t resident);
// `free`: null if unknown.
std::string AccountJson(const MemoryAccount& account, int64_t pid, const FreeMemory* free = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_TEXT_H_
