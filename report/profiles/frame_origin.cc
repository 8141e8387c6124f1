#include "report/profiles/frame_origin.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "report/base/base_name.h"

namespace holdfast {
namespace {

bool IsIdentifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

// Where the qualified name begins: a template's return type stands before it ("void app::f<int>(int)").
std::string_view WithoutReturnType(std::string_view name) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<') ++depth;
    if (c == '>' && depth > 0) --depth;
    if (c == '(' && depth == 0 && !name.substr(i).starts_with("(anonymous namespace)")) break;
    if (c == ' ' && depth == 0) {
      const std::string_view before = name.substr(begin, i - begin);
      if (before.find("operator") != std::string_view::npos || before.ends_with("(anonymous")) continue;
      begin = i + 1;
    }
  }
  return name.substr(begin);
}

}  // namespace

std::string PackageOf(std::string_view function, std::string_view object, std::string_view file) {
  // Go: the package's path ends at the first point behind the last slash.
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

bool IsSystemFrame(std::string_view function, std::string_view object) {
  constexpr std::array<std::string_view, 14> kObjects = {
      "libc.so", "libc-", "ld-linux", "libpthread", "libm.so", "libgcc_s",   "libstdc++",
      "[vdso]",  "libdl", "librt.so", "libc++",     "ld-2.",   "libmvec.so", "ld-musl"};
  const std::string_view base = BaseName(object);
  if (std::any_of(kObjects.begin(), kObjects.end(), [&](std::string_view name) { return base.starts_with(name); })) {
    return true;
  }
  constexpr std::array<std::string_view, 9> kNames = {"operator new", "operator delete", "__libc_start",
                                                      "std::",        "__gnu_cxx::",     "__cxxabiv1::",
                                                      "core::",       "alloc::",         "__rust_"};
  const std::string_view name = WithoutReturnType(function);
  if (function == "_start") return true;
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view start) { return function.starts_with(start) || name.starts_with(start); });
}

FrameOrigin OriginOf(std::string_view function, std::string_view object, bool is_program) {
  if (IsSystemFrame(function, object)) return FrameOrigin::kSystem;
  if (function.empty() || object.empty()) return FrameOrigin::kUnknown;
  return is_program ? FrameOrigin::kUser : FrameOrigin::kLibrary;
}

}  // namespace holdfast
