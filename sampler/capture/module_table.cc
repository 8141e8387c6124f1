#include "sampler/capture/module_table.h"

#include <link.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>

#include "sampler/capture/find_object.h"
#include "sampler/capture/free_calls.h"
#include "sampler/capture/lasting_modules.h"
#include "sampler/capture/module_image.h"
#include "sampler/capture/module_path.h"
#include "sampler/capture/module_reading.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/capture/row_cache.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/entry_state.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/module_flags.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/table/shared_table.h"

namespace holdfast {
namespace {

constexpr int kMaxModules = 8192;
constexpr uint32_t kHeads = 1024;
constexpr size_t kLongestModulePath = 4096;

// How many modules may follow each other at one address: one tag is reserved.
constexpr uint16_t kMaxGenerations = (1 << kTagBits) - 1;
constexpr uint16_t TagOf(uint16_t generation) {
  return static_cast<uint16_t>(generation < kNoModuleTag ? generation : generation + 1);
}

struct Entry {
  // Written once, before the entry is published by its head and by `count`.
  uintptr_t dynamic;  // address of its dynamic section: the same when it is loaded at the same place again
  AddressRange readable, elsewhere;
  uint64_t build_id;           // its hash; 0: none, so it never counts as the same module again
  const uint8_t* build_id_at;  // its place in the module
  uint16_t build_id_bytes;
  uint64_t path;        // its hash
  Offset record;        // 0: the table was full
  uint16_t generation;  // larger than that of any earlier module at these addresses
  uint16_t next;        // index + 1 of the next entry with the same hash
  // Change when the module is loaded and unloaded.
  std::atomic<uint64_t> loaded_as;  // LoadedAs() of its link_map
  std::atomic<uint64_t> place;      // PlaceOf() its dynamic section

