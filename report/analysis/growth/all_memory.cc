#include "report/analysis/growth/all_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/libc_names.h"
#include "report/base/value_units.h"
#include "report/observe/memory/account_records.h"
#include "report/observe/memory/account_text.h"
#include "report/profile/unrecorded_blocks.h"

namespace holdfast {
namespace {

constexpr double kResidentHour = 3600e9;  // nanoseconds
constexpr int64_t kMinRise = 4 << 20;     // a smaller rise does not count as growth of a process: a guess
constexpr double kPartOfResident = 0.1, kPartOfRise = 0.1, kHalfOfRise = 0.5;
constexpr int64_t kMinKept = 8 << 20, kMinShown = 1 << 20;
constexpr double kMuchKept = 0.25;  // of the resident memory
constexpr size_t kPartsShown = 3;

int64_t Bytes(double value) { return std::llround(std::clamp(value, -9e18, 9e18)); }

// Live blocks, and what the allocator keeps beyond them and their rounding.
double LiveOf(const MemoryAccount& account) { return account.live.value; }
double KeptOf(const MemoryAccount& account) {
  return std::max(0.0, static_cast<double>(account.allocator) - account.live.value - account.rounding.value);
}

std::string AllocatorOf(const MemoryAccount& account) {
  return account.allocator_name.empty() ? "the allocator" : account.allocator_name;
}

std::string BeyondText(const MemoryAccount& before, const MemoryAccount& now) {
  const std::string allocator = AllocatorOf(now);
  return before.may_hold_blocks() || now.may_hold_blocks()
             ? fmt::format("free memory of {}, or blocks that are not recorded", allocator)
             : fmt::format("free memory that {} keeps", allocator);
}

std::vector<MemoryAnswer::Part> GrownParts(const MemoryAccount& before, const MemoryAccount& now) {
  const auto of = [](double variance_before, double variance_now) {
    return 1.96 * std::sqrt(variance_before + variance_now);
  };
  std::vector<MemoryAnswer::Part> parts = {
      {"live blocks", Bytes(LiveOf(before)), Bytes(LiveOf(now)), of(before.live.variance, now.live.variance), false},
      {BeyondText(before, now), Bytes(KeptOf(before)), Bytes(KeptOf(now)),
       of(before.beyond_variance, now.beyond_variance), true}};
  const auto add = [&](const char* what, uint64_t MemoryAccount::*bytes, bool is_unprofiled) {
    parts.push_back({what, static_cast<int64_t>(before.*bytes), static_cast<int64_t>(now.*bytes), 0, is_unprofiled});
  };
  add("own mappings", &MemoryAccount::mapped, false);
  add("shared memory", &MemoryAccount::shared, true);
  add("stacks", &MemoryAccount::stacks, false);
  add("files", &MemoryAccount::files, false);
  add("Holdfast's own", &MemoryAccount::own, false);
  add("memory that nobody was seen to map", &MemoryAccount::rest, true);
  return parts;
}

// A C library's own mappings contain the blocks of the heap profile.
int64_t MappedByTheProgram(const Profile& profile, size_t in_use) {
  int64_t bytes = profile.Total(in_use);
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    for (const uint32_t frame : profile.FramesOf(profile.samples[i])) {
      const auto lines = profile.LinesOf(profile.locations[frame]);
      if (!lines.empty() && IsLibcHeap(profile.strings[profile.functions[lines[0].function].name]))
        bytes -= profile.ValuesOf(i)[in_use];
    }
  }
  return bytes;
}

std::string SignedBytes(int64_t bytes) { return (bytes >= 0 ? "+" : "") + FormatSize(bytes); }

}  // namespace

const MemoryAnswer::Part* MemoryAnswer::Unexplained() const {
  if (!IsLeak(grows)) return nullptr;
  for (const Part& part : parts) {
    const auto change = static_cast<double>(part.change());
    if (part.leaks && change - part.error >= kHalfOfRise * static_cast<double>(now - before)) return &part;
  }
  return nullptr;
}

