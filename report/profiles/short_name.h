// Shortens function names: removes what the compiler wrote out and nobody typed. Files keep the whole name; -v shows
// it. Pure; any thread.
//
//   std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, Session,
//       std::less<std::__cxx11::basic_string<…> >, std::allocator<std::pair<…> > >::operator[](std::__cxx11::…&&)
//   std::map<std::string, Session>::operator[](std::string&&)
//
//   <alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop
//   <Vec<T,A> as Drop>::drop
//
// C++: removes std::__cxx11 and other inline namespaces, default template arguments (allocators, comparisons, hashes,
// deleters, traits), ` [clone .part.0]`, `[abi:cxx11]`, and the result type of template functions. Shortens lists of
// more than kMostArguments characters to `first, …`. Rust: removes the paths of the standard library's types,
// allocators, and hashes.
#ifndef HOLDFAST_REPORT_PROFILES_SHORT_NAME_H_
#define HOLDFAST_REPORT_PROFILES_SHORT_NAME_H_

#include <string>
#include <string_view>

namespace holdfast {

inline constexpr size_t kMostArguments = 48;

std::string ShortName(std::string_view name);

// Removes inline namespaces and ABI marks, which source code may omit.
std::string WithoutVersions(std::string_view name);
// Removes the result type of a template function: "void app::f<int>(int)" becomes "app::f<int>(int)".
std::string_view WithoutResult(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_SHORT_NAME_H_
