// Contents of a loaded module's ELF headers, read from its own mapping.
//
// Any thread; reads only mapped, readable memory of the module. Copies nothing: pointers lead into the module.
#ifndef HOLDFAST_SAMPLER_CAPTURE_MODULE_IMAGE_H_
#define HOLDFAST_SAMPLER_CAPTURE_MODULE_IMAGE_H_

#include <cstdint>

#include "sampler/capture/program_headers.h"
#include "sampler/contract/layout.h"
#include "sampler/unwind/address_range.h"

struct dl_find_object;

namespace holdfast {

struct ModuleImage {
  static constexpr int kMaxSegments = 8;  // executable ones; linkers write one, rarely two

  AddressRange range;  // the whole object, with holes between its segments
  uint64_t bias = 0;
  ModuleSegment segments[kMaxSegments];
  uint16_t segment_count = 0;
  const uint8_t* build_id = nullptr;
  uint16_t build_id_bytes = 0;
  AddressRange readable;  // the mapped segments around the unwind tables, without a hole
  // If that is not all: the segments around the entries, or around older ones, where the dynamic section is.
  AddressRange elsewhere;
};

// glibc's _dl_find_object describes a single segment of an object with holes; the image describes the whole object. A module
// without recognizable headers is described as one segment without a build id.
ModuleImage ReadModuleImage(const dl_find_object& found, HeaderSearch search);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_MODULE_IMAGE_H_