void AllMemory::Add(const ProfileFile& file) {
  const Profile& profile = *file.profile;
  const std::optional<int64_t> resident = ResidentBytesOf(profile);
  if (!resident.has_value() || !file.cumulative() || file.moment == ProfileMoment::kAfterHandlers) return;
  Amounts& amounts = amounts_[file.steady_nanos];
  amounts.resident = std::max(amounts.resident, *resident);
  const auto in_use = FindMetric(profile, "inuse_space");
  if (!in_use.ok()) return;
  if (file.kind == "map") amounts.mapped = MappedByTheProgram(profile, *in_use);
  if (file.kind != "heap") return;
  is_attached_ = WasAttached(profile);
  amounts.heap = profile.Total(*in_use);
  amounts.heap_variance = std::pow(HalfWidth(profile, *in_use).value_or(0) / 1.96, 2);
  // The account describes the time of writing: when a process ends, its exit handlers have freed memory since the
  // snapshot.
  if (file.moment == ProfileMoment::kNone) amounts.account = AccountOf(profile);
  // Without the page table, as of a process that is ending, nobody knows what live blocks occupy.
  if (amounts.account.has_value() && !amounts.account->has_pages) amounts.account.reset();
}

std::string AllMemory::OlderBlocks() const {
  if (!is_attached_) return "";
  const auto last = std::find_if(amounts_.rbegin(), amounts_.rend(),
                                 [](const auto& entry) { return entry.second.account.has_value(); });
  return fmt::format("{}: {}", kOlderBlocks,
                     OlderBlocksText(last != amounts_.rend() ? &*last->second.account : nullptr));
}

std::vector<AllMemory::InProfiles> AllMemory::Profiled() const {
  std::vector<InProfiles> profiled;
  InProfiles now;
  for (const auto& [time, amounts] : amounts_) {
    if (amounts.heap.has_value()) now.heap = *amounts.heap, now.heap_variance = amounts.heap_variance;
    if (amounts.mapped.has_value()) now.mapped = *amounts.mapped;
    profiled.push_back(now);
  }
  return profiled;
}

Series AllMemory::OutsideProfiles() const {
  const std::vector<InProfiles> profiled = Profiled();
  Series series;
  for (const auto& [time, amounts] : amounts_) {
    const InProfiles& in = profiled[series.times.size()];
    series.times.push_back(static_cast<double>(time - amounts_.begin()->first) / kResidentHour);
    series.values.push_back(static_cast<double>(amounts.resident) - static_cast<double>(in.heap) -
                            static_cast<double>(in.mapped));
    series.variances.push_back(in.heap_variance);
  }
  return series;
}

