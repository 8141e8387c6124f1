// Demangles C++ (Itanium ABI) and Rust (legacy and v0) names with libiberty, which also serves binutils and gdb.
//
// Mangled names come from files that anyone may have written. A mangled name of 100 bytes can expand to more text than
// fits into memory, because each back-reference may double it. So both sides are bounded: names longer than
// kMaxMangled, or with a result longer than kMaxDemangled, stay mangled. abi::__cxa_demangle has no such bound.
// Any thread, no state.
#ifndef HOLDFAST_REPORT_NAMES_ELF_DEMANGLE_H_
#define HOLDFAST_REPORT_NAMES_ELF_DEMANGLE_H_

#include <string>
#include <string_view>

namespace holdfast {

inline constexpr size_t kMaxMangled = 16 * 1024;
inline constexpr size_t kMaxDemangled = 64 * 1024;

// Returns the name as people write it, with parameters and without Rust's hash (`…::h0123456789abcdef`). Returns "" if
// `mangled` is not a valid mangled name; show `mangled` itself then.
//     _ZN3foo3barEv → foo::bar()        _ZN4core3fmt5write17h0123456789abcdefE → core::fmt::write        main → ""
std::string Demangle(std::string_view mangled);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_DEMANGLE_H_
