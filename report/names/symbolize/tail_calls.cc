#include "report/names/symbolize/tail_calls.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "report/names/symbolize/mapping_layout.h"
#include "report/names/symbolize/tail_ways.h"
#include "report/profile/profile_kind.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// The function that a stack's innermost frame called. It shows which frames may be missing.
enum class LeafCalls { kAllocation, kMapping, kWait, kAnything };

class Pass {
 public:
  Pass(Profile* profile, ModuleSymbolizer& symbolizer, bool by_dwarf)
      : profile_(*profile), symbolizer_(symbolizer), before_(profile->locations.size()) {
    NumberFiles();
    std::vector<std::vector<uint32_t>> by_file(files_.size());
    for (uint32_t i = 0; i < before_; ++i) {
      const Profile::Location& location = profile->locations[i];
      if (location.mapping != Profile::kNone) by_file[file_of_[location.mapping]].push_back(i);
      by_address_.emplace(location.address, i);
    }
    ways_ = std::make_unique<TailWays>(
        static_cast<uint32_t>(files_.size()), [this](uint32_t file) { return Open(file); }, by_dwarf);
    functions_.resize(before_);
    called_.resize(before_);
    for (uint32_t file = 0; file < files_.size(); ++file) {
      if (!by_file[file].empty()) LookAt(file, by_file[file], by_dwarf);
    }
  }

  std::vector<uint32_t> Run() {
    const std::string_view kind = profile_.process().kind;
    const LeafCalls calls = kind == "map"        ? LeafCalls::kMapping
                            : IsMemoryKind(kind) ? LeafCalls::kAllocation
                                                 : LeafCalls::kWait;
    std::vector<uint32_t> made;
    for (size_t i = 0; i < profile_.samples.size(); ++i) {
      if (Complete(profile_.FramesOf(profile_.samples[i]), calls, &made)) profile_.SetFrames(i, made);
    }
    CompleteLockStacks();
    return std::move(gaps_);
  }

 private:
  using Added = std::vector<uint32_t>;  // locations, innermost first

  // A file may have several mappings, one for each executable segment.
  struct File {
    uint32_t mapping;  // the first mapping
    uint64_t bias = 0;
    bool is_there = true;
  };

  void NumberFiles() {
    absl::flat_hash_map<std::tuple<StringId, StringId, uint64_t>, uint32_t> known;
    for (uint32_t i = 0; i < profile_.mappings.size(); ++i) {
      const Profile::Mapping& mapping = profile_.mappings[i];
      const auto [place, added] = known.try_emplace({mapping.file, mapping.build_id, BiasOf(mapping, nullptr)},
                                                    static_cast<uint32_t>(files_.size()));
      if (added) files_.push_back({.mapping = i});
      file_of_.push_back(place->second);
    }
  }

  // Opens one module at a time, because a program may have a thousand.
  ModuleSymbolizer::Module* Open(uint32_t number) {
    File& file = files_[number];
    if (!file.is_there) return nullptr;
    if (number == open_number_ && open_ != nullptr) return open_.get();
    const Profile::Mapping& mapping = profile_.mappings[file.mapping];
    auto found = symbolizer_.Find(std::string(profile_.strings[mapping.file]), profile_.strings[mapping.build_id],
                                  mapping.has_bias ? 0 : profile_.time_nanos, mapping.bias);
    file.is_there = found.ok() && FitsLayout(mapping, **found);
    if (!file.is_there) return nullptr;
    file.bias = BiasOf(mapping, *found);
    open_ = symbolizer_.Latest();
    open_number_ = number;
    return open_.get();
  }

  // In address order, because the file is read in pieces.
  void LookAt(uint32_t file, std::vector<uint32_t>& locations, bool by_dwarf) {
    ModuleSymbolizer::Module* module = Open(file);
    if (module == nullptr) return;
    std::sort(locations.begin(), locations.end(),
              [&](uint32_t a, uint32_t b) { return profile_.locations[a].address < profile_.locations[b].address; });
    if (by_dwarf) {
      std::vector<uint64_t> addresses;
      addresses.reserve(locations.size());
      for (const uint32_t i : locations) addresses.push_back(profile_.locations[i].address - files_[file].bias);
      module->LoadLines(addresses, Deadline::Never());
    }
    for (const uint32_t i : locations) {
      const uint64_t address = profile_.locations[i].address - files_[file].bias;
      functions_[i] = ways_->FunctionAt(file, address);
      // A restored frame needs no lookup of what it called.
      if (!profile_.locations[i].is_tail_call) called_[i] = CalledAt(file, address);
    }
  }

  // For a wrapped function the library's wrapper was called instead, so the callee is unknown.
  uint32_t CalledAt(uint32_t file, uint64_t address) {
    const uint32_t called = ways_->CalledAt(file, address);
    const std::string_view name = ways_->NameOf(called);
    return IsWrappedWait(name) || IsWrappedAllocation(name) || IsWrappedMapping(name) ? TailWays::kUnknown : called;
  }

  // Returns false if the stack stays unchanged, which is the usual case after one check of each pair of frames.
  bool Complete(std::span<const uint32_t> frames, LeafCalls calls, std::vector<uint32_t>* made) {
    if (frames.empty()) return false;
    bool lacks = !AtLeaf(frames[0], calls).empty();
    for (size_t i = 0; i + 1 < frames.size(); ++i) {
      const uint32_t called = called_[frames[i + 1]];
      if (called == TailWays::kUnknown || called == functions_[frames[i]]) continue;
      lacks = !Between(frames[i + 1], frames[i]).empty() || lacks;
    }
    if (!lacks) return false;
    *made = AtLeaf(frames[0], calls);
    for (size_t i = 0; i < frames.size(); ++i) {
      made->push_back(frames[i]);
      if (i + 1 == frames.size()) break;
      const Added& between = Between(frames[i + 1], frames[i]);
      made->insert(made->end(), between.begin(), between.end());
    }
    return true;
  }

