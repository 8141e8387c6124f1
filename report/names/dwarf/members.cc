#include "report/names/dwarf/members.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "report/names/dwarf/constants.h"
#include "report/names/dwarf/cursor.h"

namespace holdfast::dwarf {
namespace {

constexpr uint64_t kLargestUnit = 256 << 20;
constexpr int kMaxSteps = 64, kMaxDimensions = 8;
constexpr uint64_t kPointerSize = 8;

// Lock types, named without template arguments.
bool IsLock(std::string_view type) {
  constexpr std::array<std::string_view, 25> kLocks = {"mutex",
                                                       "timed_mutex",
                                                       "recursive_mutex",
                                                       "recursive_timed_mutex",
                                                       "shared_mutex",
                                                       "shared_timed_mutex",
                                                       "condition_variable",
                                                       "condition_variable_any",
                                                       "once_flag",
                                                       "atomic",
                                                       "atomic_flag",
                                                       "counting_semaphore",
                                                       "binary_semaphore",
                                                       "latch",
                                                       "barrier",
                                                       "Mutex",
                                                       "RwLock",
                                                       "CondVar",
                                                       "Condvar",
                                                       "Once",
                                                       "pthread_mutex_t",
                                                       "pthread_rwlock_t",
                                                       "pthread_cond_t",
                                                       "pthread_spinlock_t",
                                                       "sem_t"};
  return std::find(kLocks.begin(), kLocks.end(), type.substr(0, type.find('<'))) != kLocks.end();
}

// C and C++ reserve these names, so no program defines them.
bool IsReserved(std::string_view name) {
  return name.starts_with("__") ||
         (name.starts_with("_") && name.size() > 1 && std::isupper(static_cast<unsigned char>(name[1])) != 0);
}

class UnitOfTypes {
 public:
  // Returns false if the unit is damaged or too large.
  bool Open(Sections* file, const UnitHeader& header) {
    unit_.emplace(file, file, header);
    return header.end - header.offset <= kLargestUnit && unit_->Open(true) &&
           file->info.Read(header.offset, header.end - header.offset, &bytes_);
  }

  void Find(std::span<WantedMember> wanted) {
    Cursor cursor(bytes_, unit_->header().first_entry - unit_->header().offset);
    while (cursor.ok() && !cursor.AtEnd()) {
      const uint64_t at = cursor.offset();
      const Abbrev* abbrev = NextEntry(&cursor);
      if (abbrev == nullptr) continue;
      if (abbrev->tag != DW_TAG_variable) {
        unit_->abbrevs().SkipEntry(&cursor, *abbrev);
        continue;
      }
      const Entry entry = Read(&cursor, *abbrev);
      if (!entry.address.has_value()) continue;
      for (WantedMember& one : wanted) {
        if (one.variable == *entry.address && !one.is_known) Resolve(TypeOf(at), &one);
      }
    }
  }

  void FindClasses(std::span<WantedClass> wanted, const IsNamed& is_named) {
    Cursor cursor(bytes_, unit_->header().first_entry - unit_->header().offset);
    std::string scope;            // around the current entries, "bank::Server"
    std::vector<size_t> lengths;  // lengths of `scope` at the enclosing levels
    while (cursor.ok() && !cursor.AtEnd()) {
      const uint64_t at = cursor.offset();
      const Abbrev* abbrev = NextEntry(&cursor);
      if (abbrev == nullptr) {
        if (!lengths.empty()) {
          scope.resize(lengths.back());
          lengths.pop_back();
        }
        continue;
      }
      if (abbrev->children) lengths.push_back(scope.size());
      if (!IsClass(abbrev->tag) && abbrev->tag != DW_TAG_namespace) {
        unit_->abbrevs().SkipEntry(&cursor, *abbrev);
        continue;
      }
      const Entry entry = Read(&cursor, *abbrev);
      if (!abbrev->children) continue;
      std::string name = unit_->TextOf(entry.name);
      if (name.empty() && entry.tag == DW_TAG_namespace) name = "(anonymous namespace)";
      if (!name.empty()) absl::StrAppend(&scope, scope.empty() ? "" : "::", name);
      if (IsClass(entry.tag) && !name.empty() && entry.size.has_value())
        FindIn(at, *entry.size, scope, wanted, is_named);
    }
  }

 private:
  // The size of the counts that std::make_shared and Rust's Arc place before an object.
  static constexpr uint64_t kCounts = 16;

  static bool IsClass(uint16_t tag) { return tag == DW_TAG_structure_type || tag == DW_TAG_class_type; }

  void FindIn(uint64_t type, uint64_t size, const std::string& name, std::span<WantedClass> wanted,
              const IsNamed& is_named) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      for (const uint64_t before : {uint64_t{0}, kCounts}) {
        if (size + before != wanted[i].size || wanted[i].offset < before || !is_named(i, name)) continue;
        WantedMember member{.variable = 0, .offset = wanted[i].offset - before};
        Resolve(type, &member);
        if (member.is_lock && member.path.starts_with('.'))
          wanted[i].found.insert(absl::StrCat(name, "::", member.path.substr(1)));
      }
    }
  }