  uint16_t tag() const { return TagOf(generation); }
};

enum class LoadState : uint8_t { kLoaded, kUnloaded, kLasting };  // kLasting: loaded, and stays

// Kept apart: searched for each new module, and at each dlclose.
constinit AddressRange ranges[kMaxModules] = {};
constinit std::atomic<LoadState> states[kMaxModules] = {};
constinit Entry entries[kMaxModules] = {};
constinit std::atomic<uint16_t> heads[kHeads] = {};
// The words that will show where a module's calls of free go, until they are bound. Null: they are, or the module is
// gone.
constinit std::atomic<const uintptr_t*> free_words[kMaxModules] = {};
constinit std::atomic<uint32_t> free_words_left{0};
constinit std::atomic<uint32_t> free_looks{0};
constexpr uint32_t kLookOneIn = 16;
constinit std::atomic<uint32_t> count{0};
constinit std::atomic<bool> recording{false};  // the try-lock: guards adding entries, and the path's buffer

// Modules without room for a record, so that their frames are not searched again. A slot proves itself, as a row does.
struct Passed {
  std::atomic<uint64_t> key, start, end;
};
constinit Passed passed[64] = {};

std::atomic<LoadState>& StateOf(const Entry& entry) { return states[&entry - entries]; }
AddressRange RangeOf(const Entry& entry) { return ranges[&entry - entries]; }
bool IsUnloaded(const Entry& entry) { return StateOf(entry).load(std::memory_order_relaxed) == LoadState::kUnloaded; }

uintptr_t DynamicOf(const link_map* map) { return reinterpret_cast<uintptr_t>(map->l_ld); }
std::atomic<uint16_t>& HeadOf(uintptr_t dynamic) { return heads[(dynamic >> 4 ^ dynamic >> 14) % kHeads]; }

bool Same(AddressRange a, AddressRange b) { return a.start == b.start && a.end == b.end; }
bool Overlap(AddressRange a, AddressRange b) { return a.start < b.end && b.start < a.end; }

uint64_t Hash(const void* bytes, size_t length, uint64_t hash) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  const auto* at = static_cast<const char*>(bytes);
  hash += length;
  for (uint64_t word = 0; length > 0; word = 0) {
    const size_t part = length < sizeof(word) ? length : sizeof(word);
    memcpy(&word, at, part);
    hash = (hash ^ word) * kMix;
    hash ^= hash >> 29;
    at += part;
    length -= part;
  }
  return hash;
}

// Least generation of a module that is loaded over this one's addresses.
uint16_t After(const Entry& entry) { return static_cast<uint16_t>(entry.generation + 1); }

// Distinguishes one loaded module from the next at the same addresses: ld.so reuses the memory of a link_map.
uint64_t LoadedAs(const link_map* map) {
  return Hash(map->l_name, strnlen(map->l_name, kLongestModulePath), reinterpret_cast<uintptr_t>(map));
}

// Asks the loader about the code at `dynamic`, without reading the link_map, which another thread may be freeing; 0:
// nothing is loaded there.
uint64_t PlaceOf(uintptr_t dynamic) {
  dl_find_object found;
  if (!FindObject(dynamic, &found)) return 0;
  const void* const said[] = {found.dlfo_link_map, found.dlfo_map_start, found.dlfo_map_end, found.dlfo_eh_frame};
  return Hash(said, sizeof said, 0) | 1;
}

uint64_t BuildIdHash(const uint8_t* build_id, size_t bytes) { return bytes == 0 ? 0 : Hash(build_id, bytes, 0) | 1; }
uint64_t BuildIdHash(const ModuleImage& image) { return BuildIdHash(image.build_id, image.build_id_bytes); }

bool SameCode(const Entry& entry, uint64_t build_id, AddressRange range) {
  return build_id != 0 && entry.build_id == build_id && Same(RangeOf(entry), range);
}

bool IsLoaded(const Entry& entry, uintptr_t dynamic, uint64_t loaded_as) {
  return entry.dynamic == dynamic && !IsUnloaded(entry) && entry.loaded_as.load(std::memory_order_relaxed) == loaded_as;
}

const Entry* FindLoaded(const link_map* map) {
  // Acquire: pairs with the release in Record; `next` of a published entry never changes.
  const uint64_t loaded_as = LoadedAs(map);
  const uintptr_t dynamic = DynamicOf(map);
  uint16_t index = HeadOf(dynamic).load(std::memory_order_acquire);
  for (; index != 0; index = entries[index - 1].next) {
    if (IsLoaded(entries[index - 1], dynamic, loaded_as)) return &entries[index - 1];
  }
  return nullptr;
}

// While a module is being unloaded, another one may be loaded at its addresses, under the same name.
bool RemainsLoaded(const Entry& entry) {
  if (PlaceOf(entry.dynamic) != entry.place.load(std::memory_order_relaxed)) return false;
  if (entry.build_id_bytes == 0) return true;
  const auto at = reinterpret_cast<uintptr_t>(entry.build_id_at);
  const uintptr_t last = at + entry.build_id_bytes - 1;
  return PageReadable(at) && (PageOf(at) == PageOf(last) || PageReadable(last)) &&
         BuildIdHash(entry.build_id_at, entry.build_id_bytes) == entry.build_id;
}

// The same where another thread may unload the module now: a copy by the kernel fails instead of faulting.
bool RemainsLoadedUnseen(const Entry& entry) {
  if (PlaceOf(entry.dynamic) != entry.place.load(std::memory_order_relaxed)) return false;
  uint8_t copy[64];
  const size_t bytes = entry.build_id_bytes;
  const iovec here = {copy, bytes}, there = {const_cast<uint8_t*>(entry.build_id_at), bytes};
  return bytes != 0 && bytes <= sizeof copy &&
         RawSyscall(SYS_process_vm_readv, RawSyscall(SYS_getpid), &here, 1, &there, 1, 0) == static_cast<long>(bytes) &&
         BuildIdHash(copy, bytes) == entry.build_id;
}

const Entry* FindKnown(const dl_find_object& found) {
  const Entry* entry = FindLoaded(found.dlfo_link_map);
  if (entry == nullptr || LIKELY(ModulesStay()) || IsLasting(found.dlfo_link_map) || RemainsLoaded(*entry))
    return entry;
  return BuildIdHash(ReadModuleImage(found, HeaderSearch::kMemory)) == entry->build_id ? entry : nullptr;
}

void ForgetFreeWord(const Entry& entry);

void SetUnloaded(Entry* entry, bool unloaded) {
  StateOf(*entry).store(unloaded ? LoadState::kUnloaded : LoadState::kLoaded, std::memory_order_relaxed);
  SharedTable* const now = CurrentTable();
  if (entry->record != 0 && now != nullptr) {
    // Release: a reader that sees the flag of a module that was loaded again sees the newer modules at its address too.
    std::atomic<uint32_t>& flags = now->At<Module>(entry->record)->unloaded;
    if (unloaded)
      flags.fetch_or(kModuleUnloaded, std::memory_order_release);
    else
      flags.fetch_and(~kModuleUnloaded, std::memory_order_release);
  }
  if (unloaded) ForgetFreeWord(*entry);
}

void ForgetFreeWord(const Entry& entry) {
  if (free_words[&entry - entries].exchange(nullptr, std::memory_order_relaxed) != nullptr)
    free_words_left.fetch_sub(1, std::memory_order_relaxed);
}

void MarkFreesElsewhere(const Entry& entry) {
  SharedTable* const now = CurrentTable();
  if (entry.record != 0 && now != nullptr)
    now->At<Module>(entry.record)->unloaded.fetch_or(kModuleFreesElsewhere, std::memory_order_release);
}

// For a dlopened module that is being read. Repeated after each load, because it may be bound differently.
void LookAtFreeCalls(const Entry& entry, uint64_t bias) {
  const FreeCalls calls = FreeCallsOf(entry.dynamic, RangeOf(entry), bias);
  if (calls.where == FreeCalls::kElsewhere) MarkFreesElsewhere(entry);
  if (calls.where != FreeCalls::kNotYet) return;
  if (free_words[&entry - entries].exchange(calls.word, std::memory_order_relaxed) == nullptr)
    free_words_left.fetch_add(1, std::memory_order_relaxed);
}

struct Path {
  const char* text = "";
  size_t length = 0;
};

Path PathOf(const link_map* map, AddressRange range, const TableHeader& head) {
  const char* name = map->l_name;
  if (TextEquals(name, "linux-vdso.so.1")) return {"[vdso]", 6};
  Path path{name, strnlen(name, kLongestModulePath)};
  if (name[0] != '/') {  // the main program, or loaded by a relative name
    // The header has the path of what the kernel executed: the program, unless the dynamic linker was given its name. The
    // memory map has the same one, and takes a short process several times as long to read.
    const size_t executed = strnlen(head.executable, sizeof head.executable);
    if (head.entry >= range.start && head.entry < range.end && executed > 0 && executed < sizeof head.executable - 1)
      return {head.executable, executed};
    size_t length;
    const char* mapped = FindMappedPath(range.start, &length);
    if (mapped != nullptr) path = {mapped, length < kLongestModulePath ? length : kLongestModulePath};
  }
  return path;
}

// The executable's flags, and its record in the current table; 0: none yet.
constinit std::atomic<uint32_t> executable_flags{0};
constinit std::atomic<Offset> executable_record{0};

void WriteExecutableFlags() {
  SharedTable* const now = CurrentTable();
  const Offset record = executable_record.load();
  if (now != nullptr && record != 0) now->At<Module>(record)->unloaded.fetch_or(executable_flags.load());
}

// Writes and publishes the record. Returns 0 if there is no room.
Offset WriteRecord(SharedTable* now, uint16_t tag, const ModuleImage& image, const Path& path) {
  const size_t segments_bytes = image.segment_count * sizeof(ModuleSegment);
  auto* record = static_cast<Module*>(
      now->Allocate(static_cast<uint32_t>(sizeof(Module) + segments_bytes + image.build_id_bytes + path.length)));
  if (record == nullptr) {
    now->Count(Loss::kModuleTableFull);
    return 0;
  }
  record->tag = tag;
  record->segments = image.segment_count;
  record->start = image.range.start;
  record->end = image.range.end;
  record->bias = image.bias;
  record->build_id_bytes = image.build_id_bytes;
  record->path_bytes = static_cast<uint16_t>(path.length);
  char* tail = reinterpret_cast<char*>(record + 1);
  memcpy(tail, image.segments, segments_bytes);
  tail += segments_bytes;
  if (image.build_id_bytes != 0) memcpy(tail, image.build_id, image.build_id_bytes);
  memcpy(tail + image.build_id_bytes, path.text, path.length);

  const Offset offset = now->OffsetOf(record);
  std::atomic<Offset>& list = now->header()->modules;
  record->next = list.load(std::memory_order_relaxed);
  // Release: a reader that finds the offset finds the whole record.
  while (!list.compare_exchange_weak(record->next, offset, std::memory_order_release, std::memory_order_relaxed)) {
  }
  now->header()->module_count.fetch_add(1, std::memory_order_relaxed);
  return offset;
}

uint64_t KeyOf(const dl_find_object& found, uint64_t start, uint64_t end) {
  const uint64_t said[] = {LoadedAs(found.dlfo_link_map), reinterpret_cast<uintptr_t>(found.dlfo_eh_frame), start, end};
  return Hash(said, sizeof said, 0) | 1;
}
Passed& PassedAt(const dl_find_object& found) {
  return passed[reinterpret_cast<uintptr_t>(found.dlfo_map_start) / kPageBytes % std::size(passed)];
}

bool WasPassed(const dl_find_object& found, ModuleSight* sight) {
  const Passed& slot = PassedAt(found);
  const uint64_t key = slot.key.load(std::memory_order_relaxed);
  if (LIKELY(key == 0) || !(ModulesStay() || IsLasting(found.dlfo_link_map))) return false;
  const uint64_t start = slot.start.load(std::memory_order_relaxed), end = slot.end.load(std::memory_order_relaxed);
  *sight = {kNoModuleTag, true, {start, end}, {}};
  return key == KeyOf(found, start, end);
}

// No room for another record. Its frames have no names.
ModuleSight PassBy(SharedTable* now, const dl_find_object& found, AddressRange readable) {
  now->Count(Loss::kModuleTableFull);
  Passed& slot = PassedAt(found);
  slot.key.store(0, std::memory_order_relaxed);
  slot.start.store(readable.start, std::memory_order_relaxed);
  slot.end.store(readable.end, std::memory_order_relaxed);
  slot.key.store(KeyOf(found, readable.start, readable.end), std::memory_order_relaxed);
  return {kNoModuleTag, true, readable, {}};
}

// Call while holding `recording`.
ModuleSight Record(SharedTable* now, const dl_find_object& found) {
  const ModuleImage image = ReadModuleImage(found, HeaderSearch::kMappings);
  const AddressRange range = image.range;
  const Path path = PathOf(found.dlfo_link_map, range, *now->header());
  const uint64_t build_id = BuildIdHash(image);
  const uint64_t path_hash = Hash(path.text, path.length, 0);
  const uint32_t known = count.load(std::memory_order_relaxed);
  Entry* again = nullptr;
  uint16_t generation = 0;
  bool stale = false;
  for (uint32_t i = 0; i < known; ++i) {
    if (LIKELY(!Overlap(ranges[i], range))) continue;
    Entry& entry = entries[i];
    if (SameCode(entry, build_id, range) && entry.path == path_hash) {
      again = &entry;
      continue;
    }
    generation = std::max(generation, After(entry));
    if (!IsUnloaded(entry)) {  // unloaded unseen: one address has one module
      SetUnloaded(&entry, true);
      stale = true;
    }
  }
  if (stale) ForgetUnloadableRows();
  if (again != nullptr) {
    again->loaded_as.store(LoadedAs(found.dlfo_link_map), std::memory_order_relaxed);
    again->place.store(PlaceOf(again->dynamic), std::memory_order_relaxed);
    SetUnloaded(again, false);
    LookAtFreeCalls(*again, image.bias);
    return {again->tag(), true, again->readable, again->elsewhere};
  }
  if (known == kMaxModules || generation >= kMaxGenerations) return PassBy(now, found, image.readable);
  Entry& entry = entries[known];
  entry.dynamic = DynamicOf(found.dlfo_link_map);
  ranges[known] = range;
  entry.readable = image.readable;
  entry.elsewhere = image.elsewhere;
  entry.build_id = build_id;
  entry.build_id_at = image.build_id;
  entry.build_id_bytes = image.build_id_bytes;
  entry.path = path_hash;
  entry.generation = generation;
  entry.loaded_as.store(LoadedAs(found.dlfo_link_map), std::memory_order_relaxed);
  entry.place.store(PlaceOf(entry.dynamic), std::memory_order_relaxed);
  states[known].store(IsLasting(found.dlfo_link_map) ? LoadState::kLasting : LoadState::kLoaded,
                      std::memory_order_relaxed);
  entry.record = WriteRecord(now, entry.tag(), image, path);
  if (found.dlfo_link_map == FirstObject()) {
    executable_record.store(entry.record);
    WriteExecutableFlags();
  }
  if (!IsLasting(found.dlfo_link_map)) LookAtFreeCalls(entry, image.bias);
  std::atomic<uint16_t>& head = HeadOf(entry.dynamic);
  entry.next = head.load(std::memory_order_relaxed);
  head.store(static_cast<uint16_t>(known + 1), std::memory_order_release);
  count.store(known + 1, std::memory_order_release);
  return {entry.tag(), true, entry.readable, entry.elsewhere};
}

// A module that cannot be recorded now: its future tag, so that its frames are not taken for an older module's. The
// thread that is recording it may meanwhile have finished.
ModuleSight Unrecorded(const dl_find_object& found) {
  const ModuleImage image = ReadModuleImage(found, HeaderSearch::kMemory);
  const uint64_t build_id = BuildIdHash(image), loaded_as = LoadedAs(found.dlfo_link_map);
  const uintptr_t dynamic = DynamicOf(found.dlfo_link_map);
  uint16_t generation = 0;
  const uint32_t known = count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < known; ++i) {
    if (LIKELY(!Overlap(ranges[i], image.range))) continue;
    const Entry& entry = entries[i];
    if (IsLoaded(entry, dynamic, loaded_as) || SameCode(entry, build_id, image.range)) {
      return {entry.tag(), false, image.readable, image.elsewhere};
    }
    generation = std::max(generation, After(entry));
  }
  return {generation < kMaxGenerations ? TagOf(generation) : kNoModuleTag, false, image.readable, image.elsewhere};
}

