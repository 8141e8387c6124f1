// C++ (Itanium ABI) and Rust (legacy and v0) names from mangled ones, by libiberty: the demanglers of binutils and gdb.
//
// Mangled names come from files that anyone may have made, and a mangled name of 100 bytes can stand for more text than
// there is memory (each back-reference may double it). So both ends are bounded: names longer than kMaxMangled, or
// that come out longer than kMaxDemangled, stay mangled. abi::__cxa_demangle has no such bound.
// Any thread, no state.
#ifndef HOLDFAST_REPORT_ELF_DEMANGLE_H_
#define HOLDFAST_REPORT_ELF_DEMANGLE_H_

#include <string>
#include <string_view>

namespace holdfast {

inline constexpr size_t kMaxMangled = 16 * 1024;
inline constexpr size_t kMaxDemangled = 64 * 1024;

// The name as people write it, with parameters; Rust's hash is dropped (`…::h0123456789abcdef`).
// "" when `mangled` is no mangled name, or none that can be read: then it is its own best name.
//     _ZN3foo3barEv → foo::bar()        _ZN4core3fmt5write17h0123456789abcdefE → core::fmt::write        main → ""
std::string Demangle(std::string_view mangled);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_DEMANGLE_H_
