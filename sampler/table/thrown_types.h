// The types of exceptions in a table: ThrownType in sampler/contract/records.h. Any thread, signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_TABLE_THROWN_TYPES_H_
#define HOLDFAST_SAMPLER_TABLE_THROWN_TYPES_H_

#include <cstdint>

#include "sampler/table/shared_table.h"

namespace holdfast {

// Returns the number of a type by its mangled name, which is copied: its module may go. Null: 0. No room: kTypeOverflow
// (counted).
uint16_t NumberOfType(SharedTable* table, const char* name);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_THROWN_TYPES_H_