// Waits about 20 ms at most for a thread that records a module, because a module may never be met again. Counts a
// failure to get the lock.
bool LockRecording(SharedTable* now) {
  if (AwaitBounded(200, [] { return !recording.exchange(true, std::memory_order_acquire); })) return true;
  now->Count(Loss::kModuleTableFull);
  return false;
}

ModuleSight SightUnderLock(SharedTable* now, const dl_find_object& found) {
  if (!LockRecording(now)) return Unrecorded(found);
  // Another thread may have been quicker.
  const Entry* entry = FindKnown(found);
  const ModuleSight sight =
      entry != nullptr ? ModuleSight{entry->tag(), true, entry->readable, entry->elsewhere} : Record(now, found);
  recording.store(false, std::memory_order_release);
  return sight;
}

HOLDFAST_COLD ModuleSight SightModuleSlow(const dl_find_object& found) {
  SharedTable* const now = CurrentTable();
  if (now == nullptr) return Unrecorded(found);
  // A handler that jumped out of here would leave the lock taken for ever, and a descriptor open.
  const SignalsBlocked blocked;
  return SightUnderLock(now, found);
}

}  // namespace

ModuleSight SightModule(const dl_find_object& found) {
  const Entry* entry = FindKnown(found);
  if (LIKELY(entry != nullptr)) return {entry->tag(), true, entry->readable, entry->elsewhere};
  ModuleSight sight;
  return WasPassed(found, &sight) ? sight : SightModuleSlow(found);
}