  struct Entry {
    uint16_t tag = 0;
    bool has_children = false, is_declaration = false;
    Value name, type, specification;
    std::optional<uint64_t> address, size, location, count;
  };

  // Reads the next entry's code. Returns null at the end of a list of children, and for damaged input (then the cursor
  // is at its end).
  const Abbrev* NextEntry(Cursor* cursor) const {
    const uint64_t code = cursor->Uleb();
    if (code == 0) return nullptr;
    const Abbrev* abbrev = unit_->abbrevs().Find(code);
    if (abbrev == nullptr) cursor->Skip(cursor->left() + 1);
    return abbrev;
  }

  Entry Read(Cursor* cursor, const Abbrev& abbrev) {
    Entry entry;
    entry.tag = abbrev.tag;
    entry.has_children = abbrev.children;
    for (const AttributeSpec& spec : unit_->abbrevs().AttributesOf(abbrev)) {
      const bool is_expression = spec.form == DW_FORM_exprloc || spec.form == DW_FORM_block1;
      if (spec.attribute == DW_AT_location && is_expression) {
        entry.address = AddressIn(cursor->Bytes(spec.form == DW_FORM_exprloc ? cursor->Uleb() : cursor->U8()));
        continue;
      }
      const Value value = ReadValue(cursor, spec, unit_->header().encoding);
      const auto number = value.kind == Value::kNumber ? std::optional(value.number) : std::nullopt;
      switch (spec.attribute) {
        case DW_AT_name:
          entry.name = value;
          break;
        case DW_AT_type:
          entry.type = value;
          break;
        case DW_AT_specification:
        case DW_AT_abstract_origin:
          entry.specification = value;
          break;
        case DW_AT_byte_size:
          entry.size = number;
          break;
        case DW_AT_data_member_location:
          entry.location = number;
          break;
        case DW_AT_count:
          entry.count = number;
          break;
        case DW_AT_upper_bound:
          if (number.has_value()) entry.count = *number + 1;
          break;
        case DW_AT_declaration:
          entry.is_declaration = true;
          break;
        default:
          break;
      }
    }
    return entry;
  }

