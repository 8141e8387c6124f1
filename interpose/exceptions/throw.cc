// Called by the entry points in assembly (interpose/arch) before they jump to the real function, with the caller's
// registers: a throw passes no frame of ours.
//
//     __cxa_throw               counted, by the type in its arguments
//     __cxa_rethrow             counted apart, by the type of the exception in progress; without a type (a cancellation on its way
//                               through `catch (...)`, another language's) it is not counted
//     _Unwind_RaiseException    counts throws from neither: another language's (Rust's panics), std::rethrow_exception, a statically
//                               linked C++ runtime
//
//     _Unwind_Resume_or_Rethrow counts what the program itself throws on, as re-thrown; __cxa_rethrow calls it, too, and it calls
//                               _Unwind_RaiseException: counted once
//
// Forced unwinds (cancellation, pthread_exit) pass uncounted; _Unwind_Resume does not come here.
#include <stdint.h>
#include <string.h>

#include "interpose/arch/entry_points.h"
#include "interpose/base/readiness.h"
#include "interpose/exceptions/throw_functions.h"
#include "sampler/record/throws.h"

using namespace holdfast;

namespace {

// std::type_info, by the Itanium C++ ABI.
struct TypeInfo {
  const void* table;
  const char* name;
};

const char* NameOf(const void* type) { return type != nullptr ? static_cast<const TypeInfo*>(type)->name : nullptr; }

// An exception as the unwinder knows it, and what C++ runtimes keep before it: by that ABI the type is the first of ten
// words. In an exception of libstdc++ that refers to another (std::rethrow_exception), that word is the other one.
struct Raised {
  const void* type_or_other;
  const void* more[9];
  char language[8];  // begins here
  const void* unwinders[3];
};
static_assert(sizeof(Raised) == 112);
constexpr size_t kBeforeRaised = 80, kBeforeObject = 112;

const Raised* HeaderOf(const void* exception) {
  return reinterpret_cast<const Raised*>(static_cast<const char*>(exception) - kBeforeRaised);
}

// Type of a libstdc++ exception that refers to another.
const void* TypeReferredTo(const void* exception) {
  const auto* object = static_cast<const char*>(HeaderOf(exception)->type_or_other);
  return reinterpret_cast<const Raised*>(object - kBeforeObject)->type_or_other;
}

// Eight letters, the first in the highest byte.
constexpr uint64_t Language(const char (&name)[9]) {
  uint64_t language = 0;
  for (int i = 0; i < 8; ++i) language = language << 8 | static_cast<unsigned char>(name[i]);
  return language;
}
constexpr uint64_t kGnu = Language("GNUCC++\0"), kGnuOther = Language("GNUCC++\1");
constexpr uint64_t kClang = Language("CLNGC++\0"), kClangOther = Language("CLNGC++\1");
// Rust's: a number until 2022, since then these bytes in memory.
constexpr uint64_t kRustLanguage = Language("MOZ\0RUST"), kRustInMemory = __builtin_bswap64(kRustLanguage);

uint64_t LanguageOf(const void* exception) {
  uint64_t language;
  memcpy(&language, exception, sizeof language);
  return language;
}

// `bits`: kRethrown, or none.
void RecordRaised(const CallerRegisters& caller, const void* exception, uint8_t bits, uint64_t interval) {
  const uint64_t language = LanguageOf(exception);
  if (language == kGnu || language == kClang)
    return RecordThrow(caller, NameOf(HeaderOf(exception)->type_or_other), bits, interval);
  if (language == kClangOther)
    return RecordThrow(caller, NameOf(HeaderOf(exception)->type_or_other), kRethrown, interval);
  if (language == kGnuOther) return RecordThrow(caller, NameOf(TypeReferredTo(exception)), kRethrown, interval);
  RecordThrow(caller, nullptr, language == kRustLanguage || language == kRustInMemory ? kRust | bits : kForeign | bits,
              interval);
}

// The type of the exception that a thread handles now, by __cxa_get_globals: its first word leads to a C++ runtime's
// record, by that ABI 80 bytes before the exception, in libc++abi 96. Null: another language's, which has no record.
const void* TypeOfCaught(const void* globals) {
  const char* kept = globals != nullptr ? *static_cast<const char* const*>(globals) : nullptr;
  if (kept == nullptr) return nullptr;
  const char* exception = kept + kBeforeRaised;
  const uint64_t language = LanguageOf(exception);
  if (language == kGnu) return HeaderOf(exception)->type_or_other;
  if (language == kGnuOther) return TypeReferredTo(exception);
  constexpr size_t kTwoWords = 16;
  const char* of_clang = exception + kTwoWords;
  return LanguageOf(of_clang) == kClang ? HeaderOf(of_clang)->type_or_other : nullptr;
}

}  // namespace

extern "C" {

HOLDFAST_HIDDEN void* HoldfastThrown(const void* /*object*/, const void* type, uintptr_t pc, uintptr_t sp,
                                     uintptr_t fp) {
  if (UNLIKELY(!Ready())) return ThrowFunctionsFor(pc).cxa_throw;
  if (const uint64_t interval = ThrowDue(); UNLIKELY(interval != 0))
    RecordThrow({pc, sp, fp}, NameOf(type), 0, interval);
  NoteOnItsWay();
  return ThrowFunctionsFor(pc).cxa_throw;
}

HOLDFAST_HIDDEN void* HoldfastRethrown(uintptr_t pc, uintptr_t sp, uintptr_t fp) {
  const ThrowFunctions functions = ThrowFunctionsFor(pc);
  if (UNLIKELY(!Ready())) return functions.cxa_rethrow;
  const void* type = functions.cxa_get_globals != nullptr ? TypeOfCaught(functions.cxa_get_globals()) : nullptr;
  if (const uint64_t interval = type != nullptr ? ThrowDue() : 0; UNLIKELY(interval != 0))
    RecordThrow({pc, sp, fp}, NameOf(type), kRethrown, interval);
  NoteOnItsWay();
  return functions.cxa_rethrow;
}

HOLDFAST_HIDDEN void* HoldfastRaised(const void* exception, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
  const bool known = TakeOnItsWay();
  if (!known && LIKELY(Ready())) {
    if (const uint64_t interval = ThrowDue(); UNLIKELY(interval != 0))
      RecordRaised({pc, sp, fp}, exception, 0, interval);
  }
  return RaiseExceptionFor(pc);
}

HOLDFAST_HIDDEN void* HoldfastResumed(const void* exception, uintptr_t pc, uintptr_t sp, uintptr_t fp) {
  const bool known = TakeOnItsWay();
  // The second word after the language is 0, except in forced unwinds.
  uint64_t forced;
  memcpy(&forced, static_cast<const char*>(exception) + 16, sizeof forced);
  if (forced == 0) {
    if (const uint64_t interval = !known && LIKELY(Ready()) ? ThrowDue() : 0; UNLIKELY(interval != 0))
      RecordRaised({pc, sp, fp}, exception, kRethrown, interval);
    NoteOnItsWay();
  }
  return ResumeOrRethrowFor(pc);
}

}  // extern "C"
