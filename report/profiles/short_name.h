// Names of functions as they can be read: what the compiler wrote out that nobody typed is left out. The whole name stays
// in the file, and is shown by -v. Pure; any thread.
//
//     std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, Session,
//         std::less<std::__cxx11::basic_string<…> >, std::allocator<std::pair<…> > >::operator[](std::__cxx11::…&&)
//     std::map<std::string, Session>::operator[](std::string&&)
//
//     <alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop
//     <Vec<T,A> as Drop>::drop
//
// C++: std::__cxx11 and other inline namespaces, default arguments of templates (allocators, comparisons, hashes, deleters,
// traits), ` [clone .part.0]`, `[abi:cxx11]`, and the result of a template's function go; lists of more than kMostArguments
// characters become `first, …`. Rust: the paths of the standard library's types, allocators, and hashes go.
#ifndef HOLDFAST_REPORT_PROFILES_SHORT_NAME_H_
#define HOLDFAST_REPORT_PROFILES_SHORT_NAME_H_

#include <string>
#include <string_view>

namespace holdfast {

inline constexpr size_t kMostArguments = 48;

std::string ShortName(std::string_view name);

// Drops inline namespaces and marks, which the language itself lets everybody leave out.
std::string WithoutVersions(std::string_view name);
// Drops the result type of a template function: "app::f<int>(int)" of "void app::f<int>(int)".
std::string_view WithoutResult(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_SHORT_NAME_H_
