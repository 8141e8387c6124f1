// The code in a snapshot's stacks, and the profile's mappings for it.
#ifndef HOLDFAST_REPORT_BUILDER_CODE_SEGMENTS_H_
#define HOLDFAST_REPORT_BUILDER_CODE_SEGMENTS_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "report/base/holdfast_library.h"
#include "report/observe/process_state.h"
#include "report/observe/table/process_info.h"
#include "report/profile/profile.h"

namespace holdfast {

// The executable segments of all modules, by tagged address.
class Segments {
 public:
  explicit Segments(const ProcessState& state) {
    for (const ModuleInfo& module : state.waits.modules) {
      const uint64_t shift = uint64_t{module.tag} << kPcTagShift;
      const bool main =
          module.tag == 0 && module.start <= state.table->process.entry && state.table->process.entry < module.end;
      for (const auto& segment : module.segments) {
        if (segment.start >= segment.end || segment.end > kPcMask) continue;
        segments_.push_back({segment.start + shift, segment.end + shift, segment.file_offset, module.bias + shift,
                             &module, main, false});
      }
    }
    std::stable_sort(segments_.begin(), segments_.end(),
                     [](const ModuleRange& a, const ModuleRange& b) { return a.start < b.start; });
    // Two modules with one tag overlap: no name is better than a wrong one.
    for (size_t i = 1, widest = 0; i < segments_.size(); ++i) {
      if (segments_[i].start < segments_[widest].end) segments_[i].ambiguous = segments_[widest].ambiguous = true;
      if (segments_[i].end > segments_[widest].end) widest = i;
    }
  }

  // Returns the number of the segment that contains `address`, or Profile::kNone.
  uint32_t Find(uint64_t address) const {
    auto after = std::upper_bound(segments_.begin(), segments_.end(), address,
                                  [](uint64_t a, const ModuleRange& segment) { return a < segment.start; });
    if (after == segments_.begin()) return Profile::kNone;
    --after;
    if (address >= after->end || after->ambiguous) return Profile::kNone;
    return static_cast<uint32_t>(after - segments_.begin());
  }

  // Returns whether the address is in the profiling library: our operator new, which calls the real one, is on the
  // stack but is not one of the program's frames.
  bool IsOurs(uint64_t address) const {
    const uint32_t segment = Find(address);
    return segment != Profile::kNone && IsHoldfastLibrary(segments_[segment].module->path);
  }

  // Adds the mappings, and replaces segment numbers in locations by mapping indices.
  void AddMappings(Profile* profile) const {
    std::vector<bool> used(segments_.size());
    for (const Profile::Location& location : profile->locations) {
      if (location.mapping != Profile::kNone) used[location.mapping] = true;
    }
    std::vector<uint32_t> index(segments_.size(), Profile::kNone);
    for (const bool main : {true, false}) {
      for (size_t i = 0; i < segments_.size(); ++i) {
        const ModuleRange& segment = segments_[i];
        if (segment.main != main || (!used[i] && (segment.module->unloaded || segment.ambiguous))) continue;
        index[i] = static_cast<uint32_t>(profile->mappings.size());
        profile->mappings.push_back({.start = segment.start,
                                     .limit = segment.end,
                                     .offset = segment.offset,
                                     .file = profile->strings.Intern(WithoutDeleted(segment.module->path)),
                                     .build_id = profile->strings.Intern(segment.module->build_id),
                                     .bias = segment.bias,
                                     .has_bias = true});
      }
    }
    for (Profile::Location& location : profile->locations) {
      if (location.mapping != Profile::kNone) location.mapping = index[location.mapping];
    }
  }

 private:
  struct ModuleRange {
    uint64_t start, end, offset, bias;
    const ModuleInfo* module;
    bool main, ambiguous;
  };

  static std::string_view WithoutDeleted(std::string_view path) {
    path = WithoutDeletedMark(path);
    return path;
  }

  std::vector<ModuleRange> segments_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_CODE_SEGMENTS_H_
