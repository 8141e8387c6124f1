#include "report/builder/wall_locks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/analysis/locks/lock_list.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

struct NamesOfLock {
  std::string lock, holder;  // "": unknown
};
using NamesByAddress = std::map<std::string, NamesOfLock, std::less<>>;

void SetNames(const NamesByAddress& names, Profile* profile) {
  const StringId address_key = profile->strings.Intern("lock_address"), lock_key = profile->strings.Intern("lock"),
                 holder_key = profile->strings.Intern("holder");
  std::vector<Profile::Label> labels;
  for (size_t i = 0; i < profile->samples.size(); ++i) {
    const auto now = profile->LabelsOf(profile->samples[i]);
    labels.assign(now.begin(), now.end());
    const auto address =
        std::ranges::find_if(labels, [&](const Profile::Label& label) { return label.key == address_key; });
    if (address == labels.end()) continue;
    const auto known = names.find(profile->strings[address->text]);
    if (known == names.end()) continue;
    std::erase_if(labels, [&](const auto& label) { return label.key == lock_key || label.key == holder_key; });
    labels.push_back({.key = lock_key, .text = profile->strings.Intern(known->second.lock)});
    if (!known->second.holder.empty())
      labels.push_back({.key = holder_key, .text = profile->strings.Intern(known->second.holder)});
    profile->SetLabels(i, labels);
  }
}

}  // namespace

void NameLocksOfWall(Profile* profile) {
  if (profile->process().kind != "wall" || !profile->records().locks.has_value()) return;
  absl::StatusOr<Plumbing> plumbing = Plumbing::Make(*profile, {});
  if (!plumbing.ok()) return;
  const LockList list = ReadLockList(*profile, &*plumbing);
  NamesByAddress names;
  for (const LockList::Lock& lock : list.locks) {
    if (lock.locks > 1) continue;  // a sum of several
    NamesOfLock& known = names[lock.address];
    known.lock = LockNameOf(*profile, list, lock, &*plumbing);
    known.holder = TopFunctionOf(*profile, list, lock.number, LockSide::kHolder, &*plumbing);
    if (known.holder == "-" || known.holder == "?") known.holder.clear();
  }
  SetNames(names, profile);
}

void CopyLockNames(const Profile& whole, Profile* difference) {
  NamesByAddress names;
  for (const Profile::Sample& sample : whole.samples) {
    std::string address;
    NamesOfLock found;
    for (const Profile::Label& label : whole.LabelsOf(sample)) {
      const std::string_view key = whole.strings[label.key], text = whole.strings[label.text];
      if (key == "lock_address") address = text;
      if (key == "lock") found.lock = text;
      if (key == "holder") found.holder = text;
    }
    if (!address.empty() && !found.lock.empty()) names[address] = std::move(found);
  }
  SetNames(names, difference);
}

}  // namespace holdfast
