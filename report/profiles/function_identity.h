// One function under the different names that compilers give to parts and copies of it. Pure functions, any thread.
//
//   SourceName        one function of one build: without what the optimizer and the linker add
//     parse_body.constprop.0.isra.1                 parse_body
//     app::Load(int) [clone .cold]                  app::Load(int)
//     core::fmt::write::h0123456789abcdef           core::fmt::write
//
//   NameAcrossBuilds  one function of two builds: also without numbers that shift when code is added before it
//     main::{lambda(int)#2}::operator()(int) const  main::{lambda}::operator()(int) const
//     app::$_3::operator()(int)                     app::$_::operator()(int)
//     app[c0ffee]::run::{closure#1}                 app::run::{closure}
//     [unknown]!0x7f12a0001234                      [unknown]
#ifndef HOLDFAST_REPORT_PROFILES_FUNCTION_IDENTITY_H_
#define HOLDFAST_REPORT_PROFILES_FUNCTION_IDENTITY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/pprof/profile.h"

namespace holdfast {

std::string SourceName(std::string_view name);
std::string NameAcrossBuilds(std::string_view name);

// The name without result and parameters, by which a function with debug information is the one without:
// "app::Load" of "void app::Load<int>(int) const" is app::Load<int>.
std::string NameWithoutParameters(std::string_view name);

// Gives each function its SourceName. A function without a system name keeps the old name as that.
void NameFunctionsBySource(Profile* profile);

// Reads a file for a view: ReadPprofFile, then NameFunctionsBySource.
absl::StatusOr<Profile> ReadProfileToView(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_FUNCTION_IDENTITY_H_
