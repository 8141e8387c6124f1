// The account of a process's memory as a person reads it, and as a program does.
#ifndef HOLDFAST_REPORT_MEMORY_ACCOUNT_TEXT_H_
#define HOLDFAST_REPORT_MEMORY_ACCOUNT_TEXT_H_

#include <string>
#include <vector>

#include "report/memory/account.h"

namespace holdfast {

// A line of the account: "live blocks", its bytes, and what there is to say of it ("glibc: 6 mappings, …"). They add up.
struct AccountLine {
  Estimate bytes;
  std::string what, more;
};
std::vector<AccountLine> AccountLines(const MemoryAccount& account);

// `process`: "redis-server (pid 4242)". Lines with a newline at their ends. `first`: an earlier account of the same process, beside
// which each line says how much it grew; null: none.
std::string AccountText(const MemoryAccount& account, const std::string& process, const MemoryAccount* first = nullptr);
// What the allocator's free memory is, and what would give it back; "" where there is little of it. `resident`: of the process.
std::string FreeMemoryText(const FreeMemory& free, uint64_t resident);
// `free`: null where it is not known.
std::string AccountJson(const MemoryAccount& account, int64_t pid, const FreeMemory* free = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_ACCOUNT_TEXT_H_
