// One change of what the program has mapped, after the kernel has made it.
#ifndef HOLDFAST_SAMPLER_RANGES_MAPPING_CHANGE_H_
#define HOLDFAST_SAMPLER_RANGES_MAPPING_CHANGE_H_

#include <cstdint>

#include "sampler/contract/records.h"

namespace holdfast {

struct MappingChange {
  // Unmapped: what lies between them of mappings that are older than the ticket. 0, 0: nothing. Both the same: nothing either, but what
  // is mapped is a copy of what lies there.
  uint64_t removed_start = 0, removed_end = 0;
  uint64_t older_than = 0;
  bool detached = false;  // the whole System V mapping that begins at removed_start, whatever its end
  // Mapped, after that; whatever was there is gone. 0, 0: nothing.
  uint64_t start = 0, end = 0;
  uint64_t ticket = 0;
  Offset stack = 0;                       // of who mapped it
  MappingKind kind = MappingKind::kNone;  // kNone: as what was removed or copied, and anonymous if nothing was
};

// Taken before a call that unmaps, and after one that maps: what another thread maps at the same address, once it is free, is
// younger than whoever made it so.
uint64_t TakeMappingTicket();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RANGES_MAPPING_CHANGE_H_
