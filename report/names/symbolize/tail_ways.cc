#include "report/names/symbolize/tail_ways.h"

#include <algorithm>

namespace holdfast {
namespace {

// Compilers split a function into several symbols: `parse.cold`, `parse.part.0`, `parse.constprop.0.isra.0`.
std::string_view WithoutPart(std::string_view name) { return name.substr(0, name.find('.', 1)); }

}  // namespace

TailWays::TailWays(uint32_t modules, GetModule get, bool by_dwarf)
    : modules_(modules), get_(std::move(get)), by_dwarf_(by_dwarf), functions_(1) {}

uint32_t TailWays::Number(uint32_t module, const ElfSymbols::Function& function) {
  if (function.name.empty()) return kUnknown;
  const auto [place, added] = numbers_.try_emplace({module, function.start}, static_cast<uint32_t>(functions_.size()));
  if (added) functions_.push_back({module, function.start, function.end, std::string(function.name)});
  return place->second;
}

uint32_t TailWays::NumberOfName(uint32_t module, std::string_view name) {
  const auto [place, added] = names_.try_emplace({module, std::string(name)}, static_cast<uint32_t>(functions_.size()));
  if (added) functions_.push_back({.module = module, .name = std::string(name)});
  return place->second;
}

uint32_t TailWays::NumberOf(uint32_t module, const ElfCalls::Target& target) {
  if (target.address != 0) return FunctionAt(module, target.address);
  return target.name.empty() ? kUnknown : NumberOfName(module, target.name);
}

uint32_t TailWays::FunctionAt(uint32_t module, uint64_t address) {
  const ModuleSymbolizer::Module* file = get_(module);
  const auto function = file != nullptr ? file->elf().FunctionAt(address) : std::nullopt;
  return function.has_value() ? Number(module, *function) : kUnknown;
}

uint32_t TailWays::CalledAt(uint32_t module, uint64_t address) {
  ModuleSymbolizer::Module* file = get_(module);
  if (file == nullptr) return kUnknown;
  if (ElfCalls* calls = file->calls(); calls != nullptr) {
    const ElfCalls::Target target = calls->OfCallBefore(address + 1);
    if (target.known()) return NumberOf(module, target);
  }
  if (!by_dwarf_) return kUnknown;
  const std::string_view name = file->CalledAt(address);
  if (name.empty()) return kUnknown;
  const auto function = file->elf().FunctionCalled(name);
  return function.has_value() ? Number(module, *function) : NumberOfName(module, name);
}

uint32_t TailWays::DefinitionIn(uint32_t module, const std::string& name) {
  ModuleSymbolizer::Module* file = get_(module);
  ElfCalls* calls = file == nullptr ? nullptr : file->calls();
  if (calls == nullptr) return kUnknown;
  const std::vector<uint64_t> places = calls->DefinitionsOf(name);
  return places.empty() ? kUnknown : FunctionAt(module, places.front());
}

// Returns the function that the loader bound to a name: the caller's own, otherwise the one in the file where the call
// arrived, otherwise the only one. The load order is unknown.
uint32_t TailWays::PlaceOf(uint32_t function, uint32_t near) {
  if (!functions_[function].is_bound_by_name()) return function;
  const auto [place, added] = places_.try_emplace({function, near}, kUnknown);
  if (!added) return place->second;
  const Function called = functions_[function];
  uint32_t found = DefinitionIn(called.module, called.name);
  if (found == kUnknown && near != kAnywhere) {
    found = DefinitionIn(near, called.name);
    if (found == kUnknown) found = PlaceOf(function, kAnywhere);
  } else if (found == kUnknown) {
    for (uint32_t i = 0; i < modules_; ++i) {
      const uint32_t other = DefinitionIn(i, called.name);
      if (other == kUnknown) continue;
      const bool is_second = found != kUnknown;
      found = is_second ? kUnknown : other;
      if (is_second) break;
    }
  }
  return places_[{function, near}] = found;
}

bool TailWays::IsSame(uint32_t a, uint32_t b) const {
  return a == b || WithoutPart(functions_[a].name) == WithoutPart(functions_[b].name);
}

const TailWays::Jumps& TailWays::JumpsOf(uint32_t number) {
  std::unique_ptr<Jumps>& known = jumps_[number];
  if (known != nullptr) return *known;
  auto jumps = std::make_unique<Jumps>();
  std::vector<uint32_t> parts = {number};  // the function and its cold parts
  for (size_t i = 0; i < parts.size(); ++i) TakeJumps(number, parts[i], &parts, jumps.get());
  return *(jumps_[number] = std::move(jumps));
}

void TailWays::TakeJumps(uint32_t number, uint32_t part, std::vector<uint32_t>* parts, Jumps* jumps) {
  constexpr size_t kMaxParts = 4;
  const uint32_t module = functions_[number].module;
  ModuleSymbolizer::Module* file = get_(module);
  ElfCalls* calls = file == nullptr ? nullptr : file->calls();
  if (calls == nullptr) return;
  const auto found = calls->JumpsOutOf(functions_[part].start, functions_[part].end);
  if (by_dwarf_) {
    std::vector<uint64_t> unknown;
    for (const ElfCalls::Jump& jump : found) {
      if (!jump.target.known()) unknown.push_back(jump.end - 1);
    }
    file->LoadLines(unknown, Deadline::Never());
  }
  absl::flat_hash_map<uint32_t, size_t> by_target;
  for (const ElfCalls::Jump& jump : found) {
    Jump made{jump.end - 1, kUnknown, false};
    if (jump.target.known()) {
      made.to = NumberOf(module, jump.target);
      if (made.to == kUnknown) continue;
      // A jump into the middle of another function: hand-written code, or a return from the cold part.
      const bool is_start = jump.target.address == 0 || functions_[made.to].start == jump.target.address;
      if (IsSame(made.to, number)) {
        const bool is_new = is_start && std::find(parts->begin(), parts->end(), made.to) == parts->end();
        if (is_new && !functions_[made.to].is_bound_by_name() && parts->size() < kMaxParts) parts->push_back(made.to);
        continue;
      }
      if (!is_start) continue;
    } else {
      const std::string_view name = by_dwarf_ ? file->CalledAt(made.address) : std::string_view();
      const auto function = name.empty() ? std::nullopt : file->elf().FunctionCalled(name);
      made.is_virtual = name.empty() && jump.by_pointer;
      if (name.empty() && !made.is_virtual) continue;
      if (!name.empty()) made.to = function.has_value() ? Number(module, *function) : NumberOfName(module, name);
    }
    if (jumps->jumps.size() == kMaxTargets) {
      jumps->too_many = true;
      return;
    }
    const auto [place, added] = by_target.try_emplace(made.to, jumps->jumps.size());
    if (added) {
      jumps->jumps.push_back(made);
    } else {
      jumps->jumps[place->second].address = 0;
    }
  }
}

bool TailWays::Arrives(const Search& search, const Jump& jump) {
  if (jump.to == kUnknown) return false;
  if (search.is_end != nullptr) return search.is_end(functions_[jump.to].name);
  return IsSame(jump.to, search.found) || PlaceOf(jump.to, functions_[search.found].module) == search.found;
}

// Enumerates all paths, depth first. Each function occurs once in a path.
void TailWays::Look(Search* search) {
  if (search->path.size() > kMaxSteps || ++search->looked > kMaxVisits || search->ways.size() >= kMaxWays ||
      work_ > kMaxWork) {
    search->gave_up = true;
    return;
  }
  const Jumps& jumps = JumpsOf(search->path.back());  // the reference stays valid
  work_ += jumps.jumps.size();
  search->gave_up = search->gave_up || jumps.too_many;
  bool arrives = false, leaves_by_pointer = false;
  std::vector<uint32_t> next;
  for (const Jump& jump : jumps.jumps) {
    leaves_by_pointer = leaves_by_pointer || jump.is_virtual;
    if (jump.to == kUnknown) continue;
    if (Arrives(*search, jump)) {
      arrives = true;
      continue;
    }
    const uint32_t to = PlaceOf(jump.to, search->is_end != nullptr ? kAnywhere : functions_[search->found].module);
    if (to != kUnknown && std::find(search->path.begin(), search->path.end(), to) == search->path.end() &&
        std::find(next.begin(), next.end(), to) == next.end()) {
      next.push_back(to);
    }
  }
  if (arrives) search->ways.push_back(search->path);
  if (leaves_by_pointer) search->by_pointer.push_back(search->path);
  for (const uint32_t function : next) {
    search->path.push_back(function);
    Look(search);
    search->path.pop_back();
  }
}

std::vector<TailWays::Step> TailWays::StepsOf(const Search& search) {
  std::vector<uint32_t> common;
  // If no path is known to arrive, one through a pointer did.
  const bool by_pointer = search.ways.empty();
  const auto& ways = by_pointer ? search.by_pointer : search.ways;
  if (!ways.empty()) {
    common = ways[0];
    for (const std::vector<uint32_t>& way : ways) {
      const auto differs = std::mismatch(common.begin(), common.end(), way.begin(), way.end()).first;
      common.erase(differs, common.end());
    }
    if (search.gave_up) common.resize(1);
  }
  const bool whole = !search.gave_up && search.ways.size() == 1;
  std::vector<Step> steps;
  for (size_t i = 0; i < common.size(); ++i) {
    const Function function = functions_[common[i]];
    size_t leading = 0;
    uint64_t address = 0;
    for (const Jump& jump : JumpsOf(common[i]).jumps) {
      const bool leads_on = i + 1 < common.size() ? jump.to != kUnknown && IsSame(jump.to, common[i + 1])
                            : whole               ? Arrives(search, jump)
                                                  : search.ways.empty() && jump.is_virtual;
      if (leads_on) address = jump.address, ++leading;
    }
    steps.push_back({function.module, leading == 1 && address != 0 ? address : function.start,
                     by_pointer && i + 1 == common.size()});
  }
  return steps;
}

std::vector<TailWays::Step> TailWays::Find(uint32_t called, uint32_t found, IsEnd is_end) {
  if (called == kUnknown) return {};
  Search search;
  search.found = found;
  search.is_end = is_end;
  search.path = {called};
  Look(&search);
  return StepsOf(search);
}

std::vector<TailWays::Step> TailWays::WayTo(uint32_t called, uint32_t found) {
  if (called == kUnknown || found == kUnknown || IsSame(called, found)) return {};
  const uint32_t place = PlaceOf(called, functions_[found].module);
  return IsSame(place, found) ? std::vector<Step>() : Find(place, found, nullptr);
}

std::vector<TailWays::Step> TailWays::WayTo(uint32_t called, IsEnd is_end) {
  if (called == kUnknown || is_end(functions_[called].name)) return {};
  return Find(PlaceOf(called, kAnywhere), kUnknown, is_end);
}

}  // namespace holdfast
