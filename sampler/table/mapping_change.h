// One change of the program's mappings, after the kernel has made it.
#ifndef HOLDFAST_SAMPLER_TABLE_MAPPING_CHANGE_H_
#define HOLDFAST_SAMPLER_TABLE_MAPPING_CHANGE_H_

#include <cstdint>

#include "sampler/contract/records.h"

namespace holdfast {

struct MappingChange {
  // Unmapped: the parts in this range of mappings older than the ticket. 0, 0: nothing. Both equal: nothing either, but
  // the new mapping is a copy of the one at that address.
  uint64_t removed_start = 0, removed_end = 0;
  uint64_t older_than = 0;
  bool detached = false;  // the whole System V mapping that begins at removed_start, whatever its end
  // Mapped, after that, replacing whatever was there. 0, 0: nothing.
  uint64_t start = 0, end = 0;
  uint64_t ticket = 0;
  Offset stack = 0;                       // of the caller
  MappingKind kind = MappingKind::kNone;  // kNone: as what was removed or copied; anonymous if there was nothing
};

// Take it before a call that unmaps, and after one that maps: a mapping that another thread makes at the same address,
// once it is free, is then newer than the call that freed the address.
uint64_t TakeMappingTicket();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_MAPPING_CHANGE_H_
