// The origin of a frame: its package, and whether it is system code. Pure functions, any thread. All views use these
// functions; the HTML page receives their results as columns (report/page/report_builder.h).
//
//   app::json::parse(std::string const&)   libfoo.so    package app       library
//   std::vector<int>::push_back(int&&)     server       package std       system: libstdc++'s internals
//   core::ops::function::call_once         server       package core      system: Rust's
//   __libc_start_call_main                 libc.so.6    package libc.so.6 system
//   main                                   server       package server    user, as server is the program
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_FRAME_ORIGIN_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_FRAME_ORIGIN_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// Returns the outermost namespace of the name, else the object's file name, else the folder of the source file, else
// "?".
std::string PackageOf(std::string_view function, std::string_view object, std::string_view file);

// Whether a name without a result type belongs to Rust's core or alloc crate, and not to a C++ namespace of that name.
bool IsRustsOwn(std::string_view name);
// Whether a path such as core::fmt::Formatter belongs to these crates, judged by its module.
bool IsRustsPath(std::string_view path);

// Whether `--fold system` folds a frame into its caller: libc, ld.so, libpthread, libm, libgcc_s, libstdc++, the
// kernel's vdso, and functions of the C++ and Rust libraries that are compiled into the program (std::, __gnu_cxx::,
// operator new, core::, alloc::).
bool IsSystemFrame(std::string_view function, std::string_view object);

// The owner of a piece of code. HTML reports contain these numbers.
enum class FrameOrigin : uint8_t { kUser = 0, kLibrary = 1, kSystem = 2, kUnknown = 3 };

// Returns kSystem for frames as above, kUnknown without a name or an object, and otherwise the program or a library.
FrameOrigin OriginOf(std::string_view function, std::string_view object, bool is_program);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_FRAME_ORIGIN_H_
