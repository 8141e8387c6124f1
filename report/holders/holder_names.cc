#include "report/holders/holder_names.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"
#include "report/names/elf/demangle.h"
#include "report/observe/outside/outside_stack.h"
#include "report/observe/table/process_info.h"

namespace holdfast {
namespace {

constexpr size_t kMaxClasses = 60'000, kMaxVtables = 1'000'000;
constexpr size_t kMaxClassName = 1024;
constexpr int64_t kFarthestTop = 1 << 24;  // of an object's base from its top

std::string Readable(std::string_view mangled) {
  const std::string name = Demangle(mangled);
  return Printable(name.empty() ? mangled : name);
}

std::string ObjectName(const ModuleInfo& module) { return Printable(BaseName(WithoutDeletedMark(module.path))); }

std::string ThreadText(const TargetThread& thread) {
  return fmt::format("T{}{}{}", thread.number, thread.name.empty() ? "" : " ", Printable(thread.name));
}

}  // namespace

HolderNames::HolderNames(AddressSpace* space, NameSources sources)
    : space_(*space),
      sources_(std::move(sources)),
      modules_(sources_.modules.size()),
      frames_(space->threads().size()) {}

uint32_t HolderNames::Numbered(RootKind kind, std::string name, uint32_t thread) {
  const auto [place, added] =
      numbers_.emplace(std::pair(std::move(name), thread), static_cast<uint32_t>(holders_.size()));
  if (added) holders_.push_back({.kind = kind, .name = place->first.first, .thread = thread});
  return place->second;
}

const ModuleInfo* HolderNames::ModuleAt(uint64_t address) const {
  const auto found = std::find_if(sources_.modules.begin(), sources_.modules.end(), [&](const ModuleInfo& module) {
    return !module.unloaded && address >= module.start && address < module.end;
  });
  return found == sources_.modules.end() ? nullptr : &*found;
}

const DataSymbols* HolderNames::VariablesOf(const ModuleInfo& module) {
  ModuleNames& names = modules_[static_cast<size_t>(&module - sources_.modules.data())];
  if (!std::exchange(names.looked_for_variables, true)) {
    const FileDescriptor file = sources_.open(module);
    if (file.valid()) names.variables = DataSymbols::Load(file.get(), module.build_id);
  }
  return names.variables.get();
}

// Returns the holder's name. `end`: up to where the answer is the same. `with_offset`, if not null: the exact place.
std::string HolderNames::VariableAt(uint64_t address, uint64_t* end, std::string* with_offset) {
  *end = address + sizeof(uint64_t);
  const ModuleInfo* module = ModuleAt(address);
  if (module == nullptr) {
    const MemoryMapping* mapping = space_.MappingAt(address);
    const std::string name = fmt::format(
        "data of {}", mapping == nullptr || mapping->name.empty() ? "[no file]" : Printable(BaseName(mapping->name)));
    if (with_offset != nullptr) *with_offset = name;
    return name;
  }
  const DataSymbols* variables = VariablesOf(*module);
  uint64_t start = 0;
  const std::string_view variable =
      variables == nullptr ? std::string_view() : variables->Find(address - module->bias, &start);
  const std::string object = ObjectName(*module);
  if (variable.empty()) {
    const std::string name = fmt::format("data of {}", object);
    if (with_offset != nullptr) *with_offset = fmt::format("{}, address {:#x}", name, address - module->bias);
    return name;
  }
  const std::string name = Readable(variable);
  const uint64_t offset = address - module->bias - start;
  if (with_offset != nullptr) {
    *with_offset = offset == 0 ? fmt::format("{} ({})", name, object) : fmt::format("{}+{} ({})", name, offset, object);
  }
  return fmt::format("{} ({})", name, object);
}

std::string HolderNames::FunctionAt(uint64_t pc) {
  const ModuleInfo* module = ModuleAt(pc);
  if (module == nullptr) return "[unknown code]";
  ModuleNames& names = modules_[static_cast<size_t>(module - sources_.modules.data())];
  if (!std::exchange(names.looked_for_functions, true)) {
    const FileDescriptor file = sources_.open(*module);
    if (file.valid()) {
      if (auto symbols = ElfSymbols::Load(file.get(), module->build_id); symbols.ok())
        names.functions = *std::move(symbols);
    }
  }
  const std::string_view function =
      names.functions == nullptr ? std::string_view() : names.functions->Find(pc - module->bias);
  return function.empty() ? fmt::format("{}!{:#x}", ObjectName(*module), pc - module->bias) : Readable(function);
}

const HolderNames::ThreadFrames& HolderNames::FramesOf(uint32_t thread) {
  ThreadFrames& frames = frames_[thread];
  if (std::exchange(frames.walked, true) || sources_.walk == nullptr) return frames;
  const StackInfo stack = sources_.walk(space_.threads()[thread], &frames.ends);
  for (size_t i = 0; i < stack.frames.size(); ++i) {
    const uint64_t pc = stack.frames[i] & kPcMask;
    frames.functions.push_back(FunctionAt(pc - (i == 0 ? 0 : 1)));
  }
  return frames;
}

uint32_t HolderNames::HolderOf(const RootRange& root, uint64_t address) {
  if (last_range_.Contains(address)) {
    ++holders_[last_holder_].pointers;
    return last_holder_;
  }
  last_range_ = {address, address + sizeof(uint64_t)};
  switch (root.kind) {
    case RootKind::kData:
      last_holder_ = Numbered(root.kind, VariableAt(address, &last_range_.end, nullptr), 0);
      break;
    case RootKind::kStack: {
      const TargetThread& thread = space_.threads()[root.index];
      const ThreadFrames& frames = FramesOf(root.index);
      const MemoryMapping* mapping = space_.MappingAt(address);
      if (!frames.ends.empty() && address >= frames.ends.back() && mapping != nullptr && mapping->name != "[stack]") {
        // Static thread-local variables are between the outermost frame and the control block.
        last_holder_ = Numbered(RootKind::kThreadBlock, fmt::format("thread-local variables of {}", ThreadText(thread)),
                                thread.number);
        break;
      }
      const auto frame = FrameHolding(address, thread.sp, frames.ends);
      std::string name = fmt::format("stack of {}", ThreadText(thread));
      if (frame.has_value() && frame->frame < frames.functions.size()) {
        name += ": " + frames.functions[frame->frame];
      } else if (!frames.ends.empty() && address < thread.sp && !frames.functions.empty()) {
        name += ": " + frames.functions[0];  // below the stack pointer
      }
      last_holder_ = Numbered(root.kind, std::move(name), thread.number);
      break;
    }
    case RootKind::kThreadBlock: {
      const TargetThread& thread = space_.threads()[root.index];
      last_range_ = root.range;
      last_holder_ =
          Numbered(root.kind, fmt::format("thread-local variables of {}", ThreadText(thread)), thread.number);
      break;
    }
    case RootKind::kMapping: {
      const MemoryMapping& mapping = space_.mappings()[root.index];
      const std::string mapped = sources_.name_of_mapped ? sources_.name_of_mapped(address) : "";
      last_range_ = mapped.empty() ? root.range : MemoryRange{address, address + sizeof(uint64_t)};
      last_holder_ =
          Numbered(root.kind,
                   !mapped.empty()        ? mapped
                   : mapping.name.empty() ? fmt::format("mapping at {:#x}, {}", mapping.start,
                                                        FormatSize(static_cast<int64_t>(mapping.end - mapping.start)))
                                          : fmt::format("mapping {}", Printable(mapping.name)),
                   0);
      break;
    }
    case RootKind::kGap:
      last_range_ = root.range;
      last_holder_ = Numbered(root.kind, "memory of the allocator, or of blocks that are not known", 0);
      break;
    case RootKind::kRegisters:
      return HolderOfRegister(root.index);
    case RootKind::kKernel:
      return HolderOfKernelWord();
  }
  ++holders_[last_holder_].pointers;
  return last_holder_;
}

uint32_t HolderNames::HolderOfRegister(uint32_t thread) {
  const TargetThread& one = space_.threads()[thread];
  const uint32_t holder = Numbered(RootKind::kRegisters, fmt::format("registers of {}", ThreadText(one)), one.number);
  ++holders_[holder].pointers;
  return holder;
}
uint32_t HolderNames::HolderOfKernelWord() {
  const uint32_t holder = Numbered(RootKind::kKernel, "kernel: epoll, timers", 0);
  ++holders_[holder].pointers;
  return holder;
}

std::string HolderNames::PlaceOf(const RootRange& root, uint64_t address) {
  std::string place;
  if (root.kind == RootKind::kData) {
    uint64_t end;
    VariableAt(address, &end, &place);
    return place;
  }
  return holders_[HolderOf(root, address)].name;
}

bool HolderNames::IsInFile(uint64_t address) const {
  const MemoryMapping* mapping = space_.MappingAt(address);
  return mapping != nullptr && mapping->readable && mapping->name.starts_with('/');
}

// An object with virtual functions begins with the address of its vtable; before that are the distance to the top of
// the object and the type.
std::string HolderNames::ClassAt(uint64_t vtable) {
  int64_t head[2];  // distance, type
  if (!IsInFile(vtable) || !space_.Read(vtable - sizeof head, head, sizeof head)) return "";
  if (head[0] > 0 || head[0] < -kFarthestTop) return "";
  const auto type = static_cast<uint64_t>(head[1]);
  if (type == 0) {  // compiled without type information
    const ModuleInfo* module = ModuleAt(vtable);
    const DataSymbols* variables = module == nullptr ? nullptr : VariablesOf(*module);
    if (variables == nullptr) return "";
    const std::string name = Demangle(variables->Find(vtable - module->bias));
    constexpr std::string_view kVtable = "vtable for ";
    return name.starts_with(kVtable) ? Printable(name.substr(kVtable.size())) : "";
  }
  uint64_t about[2];  // its own vtable, name
  char text[kMaxClassName];
  if (type % sizeof(uint64_t) != 0 || !space_.Read(type, about, sizeof about) || !IsInFile(about[0]) ||
      !IsInFile(about[1]))
    return "";
  size_t length = sizeof text;
  while (length > 1 && !space_.Read(about[1], text, length)) length /= 2;
  const std::string_view all(text, length);
  std::string_view mangled = all.substr(0, all.find('\0'));
  if (mangled.size() == all.size() || mangled.size() < 2) return "";
  if (mangled[0] == '*') mangled.remove_prefix(1);
  if (!std::all_of(mangled.begin(), mangled.end(), [](char c) { return c > ' ' && c < 127; })) return "";
  constexpr std::string_view kOfType = "typeinfo name for ";
  const std::string name = Demangle(fmt::format("_ZTS{}", mangled));
  return name.starts_with(kOfType) ? Printable(name.substr(kOfType.size())) : "";
}

uint16_t HolderNames::ClassOf(uint64_t first_word) {
  if (first_word < kSmallestPage || first_word % sizeof(uint64_t) != 0 || first_word > kPcMask) return 0;
  const auto known = classes_.find(first_word);
  if (known != classes_.end()) return known->second;
  if (!IsInFile(first_word) || classes_.size() >= kMaxVtables) return 0;
  const std::string name = ClassAt(first_word);
  uint16_t number = 0;
  if (!name.empty() && class_names_.size() < kMaxClasses) {
    const auto [place, added] = class_numbers_.emplace(name, static_cast<uint16_t>(class_names_.size()));
    if (added) class_names_.push_back(name);
    number = place->second;
  }
  classes_.emplace(first_word, number);
  return number;
}

}  // namespace holdfast
