#include "report/names/dwarf/info.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/cursor.h"
#include "report/names/dwarf/enclosing.h"
#include "report/names/dwarf/split_dwarf.h"

namespace holdfast::dwarf {
namespace {

constexpr size_t kLargestEntry = 16 << 20;
constexpr int kMaxReferences = 16;  // an inlined call needs at most 3 to reach the function's declaration
constexpr uint32_t kNoUnit = 0xffffffff;

}  // namespace

struct DebugInfo::Entry {
  uint16_t tag = 0;
  std::string linkage_name, name;
  Value origin, specification;
  uint64_t call_file = 0, decl_file = 0;
  uint32_t call_line = 0, decl_line = 0;
};

DebugInfo::DebugInfo(std::shared_ptr<Sections> main, OpenSplit open_split, std::function<bool(uint64_t)> is_code,
                     Demangler demangle)
    : main_(std::move(main)),
      open_split_(std::move(open_split)),
      is_code_(std::move(is_code)),
      demangle_(std::move(demangle)),
      units_(main_.get()) {
  if (main_->alt != nullptr) alt_units_ = std::make_unique<UnitSet>(main_->alt.get());
}

bool DebugInfo::Scan(const Deadline& deadline) {
  if (scan_done_) return true;
  while (units_.ReadNext()) {
    Unit unit(main_.get(), main_.get(), units_.headers().back());
    if (unit.Open(false)) {
      const auto index = static_cast<uint32_t>(units_.headers().size() - 1);
      unit.EachRange([&](uint64_t low, uint64_t high) {
        if (low < high && is_code_(low)) ranges_.push_back({low, high, 0, index});
      });
    }
    if (deadline.Passed()) return false;
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.low < b.low; });
  uint64_t highest = 0;
  for (Range& range : ranges_) range.highest = highest = std::max(highest, range.high);
  scan_done_ = true;
  return true;
}

uint32_t DebugInfo::UnitHolding(uint64_t address) const {
  auto range =
      std::upper_bound(ranges_.begin(), ranges_.end(), address, [](uint64_t a, const Range& r) { return a < r.low; });
  while (range != ranges_.begin() && (--range)->highest > address) {
    if (range->high > address) return range->unit;
  }
  return kNoUnit;
}

bool DebugInfo::Load(std::span<const uint64_t> addresses, const Deadline& deadline) {
  if (!Scan(deadline)) return false;
  std::vector<std::pair<uint32_t, uint64_t>> wanted;  // unit, address
  for (const uint64_t address : addresses) {
    if (by_address_.contains(address)) continue;
    if (const uint32_t unit = UnitHolding(address); unit != kNoUnit) wanted.emplace_back(unit, address);
  }
  std::sort(wanted.begin(), wanted.end());
  std::vector<uint64_t> of_unit;
  size_t units_begun = 0;
  bool complete = true;
  for (size_t i = 0; i < wanted.size();) {
    if (deadline.Passed()) return false;
    const uint32_t unit = wanted[i].first;
    of_unit.clear();
    for (; i < wanted.size() && wanted[i].first == unit; ++i) of_unit.push_back(wanted[i].second);
    if (!deadline.IsNever() && too_large_.contains(unit)) {
      complete = false;
    } else if (!LoadUnit(unit, of_unit, deadline)) {
      if (units_begun == 0) too_large_.insert(unit);
      return false;
    }
    ++units_begun;
  }
  return complete;
}

bool DebugInfo::LoadUnit(uint32_t index, std::span<const uint64_t> addresses, const Deadline& deadline) {
  functions_.clear();
  files_.clear();
  Unit main_unit(main_.get(), main_.get(), units_.headers()[index]);
  if (!main_unit.Open(true)) return true;
  std::vector<LineRow> rows(addresses.size());
  const std::unique_ptr<LineTable> lines = LineTable::Open(&main_unit);
  if (lines != nullptr && !lines->Find(addresses, is_code_, deadline, &rows)) return false;
  std::shared_ptr<Sections> split_file;
  const std::unique_ptr<Unit> split_unit = SplitUnitOf(main_unit, &split_file);
  Unit* unit = split_unit != nullptr ? split_unit.get() : &main_unit;
  const std::optional<Scopes> found = FindScopes(unit, addresses, is_code_, deadline);
  if (!found.has_value()) return false;
  const Scopes& scopes = *found;
  std::vector<Call> calls(scopes.scopes.size());
  for (uint32_t scope : scopes.innermost) {
    for (; scope != Scopes::kNone && !calls[scope].read; scope = scopes.scopes[scope].parent)
      calls[scope] = ReadCall(unit, lines.get(), scopes.scopes[scope].entry);
  }
  const bool is_c = std::ranges::find(kLanguagesOfC, unit->language) != std::end(kLanguagesOfC);
  if (!Qualify(unit, lines.get(), is_c, deadline, &calls)) return false;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto first = static_cast<uint32_t>(frames_.size());
    StringId file = rows[i].found ? FileOf(lines.get(), rows[i].file) : 0;
    uint32_t line = rows[i].found ? rows[i].line : 0;
    uint32_t scope = scopes.innermost[i];
    if (scope == Scopes::kNone && rows[i].found) frames_.push_back({.file = file, .line = line});
    for (; scope != Scopes::kNone; scope = scopes.scopes[scope].parent) {
      const Call& call = calls[scope];
      frames_.push_back({call.function.name, file, line, call.function.start_line});
      file = call.file;
      line = call.line;
    }
    by_address_[addresses[i]] = {first, static_cast<uint32_t>(frames_.size()) - first};
  }
  for (const Scopes::CallSite& site : scopes.call_sites) {
    Entry entry;
    entry.origin = site.origin;
    const bool in_unit = site.origin.kind == Value::kUnitReference;
    called_[addresses[site.address]] = (in_unit ? FunctionReferredTo(unit, entry) : FunctionOf(unit, entry)).name;
  }
  return true;
}