std::optional<MemoryAnswer> AllMemory::Answer() const {
  if (amounts_.size() < 2) return std::nullopt;
  MemoryAnswer answer{.grows = Grows::kUndecided};
  Series series;
  const int64_t begin = amounts_.begin()->first;
  const auto hours_at = [&](int64_t time) { return static_cast<double>(time - begin) / kResidentHour; };
  for (const auto& [time, amounts] : amounts_) {
    series.times.push_back(hours_at(time));
    series.values.push_back(static_cast<double>(amounts.resident));
    series.variances.push_back(0);
  }
  const Growth growth = FitGrowth(series);
  const auto has_account = [](const auto& entry) { return entry.second.account.has_value(); };
  const auto first = std::find_if(amounts_.begin(), amounts_.end(), has_account);
  const auto last = std::find_if(amounts_.rbegin(), amounts_.rend(), has_account);
  const auto from = amounts_.begin(), to = std::prev(amounts_.end());
  answer.before = from->second.resident;
  answer.now = to->second.resident;
  answer.hours = hours_at(to->first);
  const auto is_most = [&](int64_t part) {
    return std::abs(static_cast<double>(part)) >=
           kHalfOfRise * std::abs(static_cast<double>(answer.now - answer.before));
  };
  // A process has no account yet when it is young.
  const bool by_account =
      first != amounts_.end() && last->first != first->first && is_most(last->second.resident - first->second.resident);
  const int64_t rise = answer.now - answer.before;
  if (by_account) {
    // The parts are known at these times only.
    answer.before = first->second.resident;
    answer.now = last->second.resident;
    answer.hours = hours_at(last->first) - hours_at(first->first);
    answer.parts = GrownParts(*first->second.account, *last->second.account);
    for (size_t i = 0; i < answer.parts.size(); ++i) {
      if (!answer.parts[i].is_unprofiled) continue;
      Series course;
      for (const auto& [time, amounts] : amounts_) {
        if (!amounts.account.has_value()) continue;
        const MemoryAnswer::Part part = GrownParts(*amounts.account, *amounts.account)[i];
        course.times.push_back(hours_at(time));
        course.values.push_back(static_cast<double>(part.now));
        course.variances.push_back(std::pow(part.error / 1.96, 2) / 2);  // split between two equally uncertain values
      }
      // An account may be too expensive for each snapshot; the totals are always there.
      if (course.times.size() < kMinSnapshots) course = OutsideProfiles();
      answer.parts[i].leaks = course.times.size() >= kMinSnapshots && IsLeak(FitGrowth(course).growth_class);
    }
  } else {
    const std::vector<InProfiles> profiled = Profiled();
    const InProfiles &before = profiled.front(), &now = profiled.back();
    MemoryAnswer::Part heap{"heap", before.heap, now.heap, 0, false},
        mapped{"own mappings", before.mapped, now.mapped, 0, false};
    heap.error = 1.96 * std::sqrt(before.heap_variance + now.heap_variance);
    MemoryAnswer::Part rest{"in no profile", answer.before - heap.before - mapped.before,
                            answer.now - heap.now - mapped.now, heap.error, false};
    answer.parts = {std::move(heap), std::move(mapped), std::move(rest)};
  }
  std::stable_sort(answer.parts.begin(), answer.parts.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.change()) > std::abs(b.change()); });
  // Blocks that are not recorded are no free memory.
  if (last != amounts_.rend() && !last->second.account->may_hold_blocks()) {
    const MemoryAccount& account = *last->second.account;
    const double kept = KeptOf(account);
    answer.allocator = AllocatorOf(account);
    if (kept - 1.96 * std::sqrt(account.beyond_variance) >=
        std::max<double>(kMinKept, kMuchKept * static_cast<double>(account.total)))
      answer.kept = Bytes(kept);
  }
  if (IsLeak(growth.growth_class) && rise >= kMinRise &&
      static_cast<double>(rise) >= kPartOfResident * static_cast<double>(to->second.resident))
    answer.grows = growth.growth_class == GrowthClass::kGrowing ? Grows::kYes : Grows::kSteps;
  return answer;
}

std::string UnexplainedText(const MemoryAnswer& answer) {
  const MemoryAnswer::Part* part = answer.Unexplained();
  if (part == nullptr) return "";
  return fmt::format("{}: {}, {} → {} in {}", GrowsName(answer.grows), part->what, FormatSize(part->before),
                     FormatSize(part->now), HoursText(answer.hours));
}

std::vector<std::string> TextsOf(const MemoryAnswer& answer) {
  const int64_t change = answer.now - answer.before;
  std::string text =
      fmt::format("resident {} → {} in {}", FormatSize(answer.before), FormatSize(answer.now), HoursText(answer.hours));
  std::vector<std::string> named;
  for (const MemoryAnswer::Part& part : answer.parts) {
    const auto size = static_cast<double>(std::abs(part.change()));
    if (std::abs(change) < kMinShown || size < kPartOfRise * static_cast<double>(std::abs(change))) continue;
    if (size <= part.error || named.size() == kPartsShown) continue;
    named.push_back(fmt::format("{} {}", part.what, SignedBytes(part.change())));
  }
  if (!named.empty()) text += fmt::format(": {}", fmt::join(named, ", "));
  std::vector<std::string> texts = {std::move(text)};
  if (answer.kept > 0)
    texts.push_back(fmt::format(
        "{} of it is free memory that {} keeps: fragmentation, or arenas that return nothing (see holdfast memory PID)",
        FormatSize(answer.kept), answer.allocator));
  return texts;
}

}  // namespace holdfast
