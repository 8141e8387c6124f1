// Whose a sample is: the first function from the leaf on that is not plumbing, that is, not what every program stands on.
//
//     zmalloc_usable  _sdsnewlen  hashTypeSet  hsetCommand …           _sdsnewlen: zmalloc_usable only forwards to malloc
//     std::__new_allocator::allocate  std::vector<int>::push_back  app::Load      app::Load
//     __gthread_mutex_unlock  std::mutex::unlock  ~lock_guard  slow_flush         slow_flush, inlined or not
//     libx264.so.164!0x1234  x264_encoder_encode  avcodec_send_frame  ffmpeg!0x2ad64    x264_encoder_encode (libx264.so.164)
//
// The one rule, for every view; nothing of it is in files, and totals are what they are. Plumbing is
//   - what the system has (IsSystemFrame): libc, libstdc++, std::, core::, alloc::
//   - by header or source file: C++'s and Rust's own libraries, abseil, boost, folly
//   - by namespace or prefix of a name: those, hashbrown, parking_lot; __gthread_, pthread_, g_mutex_, PyThread_ …
//   - by object: libabsl_*, libboost_*, libglib-2.0, libjemalloc …
//   - operator new and delete, also a class's own
//   - funnels: functions on the way to malloc or to a lock that call nothing else, that is, below which every stack of the profile
//     goes straight to the leaf, by nothing but plumbing. The more a name says so the less else it takes:
//         ends in malloc, calloc, strdup …, or in lock, wait … after mutex, semaphore …   zmalloc_usable, psi_mutex_lock
//         ends in alloc or allocate       two callers, or one that is a container          ngx_alloc
//         has such a word                 three callers                                    init_alloc_root, LWLockAcquire
//         says nothing                    three callers, and more than nine tenths of all stacks go through it, and no funnel with
//                                         a telling name is below it
//     A caller is the first function above that is no plumbing. In the last two cases main and what else a thread starts with is no
//     caller: the only function of a small program remains the answer
//   - pools: functions that get large pieces of memory and hand out parts. One caller is enough, as the library does not see the parts.
//     A pool maps memory (profiles of mappings), or nearly all its blocks are large and have one size, or powers of two. Its name
//     has a word for allocating or for a pool: Slab::get, arena_grow, new_chunk. In profiles of mappings a function with any name is
//     a pool if nearly all mappings come from it and two functions call it; so is its only caller, if two functions call that one
//   - code of a JIT compiler that nothing names, as its addresses differ from run to run
//   - an interpreter (libpython, libjvm, node …) and what comes with it (node:internal, the JDK, Python's standard library), if a perf
//     map names any other function, or if at least half of all stacks have a function of an extension or of the program that it is in
//   - what the user's patterns match, by function, source file or object
#ifndef HOLDFAST_REPORT_PROFILES_PLUMBING_H_
#define HOLDFAST_REPORT_PROFILES_PLUMBING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/base/pattern.h"
#include "report/pprof/profile.h"

namespace holdfast {

// Without what has to be seen in a whole profile. "" = not known.
bool IsPlumbing(std::string_view function, std::string_view file, std::string_view object);

// Whether nothing named a function: its file and address stand for it (libfoo.so.1!0x1234), or nothing does.
bool IsNameless(std::string_view name);

// Whether a name is one of an allocator that may only forward: 0 no, 1 it ends in alloc, 2 in malloc or the like.
int ForwardsByName(std::string_view function);

// How much a name says of a funnel. kPool: it may be a pool's, or something else's.
enum class FunnelHint : uint8_t { kNone, kPool, kWord, kAlloc, kSure };
FunnelHint FunnelHintOf(std::string_view function);

// Whether a frame is an interpreter's.
bool IsInterpreter(std::string_view function, std::string_view object);

// Answers for one profile, which outlives it. Made in one pass over the stacks where an allocator's name is met.
class Plumbing {
 public:
  // Errors name the option.
  static absl::StatusOr<Plumbing> Make(const Profile& profile, const std::vector<std::string>& patterns);

  // Of one function at a location: several are inlined there. A location without lines: of its object.
  bool Holds(uint32_t function, uint32_t mapping);
  bool HoldsObject(uint32_t mapping);

  // The first that is not plumbing from the leaf on: which frame, and which of its lines. Nothing when all is plumbing.
  struct Place {
    size_t frame = 0, line = 0;
  };
  std::optional<Place> OwnerOf(std::span<const uint32_t> frames);
  // Whether the profile has a stack in which a function calls something that is no plumbing.
  bool CallsUsers(uint32_t function);
  // Its name; of code without a name in a library, who entered the library, with the library. The leaf's where all is
  // plumbing, "?" of an empty stack.
  std::string OwnerName(std::span<const uint32_t> frames);

 private:
  explicit Plumbing(const Profile& profile) : profile_(profile) {}
  // kMaybe: a pool if the function that calls it is one.
  enum class PoolState : uint8_t { kNo, kMaybe, kYes, kRefuted };
  struct Funnel;
  struct Pool;
  struct Owned;
  bool IsPlain(uint32_t function, uint32_t mapping);  // by name, file or object alone
  bool IsInterpreterAt(uint32_t function, uint32_t mapping);
  std::optional<Place> FirstOf(std::span<const uint32_t> frames, bool without_interpreters);
  void FindFunnels();
  uint32_t StartOf(std::span<const uint32_t> frames);
  // One round; whether any dropped out. `starts`: by sample; `all`: how many have one.
  bool DropDoubtful(const std::vector<uint32_t>& starts, size_t all, std::vector<Funnel>* funnels);
  void FindPools();
  std::optional<Owned> OwnedBy(std::span<const uint32_t> frames, uint32_t start);
  void RefutePools();
  void FindInterpreters();
  std::string_view NameOf(uint32_t location, size_t line) const;
  std::string_view ObjectOf(uint32_t mapping) const;

  const Profile& profile_;
  std::vector<Pattern> patterns_;
  std::vector<int8_t> by_function_, by_object_;  // -1: not asked yet
  std::vector<uint32_t> name_of_;                // by function: the first one of its name
  std::vector<bool> is_funnel_;                  // by function
  std::vector<PoolState> pool_states_;           // by function: of the first one of its name
  std::vector<bool> calls_users_;                // by function: of the first one of its name; empty: not asked yet
  std::vector<int8_t> interpreter_function_, interpreter_object_;  // -1: not asked yet
  bool has_interpreter_ = false, folds_interpreter_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_PLUMBING_H_
