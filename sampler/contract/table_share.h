// How much memory all tables of one user may take, and how much of that the tables that wait for `collect`.
#ifndef HOLDFAST_SAMPLER_CONTRACT_TABLE_SHARE_H_
#define HOLDFAST_SAMPLER_CONTRACT_TABLE_SHARE_H_

#include <cstdint>

#include "sampler/arch/processor_facts.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// `space`: what is free, and what the tables already take. The share is a quarter; an eighth of that remains for
// processes that check at the same moment and all find the same room: 2 MiB of Docker's 64, 32 steps.
inline constexpr uint64_t ShareOfTables(uint64_t space) { return space / 4 - space / 32; }

// Tables of exited processes may take half of the share, because running programs come first. Each exporter removes the
// oldest beyond that, and so does a program that finds no room.
inline constexpr uint64_t ShareOfWaitingTables(uint64_t share) { return share / 2; }

// First pages of a table: the header, the first live samples and some hundred stacks. A process that lives for a moment
// needs no more, and pays for each page. With less room no table is made.
inline constexpr uint64_t kFirstTableBytes =
    (sizeof(TableHeader) + 24 * 1024 + kLargestPageBytes - 1) / kLargestPageBytes * kLargestPageBytes;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_TABLE_SHARE_H_
