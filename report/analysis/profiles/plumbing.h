// Decides which function owns a sample: the first function from the leaf that is not plumbing, that is, not code that
// every program is built on.
//
//     zmalloc_usable  _sdsnewlen  hashTypeSet  hsetCommand …           _sdsnewlen: zmalloc_usable only forwards to malloc
//     std::__new_allocator::allocate  std::vector<int>::push_back  app::Load      app::Load
//     __gthread_mutex_unlock  std::mutex::unlock  ~lock_guard  slow_flush         slow_flush, inlined or not
//     libx264.so.164!0x1234  x264_encoder_encode  avcodec_send_frame  ffmpeg!0x2ad64    x264_encoder_encode (libx264.so.164)
//
// All views use this one rule. Files contain nothing of it, and it does not change totals. Plumbing is
//   - system code (IsSystemFrame): libc, libstdc++, std::, core::, alloc::
//   - by header or source file: the C++ and Rust libraries, abseil, boost, folly
//   - by namespace or prefix of a name: the same, hashbrown, parking_lot; __gthread_, pthread_, g_mutex_, PyThread_ …
//   - by object: libabsl_*, libboost_*, libglib-2.0, libjemalloc …
//   - operator new and delete, including those of a class
//   - funnels: functions on the way to malloc or to a lock that call nothing else. In every stack of the profile, only plumbing
//     is between a funnel and the leaf. The clearer the name, the less other evidence is needed:
//         ends in malloc, calloc, strdup …, in rdlock, wrlock, or in lock, wait … after
//         mutex, semaphore …              none: zmalloc_usable, psi_mutex_lock
//         ends in alloc or allocate       two callers, or one that is a container or has
//                                         such a name itself                               ngx_alloc
//         contains such a word            three callers                                    init_alloc_root, LWLockAcquire
//         is unknown                      three callers, or only funnels with such names   postgres!0x5c78fb below palloc
//         says nothing                    three callers, more than nine tenths of all stacks go through it, and no funnel with
//                                         a clear name is below it
//     A caller is the first function above that is not plumbing. In the last two cases, main and other functions that a thread
//     starts with are no callers: the only function of a small program remains the owner
//   - pools: functions that get large pieces of memory and hand out parts. One caller is enough, because the library does not see
//     the parts. A pool maps memory (profiles of mappings), or nearly all its blocks are large and have one size or powers of two.
//     Its name contains a word for allocating or for a pool: Slab::get, arena_grow, new_chunk. In profiles of mappings, a function
//     with any name is a pool if nearly all mappings come from it and two functions call it. If it has only one caller, and two
//     functions call that caller, both are pools
//   - code of a JIT compiler that nothing names, because its addresses differ from run to run
//   - an interpreter (libpython, libjvm, node …) and its runtime (node:internal, the JDK, Python's standard library), if a perf
//     map names any other function, or if at least half of all stacks contain a function of an extension or of the program that
//     embeds the interpreter
//   - functions, source files and objects that match the user's patterns
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_PLUMBING_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_PLUMBING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "report/base/pattern.h"
#include "report/profile/profile.h"

namespace holdfast {

// Judges one function without the rules that need a whole profile. "" = unknown.
bool IsPlumbing(std::string_view function, std::string_view file, std::string_view object);

// Whether a function has no name, but only its file and address (libfoo.so.1!0x1234), or nothing.
bool IsNameless(std::string_view name);

// Whether a function may be an allocator that only forwards, by its name. 0: no; 1: it ends in alloc; 2: in malloc or
// the like.
int ForwardsByName(std::string_view function);

// How clearly a name belongs to a funnel. kPool: it may be a pool's, or something else's.
enum class FunnelHint : uint8_t { kNone, kPool, kWord, kAlloc, kSure };
FunnelHint FunnelHintOf(std::string_view function);

// Whether a frame belongs to an interpreter.
bool IsInterpreter(std::string_view function, std::string_view object);

// Answers for one profile, which must outlive it. Built in one pass over the stacks if an allocator's name occurs.
class Plumbing {
 public:
  // The messages of errors name the option.
  static absl::StatusOr<Plumbing> Make(const Profile& profile, const std::vector<std::string>& patterns);

  // Whether a function at a location is plumbing; a location may contain several inlined functions. For a location
  // without lines, ask about its object.
  bool Holds(uint32_t function, uint32_t mapping);
  bool HoldsObject(uint32_t mapping);

