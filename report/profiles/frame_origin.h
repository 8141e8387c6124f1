// What a frame belongs to: a package, and whether it is the system's. Pure functions, any thread. Every view asks here;
// the HTML page gets the answers as columns (report/html/report_builder.h).
//
//   app::json::parse(std::string const&)   libfoo.so    package app       library
//   std::vector<int>::push_back(int&&)     server       package std       system: libstdc++'s internals
//   core::ops::function::call_once         server       package core      system: Rust's
//   __libc_start_call_main                 libc.so.6    package libc.so.6 system
//   main                                   server       package server    user, as server is the program
#ifndef HOLDFAST_REPORT_PROFILES_FRAME_ORIGIN_H_
#define HOLDFAST_REPORT_PROFILES_FRAME_ORIGIN_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast {

// The outermost namespace of the name, else the object's file name, else the folder of the source file, else "?".
std::string PackageOf(std::string_view function, std::string_view object, std::string_view file);

// Whether a name, without a result before it, is of Rust's core or alloc, and not of a C++ namespace that is called so.
bool IsRustsOwn(std::string_view name);
// Whether a path such as core::fmt::Formatter is of these crates, by its module.
bool IsRustsPath(std::string_view path);

// Frames that `--fold system` folds into their callers: libc, ld.so, libpthread, libm, libgcc_s, libstdc++, the
// kernel's vdso, and what C++'s and Rust's own libraries put into the program (std::, __gnu_cxx::, operator new,
// core::, alloc::).
bool IsSystemFrame(std::string_view function, std::string_view object);

// Whose code it is. The numbers stand in HTML reports.
enum class FrameOrigin : uint8_t { kUser = 0, kLibrary = 1, kSystem = 2, kUnknown = 3 };

// System as above; unknown without a name or an object; else the program's or a library's.
FrameOrigin OriginOf(std::string_view function, std::string_view object, bool is_program);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_FRAME_ORIGIN_H_