  const Added& Between(uint32_t outer, uint32_t inner) {
    const uint32_t called = called_[outer], found = functions_[inner];
    const auto [place, added] = between_.try_emplace({called, found});
    if (added && called != TailWays::kUnknown && found != TailWays::kUnknown)
      place->second = LocationsOf(ways_->WayTo(called, found));
    return place->second;
  }

  // The leaf called either the sampled function, or a function that left for it by a tail call.
  Added AtLeaf(uint32_t leaf, LeafCalls calls) {
    if (called_[leaf] == TailWays::kUnknown || calls == LeafCalls::kAnything) return {};
    const auto [place, added] = at_leaf_.try_emplace({called_[leaf], calls});
    if (added) {
      place->second = LocationsOf(ways_->WayTo(called_[leaf], calls == LeafCalls::kAllocation ? &IsWrappedAllocation
                                                              : calls == LeafCalls::kMapping  ? &IsWrappedMapping
                                                                                              : &IsWrappedWait));
    }
    return place->second;
  }

  Added LocationsOf(const std::vector<TailWays::Step>& steps) {
    Added locations;
    for (const TailWays::Step& step : steps) {
      const uint64_t address = step.address + files_[step.module].bias;
      const auto [place, added] = by_address_.try_emplace(address, static_cast<uint32_t>(profile_.locations.size()));
      if (added) {
        profile_.locations.push_back(
            {.address = address, .mapping = MappingOf(address, step.module), .is_tail_call = true});
        functions_.push_back(ways_->FunctionAt(step.module, step.address));
        called_.push_back(TailWays::kUnknown);
        if (step.by_pointer) gaps_.push_back(place->second);
      }
      locations.push_back(place->second);
    }
    std::reverse(locations.begin(), locations.end());
    return locations;
  }

  uint32_t MappingOf(uint64_t address, uint32_t file) const {
    for (uint32_t i = 0; i < profile_.mappings.size(); ++i) {
      const Profile::Mapping& mapping = profile_.mappings[i];
      if (file_of_[i] == file && address >= mapping.start && address < mapping.limit) return i;
    }
    return files_[file].mapping;
  }

  // A stack where a block was allocated calls an allocation. A frame's stack was not sampled but walked, so that its leaf may call
  // anything. The others wait or release.
  void CompleteLockStacks() {
    if (!profile_.records().locks.has_value()) return;
    record::Locks& locks = *profile_.mutable_records()->locks;
    std::vector<LeafCalls> calls(locks.stack.size(), LeafCalls::kWait);
    for (const record::Lock& lock : locks.lock) {
      if (lock.block_stack == 0 || lock.block_stack > calls.size()) continue;
      calls[lock.block_stack - 1] = lock.block_bytes != 0 ? LeafCalls::kAllocation : LeafCalls::kAnything;
    }
    std::vector<uint32_t> made;
    for (size_t i = 0; i < locks.stack.size(); ++i) {
      if (Complete(locks.stack[i], calls[i], &made)) locks.stack[i] = made;
    }
  }

  Profile& profile_;
  ModuleSymbolizer& symbolizer_;
  const size_t before_;
  std::vector<File> files_;
  std::vector<uint32_t> file_of_;  // by mapping
  uint32_t open_number_ = 0;
  std::shared_ptr<ModuleSymbolizer::Module> open_;
  std::unique_ptr<TailWays> ways_;
  std::vector<uint32_t> functions_, called_;            // by location
  std::vector<uint32_t> gaps_;                          // locations after which functions may be missing
  absl::flat_hash_map<uint64_t, uint32_t> by_address_;  // the first location of each address
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Added> between_;
  absl::flat_hash_map<std::pair<uint32_t, LeafCalls>, Added> at_leaf_;
};

bool IsOurs(const Profile& profile) {
  const std::string_view kind = profile.process().kind;
  return IsMemoryKind(kind) || IsWaitKind(kind);
}

}  // namespace

std::vector<uint32_t> AddTailCalls(Profile* profile, ModuleSymbolizer& symbolizer, bool by_dwarf) {
  if (!IsOurs(*profile)) return {};
  return Pass(profile, symbolizer, by_dwarf).Run();
}

bool IsWrappedAllocation(std::string_view name) {
  // interpose/base/wrapped.inc and operators.inc list them individually; a test compares the lists.
  constexpr std::array<std::string_view, 9> kNames = {"malloc",       "calloc",         "realloc",
                                                      "reallocarray", "posix_memalign", "aligned_alloc",
                                                      "memalign",     "valloc",         "pvalloc"};
  return name.starts_with("_Znw") || name.starts_with("_Zna") ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool IsWrappedMapping(std::string_view name) {
  constexpr std::array<std::string_view, 7> kNames = {"mmap", "mmap64", "mremap", "brk", "sbrk", "shmat", "syscall"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool IsWrappedWait(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {"pthread_mutex_",
                                                       "pthread_rwlock_",
                                                       "pthread_cond_",
                                                       "pthread_spin_",
                                                       "pthread_barrier_",
                                                       "pthread_once",
                                                       "pthread_join",
                                                       "pthread_timedjoin",
                                                       "pthread_clockjoin",
                                                       "sem_",
                                                       "mtx_",
                                                       "cnd_"};
  return name == "syscall" || name == "call_once" || name == "thrd_join" ||
         std::any_of(kNames.begin(), kNames.end(), [&](std::string_view start) { return name.starts_with(start); });
}

}  // namespace holdfast
