// What the ELF headers of a loaded module say, read from its own mapping.
//
// Any thread; reads only mapped, readable memory of the module. Nothing is copied: pointers go into the module.
#ifndef HOLDFAST_SAMPLER_STACKS_MODULE_IMAGE_H_
#define HOLDFAST_SAMPLER_STACKS_MODULE_IMAGE_H_

#include <cstdint>

#include "sampler/contract/layout.h"
#include "sampler/unwind/address_range.h"

struct dl_find_object;

namespace holdfast {

struct ModuleImage {
  static constexpr int kMostSegments = 8;  // executable ones; linkers write one, rarely two

  AddressRange range;  // the whole object, holes between its segments included
  uint64_t bias = 0;
  ModuleSegment segments[kMostSegments];
  uint16_t segment_count = 0;
  const uint8_t* build_id = nullptr;
  uint16_t build_id_bytes = 0;
  AddressRange readable;  // the mapped segments around the unwind tables, without a hole
};

// _dl_find_object answers with one segment of an object that has holes; the image is of the whole object all the same.
// A module whose headers are not found is described as one segment.
ModuleImage ReadModuleImage(const dl_find_object& found);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_MODULE_IMAGE_H_