std::unique_ptr<Unit> DebugInfo::SplitUnitOf(const Unit& skeleton, std::shared_ptr<Sections>* file) {
  if (skeleton.dwo_name.empty() || !skeleton.dwo_id.has_value()) return nullptr;
  auto opened = open_split_(skeleton.comp_dir, skeleton.dwo_name);
  std::unique_ptr<Unit> unit;
  if (opened.ok()) unit = OpenSplitUnit(opened->get(), skeleton);
  if (unit != nullptr) {
    *file = *std::move(opened);
  } else {
    problems_.insert(absl::StrCat(JoinPath(skeleton.comp_dir, skeleton.dwo_name), ": ",
                                  opened.ok() ? "of another compilation" : std::string(opened.status().message())));
  }
  return unit;
}

std::string DebugInfo::TextOf(Unit* unit, const Value& value) {
  if (value.kind != Value::kAltStr) return unit->TextOf(value);
  return unit->file()->alt != nullptr ? unit->file()->alt->str.StringAt(value.number) : std::string();
}

bool DebugInfo::ReadEntry(Unit* unit, uint64_t offset, Entry* entry) {
  for (size_t want = kEntryBytes; want <= kLargestEntry; want *= 16) {
    const uint64_t left = unit->header().end - offset;
    const std::string_view window = unit->file()->info.Window(offset, want).substr(0, left);
    Cursor cursor(window);
    const Abbrev* abbrev = unit->abbrevs().Find(cursor.Uleb());
    if (abbrev == nullptr) return false;
    *entry = {};
    entry->tag = abbrev->tag;
    unit->abbrevs().ReadEntry(&cursor, *abbrev, [&](uint16_t attribute, const Value& value) {
      switch (attribute) {
        case DW_AT_linkage_name:
        case DW_AT_MIPS_linkage_name:
          entry->linkage_name = TextOf(unit, value);
          break;
        case DW_AT_name:
          entry->name = TextOf(unit, value);
          break;
        case DW_AT_abstract_origin:
          entry->origin = value;
          break;
        case DW_AT_specification:
          entry->specification = value;
          break;
        case DW_AT_call_file:
          entry->call_file = value.number;
          break;
        case DW_AT_call_line:
          entry->call_line = static_cast<uint32_t>(value.number);
          break;
        case DW_AT_decl_file:
          entry->decl_file = value.number;
          break;
        case DW_AT_decl_line:
          entry->decl_line = static_cast<uint32_t>(value.number);
          break;
        default:
          break;
      }
    });
    if (cursor.ok()) return true;
    if (window.size() >= left) break;  // damaged: the window already had the rest of the unit
  }
  return false;
}

DebugInfo::Call DebugInfo::ReadCall(Unit* unit, const LineTable* lines, uint64_t offset) {
  Call call;
  call.read = true;
  Entry entry;
  if (!ReadEntry(unit, offset, &entry)) return call;
  call.file = entry.call_file == 0 && entry.call_line == 0 ? 0 : FileOf(lines, entry.call_file);
  call.line = entry.call_line;
  const bool refers = entry.linkage_name.empty() && entry.name.empty() && entry.origin.kind == Value::kUnitReference;
  call.function = refers ? FunctionReferredTo(unit, entry) : FunctionOf(unit, entry, offset);
  return call;
}