  // Returns the first frame from the leaf, and the line in it, that is not plumbing. Returns nothing if all is
  // plumbing.
  struct Place {
    size_t frame = 0, line = 0;
  };
  std::optional<Place> OwnerOf(std::span<const uint32_t> frames);
  // Whether the function calls anything other than plumbing in any stack of the profile.
  bool CallsUsers(uint32_t function);
  // Returns the owner's name. For unnamed code in a library, returns the function that entered the library, with the
  // library's name. If all is plumbing, returns the leaf's name, or "[thread function]" if the function that the thread
  // runs left by a tail call; for an empty stack, "?".
  std::string OwnerName(std::span<const uint32_t> frames);
  // The same, but returns nothing if all is plumbing or the owner has no name. Equal names mean one function.
  std::optional<std::string> NamedOwner(std::span<const uint32_t> frames);

 private:
  explicit Plumbing(const Profile& profile) : profile_(profile) {}
  // kMaybe: a pool if its caller is one.
  enum class PoolState : uint8_t { kNo, kMaybe, kYes, kRefuted };
  struct Funnel;
  struct Pool;
  struct Owned;
  bool IsPlain(uint32_t function, uint32_t mapping);  // by name, file or object alone
  bool IsInterpreterAt(uint32_t function, uint32_t mapping);
  bool IsOnlyThreadStart(std::span<const uint32_t> frames) const;
  std::optional<Place> FirstOf(std::span<const uint32_t> frames, bool without_interpreters);
  // The outermost function of each sample, and how many samples have it.
  struct Starts {
    std::vector<uint32_t> of;
    size_t known = 0;
  };
  // A function at a location. The passes over all frames read these instead of the profile, because they fit into the
  // processor's caches.
  struct Call {
    uint32_t function;
    uint32_t name : 31;  // name_of_[function]
    uint32_t is_plain : 1;
  };
  std::span<const Call> CallsAt(uint32_t location) const {
    return {calls_.data() + first_call_[location], first_call_[location + 1] - first_call_[location]};
  }
  void NumberNames();
  void ReadCalls();
  Starts FindStarts();
  std::vector<uint32_t> NamesInNearlyAll(const Starts& starts) const;
  void FindFunnels(const Starts& starts);
  // Returns the first line at a location that is not plumbing; kNone: none.
  uint32_t FirstLineAt(uint32_t location, bool without_interpreters);
  // One round: drops candidates that the evidence refutes. Returns whether it dropped any.
  bool DropDoubtful(const Starts& starts, std::vector<Funnel>* funnels);
  void FindPools(const Starts& starts);
  std::optional<Owned> OwnedBy(std::span<const uint32_t> frames, uint32_t start);
  void RefutePools();
  void FindInterpreters();
  std::string_view NameOf(uint32_t location, size_t line) const;
  std::string_view ObjectOf(uint32_t mapping) const;

  const Profile& profile_;
  std::vector<Pattern> patterns_;
  std::vector<int8_t> by_function_, by_object_;  // -1: not asked yet
  std::vector<uint32_t> name_of_;                // per function: the first one with its name
  std::vector<bool> is_funnel_;                  // per function
  std::vector<FunnelHint> hints_;                // per function: valid at the first one with its name
  std::vector<Call> calls_;                      // of all locations, innermost first
  std::vector<uint32_t> first_call_;             // per location, and the end
  std::vector<uint8_t> is_unnamed_;              // per location: code without lines in an object that is not plumbing
  std::vector<uint32_t> first_line_, first_line_without_interpreters_;  // per location: FirstLineAt
  std::vector<PoolState> pool_states_;                             // per function: valid at the first one with its name
  std::vector<bool> calls_users_;                                  // likewise; empty: not asked yet
  std::vector<int8_t> interpreter_function_, interpreter_object_;  // -1: not asked yet
  bool has_interpreter_ = false, folds_interpreter_ = false;
};

// Returns the plumbing of a file's profile. The first call makes it, so all calls for a file must give the same
// patterns.
struct ProfileFile;
absl::StatusOr<std::shared_ptr<Plumbing>> PlumbingOf(const ProfileFile& file, const std::vector<std::string>& patterns);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_PLUMBING_H_
