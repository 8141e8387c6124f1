#include "report/builder/block_members.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/locks/lock_list.h"
#include "report/analysis/locks/waiting_list.h"
#include "report/base/base_name.h"
#include "report/names/dwarf/members.h"
#include "report/profile/lock_record_limits.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// A lock, and the functions that used it.
struct LockInBlock {
  int number;
  uint64_t bytes, offset;
  std::set<std::string_view> functions = {};
  std::set<uint32_t> mappings = {};
  std::set<std::string> found = {};
};

void AddStack(const Profile& profile, const std::vector<uint32_t>& stack, LockInBlock* lock) {
  for (const uint32_t location : stack) {
    const Profile::Location& place = profile.locations[location];
    for (const Profile::Line& line : profile.LinesOf(place)) {
      if (line.function == Profile::kNone) continue;
      lock->functions.insert(profile.strings[profile.functions[line.function].name]);
      if (place.mapping != Profile::kNone) lock->mappings.insert(place.mapping);
    }
  }
}

std::vector<LockInBlock> LocksInBlocks(const Profile& profile) {
  const LockList list = ReadLockList(profile, nullptr);
  const WaitingList waiting = ReadWaitingList(profile);
  std::vector<LockInBlock> found;
  for (const LockList::Lock& lock : list.locks) {
    if (!lock.is_in_block() || lock.block_offset == kManyOffsets || !lock.member.empty()) continue;
    LockInBlock one{.number = lock.number,
                    .bytes = static_cast<uint64_t>(lock.block_bytes),
                    .offset = static_cast<uint64_t>(lock.block_offset)};
    const auto add = [&](const auto& stacks, int stack) {
      if (stack >= 0 && static_cast<size_t>(stack) < stacks.size())
        AddStack(profile, stacks[static_cast<size_t>(stack)], &one);
    };
    add(list.stacks, lock.block_stack);
    for (const LockList::Pair& pair : list.pairs) {
      if (pair.lock != lock.number) continue;
      add(list.stacks, pair.holder);
      add(list.stacks, pair.waiter);
    }
    for (const record::Wait& wait : waiting.waits) {
      if (wait.lock != 0 && lock.number == static_cast<int64_t>(wait.lock))
        add(waiting.stacks, static_cast<int>(wait.stack) - 1);
    }
    found.push_back(std::move(one));
  }
  return found;
}

bool GoesOn(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

}  // namespace

bool NamesClass(std::string_view function, std::string_view class_name) {
  for (size_t at = 0; !class_name.empty() && (at = function.find(class_name, at)) != std::string_view::npos; ++at) {
    const size_t end = at + class_name.size();
    const bool begins = at == 0 || (!GoesOn(function[at - 1]) && function[at - 1] != ':');
    if (begins && (end == function.size() || !GoesOn(function[end]))) return true;
  }
  return false;
}

void NameMembersOfBlocks(Profile* profile, const SectionsOfMapping& open, const Deadline& deadline) {
  std::vector<LockInBlock> locks = LocksInBlocks(*profile);
  std::set<uint32_t> mappings;
  for (const LockInBlock& lock : locks) mappings.insert(lock.mappings.begin(), lock.mappings.end());
  std::map<std::string, std::string> file_of;  // by finding
  for (const uint32_t mapping : mappings) {
    if (deadline.Passed()) break;
    const std::shared_ptr<dwarf::Sections> sections = open(profile->mappings[mapping]);
    if (sections == nullptr) continue;
    std::vector<dwarf::WantedClass> wanted;
    wanted.reserve(locks.size());
    for (const LockInBlock& lock : locks) wanted.push_back({.size = lock.bytes, .offset = lock.offset});
    const auto is_named = [&](size_t i, std::string_view class_name) {
      const std::set<std::string_view>& functions = locks[i].functions;
      return std::any_of(functions.begin(), functions.end(),
                         [&](std::string_view function) { return NamesClass(function, class_name); });
    };
    dwarf::FindClasses(sections.get(), wanted, is_named, deadline);
    for (size_t i = 0; i < locks.size(); ++i) {
      for (const std::string& member : wanted[i].found) {
        locks[i].found.insert(member);
        file_of.emplace(member, BaseName(profile->strings[profile->mappings[mapping].file]));
      }
    }
  }
  for (const LockInBlock& lock : locks) {
    if (lock.found.size() != 1) continue;
    const std::string& member = *lock.found.begin();
    for (record::Lock& written : profile->mutable_records()->locks->lock) {
      if (written.number == static_cast<uint32_t>(lock.number))
        written.member = fmt::format("{} ({})", member, file_of[member]);
    }
  }
}

}  // namespace holdfast
