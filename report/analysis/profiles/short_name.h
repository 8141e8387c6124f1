// Names of functions as people read them: the same on the terminal and on the page. What the compiler wrote out that nobody
// typed is left out, and what follows the name. The whole name stays in the file, and is shown by -v. Pure; any thread.
//
//     std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, Session,
//         std::less<std::__cxx11::basic_string<…> >, std::allocator<std::pair<…> > >::operator[](std::__cxx11::…&&)
//     std::map<std::string, Session>::operator[]
//
//     <alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop
//     Vec<T>::drop
//
// C++: std::__cxx11 and other inline namespaces, default arguments of templates (allocators, comparisons, hashes, deleters,
// traits), ` [clone .part.0]`, `[abi:cxx11]`, results, parameters, a function's own template arguments, and unnamed namespaces
// go. Template arguments of more than kMaxArguments characters become `first, …`. Rust: the paths of the standard library's
// types, allocators, traits, and hashes go.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_SHORT_NAME_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_SHORT_NAME_H_

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

inline constexpr size_t kMaxArguments = 48;

std::string ShortName(std::string_view name);

// Also has the parameters and all template arguments, each list in at most kMaxArguments characters.
std::string LongerName(std::string_view name);

// The names of functions that are shown together, in the same order. Names that would be alike keep their parameters and
// template arguments, and the whole name if these are alike as well.
std::vector<std::string> ShownNames(const std::vector<std::string>& names);

// Drops inline namespaces and marks, which the language itself lets everybody leave out.
std::string WithoutVersions(std::string_view name);
// Removes the result type of a template function: "void app::f<int>(int)" becomes "app::f<int>(int)".
std::string_view WithoutResult(std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_SHORT_NAME_H_