void SetExecutableFlags(uint32_t flags) {
  executable_flags.fetch_or(flags);
  WriteExecutableFlags();
}

void NoteLiveBlockReturned() {
  const uint32_t flags = executable_flags.load(std::memory_order_relaxed);
  if ((flags & kModuleFreesInlined) == 0 && EntryOutcomeIn(flags).is_redirected())
    SetExecutableFlags(kModuleFreesInlined);
}

void NoteManyFreed() {
  if ((executable_flags.load(std::memory_order_relaxed) & kModuleFreesMany) == 0) SetExecutableFlags(kModuleFreesMany);
}

void MarkUnloadedModules() {
  const uint32_t known = count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < known; ++i) {
    if (states[i].load(std::memory_order_relaxed) != LoadState::kLoaded) continue;
    Entry& entry = entries[i];
    if (PlaceOf(entry.dynamic) != entry.place.load(std::memory_order_relaxed)) SetUnloaded(&entry, true);
  }
}

void MarkModulesUnloadedUnseen() {
  const uint32_t known = count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < known; ++i) {
    if (states[i].load(std::memory_order_relaxed) != LoadState::kLoaded) continue;
    Entry& entry = entries[i];
    // Without a build id nothing tells one module from another. It is recorded once more.
    if (!RemainsLoadedUnseen(entry)) SetUnloaded(&entry, true);
  }
}

