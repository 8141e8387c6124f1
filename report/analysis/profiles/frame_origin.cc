#include "report/analysis/profiles/frame_origin.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "report/base/base_name.h"
#include "report/base/libc_names.h"

namespace holdfast {
namespace {

bool IsIdentifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Returns the position of the bracket that closes the one at `open`, or npos.
size_t ClosingOf(std::string_view name, size_t open) {
  int depth = 0;
  for (size_t i = open; i < name.size(); ++i) {
    if (name[i] == '(') ++depth;
    if (name[i] == ')' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// Drops the result type, which precedes the qualified name of a template ("void app::f<int>(int)").
std::string_view WithoutReturnType(std::string_view name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)", kOperator = "operator";
  int depth = 0;
  size_t begin = 0;
  bool is_operator = false;  // "operator std::string" and "operator new" contain a blank
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<' || c == '{') ++depth;
    if ((c == '>' || c == '}') && depth > 0) --depth;
    if (depth > 0) continue;
    const std::string_view rest = name.substr(i), part = name.substr(begin, i - begin);
    if (c == '(' && rest.starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
    } else if (c == 'o' && rest.starts_with(kOperator) && (i == 0 || !IsIdentifier(name[i - 1]))) {
      is_operator = true;
      i += kOperator.size() - 1 + (rest.substr(kOperator.size()).starts_with("()") ? 2 : 0);
    } else if (c == '(' && (part.ends_with("decltype") || part.ends_with("decltype "))) {
      i = std::min(ClosingOf(name, i), name.size() - 1);
    } else if (c == '(' && begin == i && (rest.starts_with("(*") || rest.starts_with("(&"))) {
      begin = i + 2;  // the result type is a pointer to a function
    } else if (c == '(') {
      break;
    } else if (c == ' ' && !is_operator && !part.ends_with("decltype")) {
      begin = i + 1;
    }
  }
  return name.substr(begin);
}

// Modules of Rust's core and alloc crates, which hold their functions. C++ has namespaces of the same names.
bool IsRustModule(std::string_view module) {
  constexpr std::array<std::string_view, 46> kModules = {
      "alloc", "any",   "array",  "arch",        "ascii",     "async_iter", "backtrace", "borrow",  "boxed", "cell",
      "char",  "clone", "cmp",    "collections", "convert",   "default",    "error",     "escape",  "f32",   "f64",
      "ffi",   "fmt",   "future", "hash",        "hint",      "intrinsics", "iter",      "marker",  "mem",   "net",
      "num",   "ops",   "option", "panic",       "panicking", "pin",        "ptr",       "raw_vec", "rc",    "result",
      "slice", "str",   "string", "sync",        "task",      "vec"};
  return std::find(kModules.begin(), kModules.end(), module) != kModules.end();
}

}  // namespace

std::string PackageOf(std::string_view function, std::string_view object, std::string_view file) {
  // Go: the package's path ends at the first point after the last slash.
  if (const size_t slash = function.rfind('/'); slash != std::string_view::npos && function.find('(') > slash) {
    const size_t point = function.find('.', slash);
    if (point != std::string_view::npos && function.find("::") == std::string_view::npos) {
      return std::string(function.substr(0, point));
    }
  }
  std::string_view name = WithoutReturnType(function);
  if (name.starts_with('<')) name.remove_prefix(1);  // Rust: <app::Tree as core::ops::Drop>::drop
  size_t end = 0;
  while (end < name.size() && IsIdentifier(name[end])) ++end;
  if (end > 0 && name.substr(end).starts_with("::")) return std::string(name.substr(0, end));
  if (!object.empty()) return std::string(BaseName(object));
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos && slash > 0) {
    return std::string(BaseName(file.substr(0, slash)));
  }
  return "?";
}

bool IsRustsPath(std::string_view path) {
  for (const std::string_view crate : {"core::", "alloc::"}) {
    if (!path.starts_with(crate)) continue;
    const std::string_view inner = path.substr(crate.size());
    size_t end = 0;
    while (end < inner.size() && IsIdentifier(inner[end])) ++end;
    return IsRustModule(inner.substr(0, end)) || inner.starts_with("{impl");
  }
  return false;
}

bool IsRustsOwn(std::string_view name) {
  if (!IsRustsPath(name)) return false;
  // Only C++ names have parameters; Rust names have none.
  int depth = 0;
  for (const char c : name) {
    if (c == '<') ++depth;
    if (c == '>' && depth > 0) --depth;
    if (c == '(' && depth == 0) return false;
  }
  return true;
}

bool IsSystemFrame(std::string_view function, std::string_view object) {
  constexpr std::array<std::string_view, 11> kObjects = {"ld-linux",  "libpthread", "libm.so",   "libgcc_s",
                                                         "libstdc++", "[vdso]",     "libdl",     "librt.so",
                                                         "libc++",    "ld-2.",      "libmvec.so"};
  if (IsFileOfGlibc(object) || IsFileOfMusl(object)) return true;
  const std::string_view base = BaseName(object);
  if (std::any_of(kObjects.begin(), kObjects.end(), [&](std::string_view name) { return base.starts_with(name); })) {
    return true;
  }
  constexpr std::array<std::string_view, 7> kNames = {
      "operator new", "operator delete", "__libc_start", "std::", "__gnu_cxx::", "__cxxabiv1::", "__rust_"};
  if (function == "_start") return true;
  const std::string_view name = WithoutReturnType(function);
  return IsRustsOwn(name) ||
         std::any_of(kNames.begin(), kNames.end(), [&](std::string_view start) { return name.starts_with(start); });
}

FrameOrigin OriginOf(std::string_view function, std::string_view object, bool is_program) {
  if (IsSystemFrame(function, object)) return FrameOrigin::kSystem;
  if (function.empty() || object.empty()) return FrameOrigin::kUnknown;
  return is_program ? FrameOrigin::kUser : FrameOrigin::kLibrary;
}

}  // namespace holdfast
