// Reads a module's record in a table: the fixed part and the bytes after it. The record is untrusted.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_MODULE_RECORD_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_MODULE_RECORD_H_

#include <cstdint>
#include <cstring>

#include "absl/strings/str_format.h"
#include "report/observe/table/record_at.h"
#include "report/observe/table/snapshot.h"
#include "sampler/contract/module_flags.h"

namespace holdfast {

// Returns the size of the segments, build id and path after the record.
inline uint64_t BytesAfter(const Module& module) {
  return module.segments * sizeof(ModuleSegment) + module.build_id_bytes + module.path_bytes;
}

// `after`: the BytesAfter bytes after the record.
inline ModuleInfo ModuleInfoOf(const Module& module, const char* after) {
  ModuleInfo info{};
  const char* build_id = after + module.segments * sizeof(ModuleSegment);
  info.path.assign(build_id + module.build_id_bytes, module.path_bytes);
  for (int i = 0; i < module.build_id_bytes; ++i)
    absl::StrAppendFormat(&info.build_id, "%02x", static_cast<unsigned char>(build_id[i]));
  info.start = module.start;
  info.end = module.end;
  info.bias = module.bias;
  info.tag = module.tag;
  const uint32_t flags = CounterValue(module.unloaded);
  info.flags = flags;
  info.unloaded = (flags & kModuleUnloaded) != 0;
  info.frees_elsewhere = (flags & kModuleFreesElsewhere) != 0;
  for (int i = 0; i < module.segments; ++i) {
    ModuleSegment segment;
    memcpy(&segment, after + i * sizeof segment, sizeof segment);
    if (segment.start < segment.end) info.segments.push_back({segment.start, segment.end, segment.file_offset});
  }
  return info;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_MODULE_RECORD_H_
