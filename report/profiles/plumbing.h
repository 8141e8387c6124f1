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
//   - allocators that only forward: a function whose name ends in malloc, calloc, realloc, strdup … (zmalloc_usable), and
//     below which every stack of the profile goes straight to the leaf, by nothing but plumbing. One that merely ends in
//     alloc or allocate has to have two callers besides: one caller's own function is rather whose the memory is
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
  // Its name; of code without a name in a library, who entered the library, with the library. The leaf's where all is
  // plumbing, "?" of an empty stack.
  std::string OwnerName(std::span<const uint32_t> frames);

 private:
  explicit Plumbing(const Profile& profile) : profile_(profile) {}
  void FindForwarders();
  bool DropDoubtful();  // one round; whether any dropped out
  std::string_view NameOf(uint32_t location, size_t line) const;
  std::string_view ObjectOf(uint32_t mapping) const;

  const Profile& profile_;
  std::vector<Pattern> patterns_;
  std::vector<int8_t> by_function_, by_object_;  // -1: not asked yet
  std::vector<uint8_t> forwards_;                // by function
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_PLUMBING_H_