// Qualifies names in one pass over each unit concerned.
bool DebugInfo::Qualify(Unit* unit, const LineTable* lines, bool is_c, const Deadline& deadline,
                        std::vector<Call>* calls) {
  Names own;
  absl::flat_hash_map<UnitSet*, Names> elsewhere;
  for (const Call& call : *calls) {
    const Function& function = call.function;
    if (function.unqualified == 0) continue;
    if (function.elsewhere != nullptr) {
      elsewhere[function.elsewhere].emplace(function.unqualified, function.name);
    } else if (!is_c) {
      own.emplace(function.unqualified, function.name);
    }
  }
  if (!QualifyIn(unit, lines, deadline, &own)) return false;
  for (const auto& [units, names] : elsewhere) {
    if (!QualifyElsewhere(units, names, deadline)) return false;
  }
  for (Call& call : *calls) {
    Function& function = call.function;
    const Names& names = function.elsewhere != nullptr ? qualified_[function.elsewhere] : own;
    if (const auto name = names.find(function.unqualified); function.unqualified != 0 && name != names.end())
      function.name = name->second;
  }
  return true;
}

bool DebugInfo::QualifyElsewhere(UnitSet* units, const Names& names, const Deadline& deadline) {
  std::vector<uint64_t> entries;
  for (const auto& [entry, name] : names) {
    if (!qualified_[units].contains(entry)) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end());
  for (size_t i = 0; i < entries.size();) {
    const Unit* const found = units->Find(entries[i]);
    if (found == nullptr) {
      ++i;
      continue;
    }
    // This unit stays open, because reading its entries may open others.
    Unit unit(found->file(), found->file(), found->header());
    Names of_unit;
    for (; i < entries.size() && entries[i] < unit.header().end; ++i) of_unit[entries[i]] = names.at(entries[i]);
    if (!unit.Open(true)) continue;
    const bool is_c = std::ranges::find(kLanguagesOfC, unit.language) != std::end(kLanguagesOfC);
    if (!is_c && !QualifyIn(&unit, LineTable::Open(&unit).get(), deadline, &of_unit)) return false;
    qualified_[units].insert(of_unit.begin(), of_unit.end());
  }
  return true;
}

bool DebugInfo::QualifyIn(Unit* unit, const LineTable* lines, const Deadline& deadline, Names* names) {
  if (names->empty()) return true;
  std::vector<uint64_t> entries;
  for (const auto& [entry, name] : *names) entries.push_back(entry);
  Enclosing enclosing = EnclosingOf(unit, entries, deadline);
  // An enclosing function may be declared elsewhere, in a namespace or class.
  std::vector<uint64_t> declarations;
  for (const auto& [entry, around] : enclosing) {
    for (const uint64_t each : around) {
      Entry read;
      if (!ReadEntry(unit, each, &read) || read.tag != DW_TAG_subprogram) continue;
      const Function function = FunctionOf(unit, read, each);
      const uint64_t declaration = function.elsewhere == nullptr ? function.unqualified : 0;
      if (declaration != 0 && declaration != each && !enclosing.contains(declaration))
        declarations.push_back(declaration);
    }
  }
  for (auto& [entry, around] : EnclosingOf(unit, declarations, deadline)) enclosing.emplace(entry, std::move(around));
  // Otherwise a function could get different names in different files.
  if (deadline.Passed()) return false;
  for (auto& [entry, name] : *names)
    name = strings_.Intern(QualifiedName(unit, lines, enclosing, entry, std::string(strings_[name]), 0));
  return true;
}

DebugInfo::Enclosing DebugInfo::EnclosingOf(Unit* unit, std::vector<uint64_t> entries, const Deadline& deadline) {
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  Enclosing enclosing;
  if (entries.empty()) return enclosing;
  std::vector<std::vector<uint64_t>> around = FindEnclosing(unit, entries, deadline);
  for (size_t i = 0; i < entries.size(); ++i) enclosing[entries[i]] = std::move(around[i]);
  return enclosing;
}