  std::optional<uint64_t> AddressIn(std::string_view expression) {
    Cursor cursor(expression);
    switch (cursor.U8()) {
      case DW_OP_addr:
        return cursor.left() == sizeof(uint64_t) ? std::optional(cursor.U64()) : std::nullopt;
      case DW_OP_addrx:
      case DW_OP_GNU_addr_index: {
        const uint64_t index = cursor.Uleb();
        return cursor.ok() && cursor.AtEnd() ? unit_->AddressOf({Value::kAddressIndex, index, {}}) : std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  // Returns the entry at an offset in the unit. `behind`: where its children begin.
  std::optional<Entry> EntryAt(uint64_t offset, uint64_t* behind = nullptr) {
    Cursor cursor(bytes_, offset);
    const Abbrev* abbrev = NextEntry(&cursor);
    if (abbrev == nullptr) return std::nullopt;
    const Entry entry = Read(&cursor, *abbrev);
    if (!cursor.ok()) return std::nullopt;
    if (behind != nullptr) *behind = cursor.offset();
    return entry;
  }

  // Returns the offset in this unit; 0: no reference, or one to another unit.
  uint64_t Target(const Value& reference) const {
    const uint64_t first = unit_->header().first_entry - unit_->header().offset;
    uint64_t target = 0;
    if (reference.kind == Value::kUnitReference) target = reference.number;
    if (reference.kind == Value::kReference) target = reference.number - unit_->header().offset;
    return target >= first && target < bytes_.size() ? target : 0;
  }

  // Returns the type of a variable or member. A definition may leave the type to its declaration.
  uint64_t TypeOf(uint64_t offset) {
    for (int i = 0; i < kMaxSteps && offset != 0; ++i) {
      const auto entry = EntryAt(offset);
      if (!entry.has_value()) return 0;
      if (entry->type.kind != Value::kNone) return Target(entry->type);
      offset = Target(entry->specification);
    }
    return 0;
  }

  // Returns the element counts of the dimensions; 0 = unknown.
  std::vector<uint64_t> DimensionsAt(uint64_t children) {
    std::vector<uint64_t> counts;
    Cursor cursor(bytes_, children);
    while (cursor.ok() && counts.size() < kMaxDimensions) {
      const Abbrev* abbrev = NextEntry(&cursor);
      if (abbrev == nullptr) break;
      const Entry entry = Read(&cursor, *abbrev);
      if (entry.tag == DW_TAG_subrange_type) counts.push_back(entry.count.value_or(0));
      if (entry.has_children) break;
    }
    return counts;
  }

  std::optional<uint64_t> SizeOf(uint64_t type) {
    uint64_t times = 1;
    for (int i = 0; i < kMaxSteps && type != 0; ++i) {
      uint64_t children = 0;
      const auto entry = EntryAt(type, &children);
      if (!entry.has_value()) return std::nullopt;
      if (entry->size.has_value()) return *entry->size * times;
      if (entry->tag == DW_TAG_array_type) {
        for (const uint64_t count : DimensionsAt(children)) times *= count;
      } else if (!IsAlias(entry->tag)) {
        return kPointerSize * times;  // pointers and references may omit their size
      }
      type = Target(entry->type);
    }
    return std::nullopt;
  }

  static bool IsAlias(uint16_t tag) {
    return tag == DW_TAG_typedef || tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
           tag == DW_TAG_atomic_type;
  }

  struct Part {
    Entry entry;
    uint64_t type, begin;
  };
  // Returns the member or base class that contains the offset.
  std::optional<Part> PartAt(uint64_t children, bool is_union, uint64_t offset) {
    std::optional<Part> found;
    Cursor cursor(bytes_, children);
    for (int depth = 1; cursor.ok() && !cursor.AtEnd();) {
      const Abbrev* abbrev = NextEntry(&cursor);
      if (abbrev == nullptr) {
        if (--depth == 0) break;
        continue;
      }
      const bool is_part = depth == 1 && (abbrev->tag == DW_TAG_member || abbrev->tag == DW_TAG_inheritance);
      if (abbrev->children) ++depth;
      if (!is_part) {
        unit_->abbrevs().SkipEntry(&cursor, *abbrev);
        continue;
      }
      const Entry entry = Read(&cursor, *abbrev);
      if (entry.is_declaration || (!entry.location.has_value() && !is_union)) continue;  // static members, bit fields
      const uint64_t begin = entry.location.value_or(0), type = Target(entry.type);
      if (begin > offset || (found.has_value() && found->begin > begin)) continue;
      if (offset - begin < SizeOf(type).value_or(0)) found = Part{entry, type, begin};
    }
    return found;
  }

  void Resolve(uint64_t type, WantedMember* wanted) {
    uint64_t offset = wanted->offset;
    for (int i = 0; i < kMaxSteps && type != 0; ++i) {
      uint64_t children = 0;
      const auto entry = EntryAt(type, &children);
      if (!entry.has_value()) return;
      wanted->is_known = true;
      if (IsLock(unit_->TextOf(entry->name))) {
        wanted->is_lock = true;
        return;
      }
      if (IsAlias(entry->tag)) {
        type = Target(entry->type);
      } else if (entry->tag == DW_TAG_array_type) {
        type = Target(entry->type);
        if (!AddIndices(DimensionsAt(children), SizeOf(type).value_or(0), &offset, &wanted->path)) return;
      } else if (IsClass(entry->tag) || entry->tag == DW_TAG_union_type) {
        if (!entry->has_children) return;
        const auto part = PartAt(children, entry->tag == DW_TAG_union_type, offset);
        if (!part.has_value()) return;
        const std::string name = unit_->TextOf(part->entry.name);
        if (IsReserved(name)) return;
        if (part->entry.tag == DW_TAG_member && !name.empty()) absl::StrAppend(&wanted->path, ".", name);
        offset -= part->begin;
        type = part->type;
      } else {
        return;
      }
    }
  }

  static bool AddIndices(const std::vector<uint64_t>& counts, uint64_t element, uint64_t* offset, std::string* path) {
    if (element == 0 || counts.empty()) return false;
    uint64_t index = *offset / element;
    *offset %= element;
    std::string indices;
    for (size_t i = counts.size(); i-- > 0;) {
      // Only the first dimension of an array may be unknown.
      if (i > 0 && counts[i] == 0) return false;
      indices = absl::StrCat("[", i > 0 ? index % counts[i] : index, "]", indices);
      if (i > 0) index /= counts[i];
    }
    absl::StrAppend(path, indices);
    return true;
  }

  std::optional<Unit> unit_;
  std::string bytes_;
};

// Calls add(unit) for each unit until `add` returns false.
template <typename Add>
void ForEachUnit(Sections* file, const Deadline& deadline, const Add& add) {
  for (uint64_t at = 0, next = 0; !deadline.Passed(); at = next) {
    const auto header = ReadUnitHeader(&file->info, at, &next);
    UnitOfTypes unit;
    if (header.has_value() && header->type != DW_UT_skeleton && unit.Open(file, *header) && !add(&unit)) break;
    if (next == 0) break;
  }
}

}  // namespace

void FindMembers(Sections* file, std::span<WantedMember> wanted, const Deadline& deadline) {
  const auto is_known = [](const WantedMember& one) { return one.is_known; };
  if (wanted.empty()) return;
  ForEachUnit(file, deadline, [&](UnitOfTypes* unit) {
    unit->Find(wanted);
    return !std::all_of(wanted.begin(), wanted.end(), is_known);
  });
}

void FindClasses(Sections* file, std::span<WantedClass> wanted, const IsNamed& is_named, const Deadline& deadline) {
  if (wanted.empty()) return;
  ForEachUnit(file, deadline, [&](UnitOfTypes* unit) {
    unit->FindClasses(wanted, is_named);
    return true;
  });
}

}  // namespace holdfast::dwarf
