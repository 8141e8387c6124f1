// How much of the memory where tables are kept all tables of one user may take, and how much of that those which wait for `collect`.
#ifndef HOLDFAST_SAMPLER_CONTRACT_TABLE_SHARE_H_
#define HOLDFAST_SAMPLER_CONTRACT_TABLE_SHARE_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// Of `space`: what is free there, and what the tables take already. A quarter; an eighth of that is left for those that look at the
// same moment and all find the same room: of Docker's 64 MiB, 2 MiB, 32 steps.
inline constexpr uint64_t ShareOfTables(uint64_t space) { return space / 4 - space / 32; }

// Tables of ended processes may take half of the share: running programs come first. Beyond that the oldest are removed, by each
// exporter, and by a program that finds no room.
inline constexpr uint64_t ShareOfWaitingTables(uint64_t share) { return share / 2; }

// A table's first pages: the header, and room for a first few hundred stacks. With less room none is made.
inline constexpr uint64_t kFirstTableBytes = (sizeof(TableHeader) + 4095) / 4096 * 4096 + 64 * 1024;

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_TABLE_SHARE_H_
