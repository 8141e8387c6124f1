// Stores the account as comments in a heap profile, so that it outlives the process:
//
//     memory: total 252706816 allocator 218652672 files 8703180 … live 94969856 live_variance 4.8e13 … name glibc
//     memory file: 5638144 libpython3.11.so.1.0         the largest files
//
// Numbers are bytes or counts. Readers ignore unknown words. Pure functions.
#ifndef HOLDFAST_REPORT_MEMORY_ACCOUNT_RECORDS_H_
#define HOLDFAST_REPORT_MEMORY_ACCOUNT_RECORDS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/memory/account.h"

namespace holdfast {

inline constexpr size_t kMostAccountFiles = 8;

std::vector<std::string> AccountRecords(const MemoryAccount& account);
// Reads the account from a profile's comments, and ignores other comments. Nothing: there is none.
std::optional<MemoryAccount> AccountOfRecords(const std::vector<std::string_view>& comments);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_ACCOUNT_RECORDS_H_
