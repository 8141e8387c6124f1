#include "report/fleet/serve/profile_text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <vector>

#include "fmt/format.h"
#include "report/builder/file_kinds.h"

namespace holdfast {
namespace {

void AddStack(const Profile& profile, const Profile::Sample& sample, std::string* text) {
  const auto out = std::back_inserter(*text);
  for (const uint32_t frame : profile.FramesOf(sample))
    fmt::format_to(out, " {:#x}", profile.locations[frame].address + 1);
  *text += '\n';
  for (const uint32_t frame : profile.FramesOf(sample)) {
    const Profile::Location& location = profile.locations[frame];
    for (const Profile::Line& line : profile.LinesOf(location)) {
      const Profile::Function& function = profile.functions[line.function];
      fmt::format_to(out, "#\t{:#x}\t{}", location.address + 1, profile.strings[function.name]);
      if (function.filename != 0) fmt::format_to(out, "\t{}:{}", profile.strings[function.filename], line.line);
      *text += '\n';
    }
  }
  *text += '\n';
}

}  // namespace

std::string ProfileText(const Profile& profile, int file) {
  const auto kind = static_cast<ProfileKind>(file);
  const bool resident = file == kResidentFile;
  const bool heap = resident || kind == ProfileKind::kHeap || kind == ProfileKind::kMap;
  // Columns: current objects and bytes, then all objects and bytes.
  const std::array<size_t, 4> of = resident ? std::array<size_t, 4>{0, 2, 0, 1} : std::array<size_t, 4>{2, 3, 0, 1};
  const bool counts = kind == ProfileKind::kThreads || kind == ProfileKind::kExceptions;
  const bool cpu = kind == ProfileKind::kCpu;
  std::vector<size_t> order(profile.samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Sort by bytes in use or resident, delay, or alive.
  const size_t largest_by = resident ? of[1] : profile.sample_types.size() - 1;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return profile.ValuesOf(a)[largest_by] > profile.ValuesOf(b)[largest_by];
  });
  std::string text;
  const auto out = std::back_inserter(text);
  if (heap) {
    const int64_t in_use = profile.Total(of[1]);
    // If the sums were equal, pprof would drop the columns of what was allocated.
    const int64_t allocated = profile.Total(of[3]) + (profile.Total(of[3]) == in_use ? 1 : 0);
    // pprof recognizes only this name for memory. The comments say which kind it is.
    fmt::format_to(out, "heap profile: {}: {} [{}: {}] @ heap/2\n", profile.Total(of[0]), in_use, profile.Total(of[2]),
                   allocated);
  } else if (counts) {  // like Go's threadcreate
    fmt::format_to(out, "{} profile: total {}\n", kFileKinds[file].name, profile.Total(largest_by));
  } else if (file == kWallFile) {
    fmt::format_to(out, "wall profile: {} nanoseconds\n", profile.Total(0));
  } else if (cpu) {
    fmt::format_to(out, "cpu profile: {} samples, {} nanoseconds\n", profile.Total(0), profile.Total(1));
  } else {
    // The names that Go uses and pprof recognizes.
    fmt::format_to(out, "--- {}:\ncycles/second=1000000000\n", kind == ProfileKind::kMutex ? "mutex" : "contention");
    if (kind == ProfileKind::kMutex) text += "sampling period=1\n";
  }
  for (const size_t i : order) {
    const auto values = profile.ValuesOf(i);
    if (heap) {
      fmt::format_to(out, "{}: {} [{}: {}] @", values[of[0]], values[of[1]], values[of[2]], values[of[3]]);
    } else if (counts || values.size() == 1) {
      fmt::format_to(out, "{} @", values[largest_by]);
    } else {
      fmt::format_to(out, "{} {} @", values[1], values[0]);
    }
    AddStack(profile, profile.samples[i], &text);
  }
  if (heap) {
    text += "\n# holdfast\n";
    for (const StringId comment : profile.comments) fmt::format_to(out, "# {}\n", profile.strings[comment]);
  }
  return text;
}

}  // namespace holdfast