void LookAtFreeCallsAgain(bool now) {
  if (LIKELY(free_words_left.load(std::memory_order_relaxed) == 0)) return;
  // A check takes two system calls, and most of these modules may never call free.
  if (!now && free_looks.fetch_add(1, std::memory_order_relaxed) % kLookOneIn != 0) return;
  ModuleReading reading;
  if (!reading.Begin()) return;
  const uint32_t known = count.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < known; ++i) {
    const uintptr_t* word = free_words[i].load(std::memory_order_relaxed);
    if (LIKELY(word == nullptr)) continue;
    const FreeCalls::Where where = WhereTo(__atomic_load_n(word, __ATOMIC_RELAXED), ranges[i]);
    if (where == FreeCalls::kNotYet) continue;
    if (where == FreeCalls::kElsewhere) MarkFreesElsewhere(entries[i]);
    ForgetFreeWord(entries[i]);
  }
}

void ForgetModules() {
  executable_record.store(0, std::memory_order_relaxed);
  for (auto& word : free_words) {
    if (free_words_left.load(std::memory_order_relaxed) == 0) break;
    if (word.exchange(nullptr, std::memory_order_relaxed) != nullptr)
      free_words_left.fetch_sub(1, std::memory_order_relaxed);
  }
  free_words_left.store(0, std::memory_order_relaxed);
  for (auto& head : heads) head.store(0, std::memory_order_relaxed);
  for (Passed& slot : passed) {
    if (slot.key.load(std::memory_order_relaxed) != 0) slot.key.store(0, std::memory_order_relaxed);
  }
  count.store(0, std::memory_order_relaxed);
  recording.store(false, std::memory_order_relaxed);
  ForgetReaders();
  ForgetUnwindRows();
}

}  // namespace holdfast
