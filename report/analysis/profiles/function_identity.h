// Recognizes one function under the different names that compilers give to its parts and copies. Pure functions, any
// thread.
//
//   SourceName        identifies a function within one build: drops what the optimizer and the linker add
//     parse_body.constprop.0.isra.1                 parse_body
//     app::Load(int) [clone .cold]                  app::Load(int)
//     core::fmt::write::h0123456789abcdef           core::fmt::write
//
//   NameAcrossBuilds  identifies a function across two builds: also drops numbers that shift when code is added before it
//     main::{lambda(int)#2}::operator()(int) const  main::{lambda}::operator()(int) const
//     app::$_3::operator()(int)                     app::$_::operator()(int)
//     app[c0ffee]::run::{closure#1}                 app::run::{closure}
//     [unknown]!0x7f12a0001234                      [unknown]
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_FUNCTION_IDENTITY_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_FUNCTION_IDENTITY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/profile/profile.h"

namespace holdfast {

std::string SourceName(std::string_view name);
std::string NameAcrossBuilds(std::string_view name);

// Drops the result type and the parameters: "void app::Load<int>(int) const" becomes "app::Load<int>". Matches
// functions with debug information to those without.
std::string NameWithoutParameters(std::string_view name);

// Sets each function's name to its SourceName. If a function has no system name, the old name becomes its system name.
void NameFunctionsBySource(Profile* profile);

// Reads a file for a view: ReadPprofFile, then NameFunctionsBySource.
absl::StatusOr<Profile> ReadProfileToView(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_FUNCTION_IDENTITY_H_
