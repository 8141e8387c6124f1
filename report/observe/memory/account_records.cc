#include "report/observe/memory/account_records.h"

#include <algorithm>

#include "report/base/printable.h"
#include "report/observe/memory/account_text.h"
#include "report/profile/unrecorded_blocks.h"

namespace holdfast {
namespace {

// Copies each field of `from` to its place in `to`; only one of the two is written.
template <typename Account, typename Record>
void CopyCounts(Account& account, Record& record, auto copy) {
  copy(account.total, record.total);
  copy(account.allocator, record.allocator);
  copy(account.files, record.files);
  copy(account.shared, record.shared);
  copy(account.stacks, record.stacks);
  copy(account.own, record.own);
  copy(account.mapped, record.mapped);
  copy(account.rest, record.rest);
  copy(account.swapped, record.swapped);
  copy(account.huge, record.huge);
  copy(account.hugetlb, record.hugetlb);
  copy(account.heaps, record.heaps);
  copy(account.arenas, record.arenas);
  copy(account.threads, record.threads);
  copy(account.sampled, record.sampled);
  copy(account.has_pages, record.has_pages);
  copy(account.allocator_name, record.allocator_name);
  copy(account.rest_variance, record.rest_variance);
}

record::Estimate RecordOfEstimate(const Estimate& estimate) { return {estimate.value, estimate.variance}; }

// A file may contain any number. 0 for what no writer writes.
double InRange(double value) {
  constexpr double kMax = 1e40;
  return value >= 0 && value < kMax ? value : 0;
}

Estimate EstimateOf(const std::optional<record::Estimate>& record) {
  if (!record.has_value()) return {};
  return {InRange(record->value), InRange(record->variance)};
}

}  // namespace

record::Account RecordOf(const MemoryAccount& account) {
  record::Account record;
  CopyCounts(account, record, [](const auto& from, auto& to) { to = from; });
  record.in_use = RecordOfEstimate(account.in_use);
  record.in_use_swapped = RecordOfEstimate(account.in_use_swapped);
  if (account.has_pages) {
    record.live = RecordOfEstimate(account.live);
    record.beyond_variance = account.beyond_variance;
    record.rounding = RecordOfEstimate(account.rounding);
    record.in_use_resident = record::Estimate{.value = account.in_use_resident.value};
  }
  for (size_t i = 0; i < std::min(account.by_file.size(), kMaxAccountFiles); ++i)
    record.file.push_back({Printable(account.by_file[i].first), account.by_file[i].second});
  return record;
}

std::optional<MemoryAccount> AccountOf(const Profile& profile) {
  if (!profile.records().account.has_value()) return std::nullopt;
  const record::Account& record = *profile.records().account;
  MemoryAccount account;
  CopyCounts(account, record, [](auto& to, const auto& from) { to = from; });
  account.live = EstimateOf(record.live);
  account.beyond_variance = InRange(record.beyond_variance);
  account.rest_variance = InRange(record.rest_variance);
  account.rounding = EstimateOf(record.rounding);
  account.in_use = EstimateOf(record.in_use);
  account.in_use_resident = EstimateOf(record.in_use_resident);
  account.in_use_swapped = EstimateOf(record.in_use_swapped);
  for (const record::AccountFile& file : record.file) account.by_file.emplace_back(file.name, file.bytes);
  account.lacks_blocks = LacksBlocks(profile);
  account.is_attached = WasAttached(profile);
  return account;
}

std::string OlderBlocksIn(const Profile& profile) {
  if (!WasAttached(profile) || profile.process().kind != "heap") return "";
  const std::optional<MemoryAccount> account = AccountOf(profile);
  return OlderBlocksText(account.has_value() ? &*account : nullptr);
}

}  // namespace holdfast