std::string DebugInfo::QualifiedName(Unit* unit, const LineTable* lines, const Enclosing& enclosing, uint64_t at,
                                     std::string_view name, int depth) {
  const auto found = enclosing.find(at);
  if (found == enclosing.end() || depth > kMaxReferences) return std::string(name);
  const std::vector<uint64_t>& around = found->second;
  std::string scope;
  for (size_t i = 0; i < around.size(); ++i) {
    Entry entry;
    if (!ReadEntry(unit, around[i], &entry)) continue;
    std::string part = entry.name;
    if (entry.tag == DW_TAG_namespace) {
      if (part.empty()) part = "(anonymous namespace)";
    } else if (entry.tag == DW_TAG_subprogram) {
      const Function function = FunctionOf(unit, entry, around[i]);
      const std::string plain(strings_[function.name]);
      std::string whole = demangle_ != nullptr ? demangle_(plain) : std::string();
      if (whole.empty() && function.elsewhere == nullptr && function.unqualified != around[i] &&
          enclosing.contains(function.unqualified))
        whole = QualifiedName(unit, lines, enclosing, function.unqualified, plain, depth + 1);
      if (!whole.empty()) scope.clear();
      part = whole.empty() ? plain : std::move(whole);
    } else if (entry.tag == DW_TAG_structure_type || entry.tag == DW_TAG_class_type || entry.tag == DW_TAG_union_type) {
      // GCC names the class of a lambda "" or <lambda(int)>.
      const bool is_call = name == "operator()" || name.starts_with("operator()<");
      const bool is_lambda = i + 1 == around.size() && is_call && part.empty();
      if (is_lambda || part.starts_with("<lambda")) {
        const std::string file = lines != nullptr ? lines->FileName(entry.decl_file) : "";
        part = fmt::format("{{lambda {}:{}}}", BaseName(file), entry.decl_line);
      } else if (part.empty()) {
        part = "{unnamed type}";
      }
    } else {
      continue;  // a block
    }
    if (part.empty()) continue;
    scope += (scope.empty() ? "" : "::") + part;
  }
  return fmt::format("{}{}{}", scope, scope.empty() ? "" : "::", name);
}

// A cache, because many calls refer to the same function.
DebugInfo::Function DebugInfo::FunctionReferredTo(Unit* unit, const Entry& entry) {
  const auto known = functions_.find(entry.origin.number);
  if (known != functions_.end()) return known->second;
  const Function function = FunctionOf(unit, entry);
  functions_[entry.origin.number] = function;
  return function;
}

// Follows references: a call refers to its abstract function, which refers to its declaration. Each may be in another
// unit or in the shared file. The first value found for each attribute is used.
DebugInfo::Function DebugInfo::FunctionOf(Unit* unit, const Entry& first, uint64_t at) {
  const Unit* const own = unit;
  UnitSet* units = nullptr;  // the target unit's set, if the target is in another unit
  UnitSet* named_in = nullptr;
  uint64_t named = first.name.empty() ? 0 : at;
  std::string linkage_name = first.linkage_name, name = first.name;
  Function function{.start_line = first.decl_line};
  Entry entry = first;
  for (int i = 0; i < kMaxReferences && linkage_name.empty(); ++i) {
    const Value next = entry.origin.kind != Value::kNone ? entry.origin : entry.specification;
    uint64_t target = next.number;
    const auto is_in = [&](const Unit* u) {
      return u != nullptr && target >= u->header().first_entry && target < u->header().end;
    };
    if (next.kind == Value::kUnitReference) {
      target += unit->header().offset;
    } else if (next.kind == Value::kAltReference) {
      units = alt_units_.get();
      unit = units != nullptr ? units->Find(target) : nullptr;
    } else if (next.kind == Value::kReference && !is_in(unit)) {
      const bool shared = unit->file() == main_->alt.get();
      units = unit->file() == main_.get() ? &units_ : shared ? alt_units_.get() : nullptr;
      unit = units != nullptr ? units->Find(target) : nullptr;
    } else if (next.kind != Value::kReference) {
      break;
    }
    if (!is_in(unit) || !ReadEntry(unit, target, &entry)) break;
    linkage_name = entry.linkage_name;
    if (name.empty()) name = entry.name;
    // The last declaration of the chain is the one in the class, if there is a class.
    if (!entry.name.empty()) {
      named = target;
      named_in = unit == own ? nullptr : units;
    }
    if (function.start_line == 0) function.start_line = entry.decl_line;
  }
  function.name = strings_.Intern(linkage_name.empty() ? name : linkage_name);
  if (linkage_name.empty() && !name.empty()) {
    function.unqualified = named;
    function.elsewhere = named_in;
  }
  return function;
}

StringId DebugInfo::FileOf(const LineTable* lines, uint64_t number) {
  if (lines == nullptr) return 0;
  const auto [place, added] = files_.try_emplace(number);
  if (added) place->second = strings_.Intern(lines->FileName(number));
  return place->second;
}

std::span<const Frame> DebugInfo::FramesAt(uint64_t address) const {
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return {};
  return {frames_.data() + found->second.first, found->second.count};
}

size_t DebugInfo::memory_bytes() const {
  return ranges_.capacity() * sizeof(Range) + units_.headers().capacity() * sizeof(UnitHeader) +
         frames_.capacity() * sizeof(Frame) + (by_address_.capacity() + called_.capacity()) * 2 * sizeof(uint64_t) +
         strings_.size() * 128;
}

}  // namespace holdfast::dwarf
