#include "report/analysis/profiles/function_identity.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "report/analysis/profiles/short_name.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef", kDigits = "0123456789";

// Suffixes of symbols from GCC, LLVM, BOLT and ld: ".part.0", ".cold", ".llvm.4711". A number may follow.
constexpr std::array<std::string_view, 18> kNumbered = {
    "constprop", "isra",      "part",    "cold",    "lto_priv", "llvm",    "localalias", "__uniq",      "warm",
    "hot",       "simdclone", "argelim", "argprom", "retelim",  "memprof", "extracted",  "specialized", "default"};
constexpr std::array<std::string_view, 7> kBare = {"cold",  "warm",    "localalias", "resolver",
                                                   "ifunc", "argelim", "argprom"};
// Suffixes from target_clones: one per processor.
constexpr std::array<std::string_view, 3> kProcessors = {"avx", "arch_", "sse"};

template <typename List>
bool Contains(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// "parse.constprop.0.cold" becomes "parse".
std::string_view WithoutSymbolSuffixes(std::string_view name) {
  while (true) {
    const size_t point = name.rfind('.');
    if (point == std::string_view::npos || point == 0) return name;
    const std::string_view last = name.substr(point + 1), before = name.substr(0, point);
    if (Contains(kBare, last) || std::any_of(kProcessors.begin(), kProcessors.end(),
                                             [&](std::string_view start) { return last.starts_with(start); })) {
      name = before;
      continue;
    }
    const size_t earlier = before.rfind('.');
    if (!IsNumber(last) || earlier == std::string_view::npos || earlier == 0) return name;
    const std::string_view word = before.substr(earlier + 1);
    if (!Contains(kNumbered, word) && !word.starts_with("sse")) return name;
    name = before.substr(0, earlier);
  }
}

// "f(int) [clone .part.0] [clone .cold]" and LLVM's "f(int) (.part.0)" become "f(int)".
std::string_view WithoutCloneNotes(std::string_view name) {
  name = name.substr(0, name.find(" [clone "));
  while (name.ends_with(')')) {
    const size_t note = name.rfind(" (.");
    if (note == std::string_view::npos || name.find(')', note) != name.size() - 1) break;
    name = name.substr(0, note);
  }
  return name;
}

std::string_view WithoutRustHash(std::string_view name) {
  constexpr size_t kHash = 19;  // "::h" and 16 digits
  if (name.size() <= kHash) return name;
  const std::string_view end = name.substr(name.size() - kHash);
  const bool is_hash = end.starts_with("::h") && end.find_first_not_of(kHexDigits, 3) == std::string_view::npos;
  return is_hash ? name.substr(0, name.size() - kHash) : name;
}

// Drops the disambiguators of Rust's v0 names: "app[c0ffee]::run".
void DropDisambiguators(std::string* name) {
  for (size_t open = name->find('['); open != std::string::npos; open = name->find('[', open)) {
    const size_t close = name->find_first_not_of(kHexDigits, open + 1);
    const bool follows_word =
        open > 0 && (std::isalnum(static_cast<unsigned char>((*name)[open - 1])) != 0 || (*name)[open - 1] == '_');
    if (follows_word && close != std::string::npos && close > open + 1 && name->compare(close, 3, "]::") == 0) {
      name->erase(open, close + 1 - open);
    } else {
      ++open;
    }
  }
}

// Drops the digits after each `mark` if one of `ends` follows. Drops the mark as well if `with_mark` is set.
void DropNumbers(std::string* name, std::string_view mark, bool with_mark, std::string_view ends) {
  for (size_t at = name->find(mark); at != std::string::npos; at = name->find(mark, at + 1)) {
    const size_t digits = at + mark.size(), end = std::min(name->find_first_not_of(kDigits, digits), name->size());
    const bool ended =
        end == name->size() ? ends.empty() : ends.empty() || ends.find((*name)[end]) != std::string::npos;
    if (end == digits || !ended) continue;
    name->erase(with_mark ? at : digits, end - (with_mark ? at : digits));
    if (with_mark && at > 0) --at;
  }
}

// "{lambda(int)#1}" (from symbols) and "{lambda load.cc:7}" (from debug information) become "{lambda}".
void DropDetailsOfLambdas(std::string* name) {
  constexpr std::string_view kLambda = "{lambda";
  for (size_t at = name->find(kLambda); at != std::string::npos; at = name->find(kLambda, at + 1)) {
    const size_t begin = at + kLambda.size();
    int depth = 1;
    size_t end = begin;
    for (; end < name->size(); ++end) {
      if ((*name)[end] == '{') ++depth;
      if ((*name)[end] == '}' && --depth == 0) break;
    }
    if (end < name->size()) name->erase(begin, end - begin);
  }
}

bool IsAddressed(std::string_view name) { return name.find("!0x") != std::string_view::npos; }

}  // namespace

std::string SourceName(std::string_view name) {
  if (IsAddressed(name)) return std::string(name);
  std::string text(WithoutRustHash(WithoutSymbolSuffixes(WithoutCloneNotes(name))));
  DropDisambiguators(&text);
  return text.empty() ? std::string(name) : text;
}

std::string NameAcrossBuilds(std::string_view name) {
  if (name.starts_with("[unknown]!0x")) return "[unknown]";
  if (IsAddressed(name)) return std::string(name);
  std::string text = WithoutVersions(SourceName(name));
  DropDetailsOfLambdas(&text);
  DropNumbers(&text, "#", true, "}");         // {lambda(int)#1}, {closure#0}, {impl#2}
  DropNumbers(&text, "'lambda", false, "'");  // LLVM's 'lambda1'(int)
  DropNumbers(&text, "'unnamed", false, "'");
  // Clang's lambdas, app::$_0, are those that GCC calls app::{lambda(int)#1}.
  DropNumbers(&text, "$_", false, "");
  for (size_t at = text.find("$_"); at != std::string::npos; at = text.find("$_", at)) text.replace(at, 2, "{lambda}");
  DropNumbers(&text, "_block_invoke_", true, "");
  // Parallel regions of GCC and LLVM, and what LLVM numbers at link time: main._omp_fn.0, .omp_outlined..1,
  // helper.4711.
  const size_t point = text.find_last_not_of(kDigits);
  if (point != std::string::npos && point + 1 < text.size() && text[point] == '.') {
    const size_t end = text.find_last_not_of('.', point);
    if (end != std::string::npos) text.resize(end + 1);
  }
  constexpr std::string_view kAnonymous = "_GLOBAL__N_";
  for (size_t at = text.find(kAnonymous); at != std::string::npos; at = text.find(kAnonymous, at + 1)) {
    const size_t end = text.find("::", at);
    text.replace(at, std::min(end, text.size()) - at, "(anonymous namespace)");
  }
  return text;
}

std::string NameWithoutParameters(std::string_view name) {
  const std::string_view plain = WithoutResult(name);
  int depth = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    const char c = plain[i];
    const std::string_view rest = plain.substr(i);
    if ((c == '(' && rest.starts_with("(anonymous namespace)")) || (c == 'o' && rest.starts_with("operator()"))) {
      i += c == 'o' ? 9 : 20;
    } else if (c == '(' && depth == 0) {
      return std::string(plain.substr(0, i));
    } else if (c == '<' || c == '{' || c == '(') {
      ++depth;
    } else if ((c == '>' || c == '}' || c == ')') && depth > 0) {
      --depth;
    }
  }
  return std::string(plain);
}

void NameFunctionsBySource(Profile* profile) {
  for (Profile::Function& function : profile->functions) {
    const std::string_view name = profile->strings[function.name];
    if (name.find_first_of(".[") == std::string_view::npos && name.find("::h") == std::string_view::npos) continue;
    const std::string source = SourceName(name);
    if (source == name) continue;
    if (function.system_name == 0) function.system_name = function.name;
    function.name = profile->strings.Intern(source);
  }
}

absl::StatusOr<Profile> ReadProfileToView(const std::string& path) {
  auto profile = ReadPprofFile(path);
  if (profile.ok()) NameFunctionsBySource(&*profile);
  return profile;
}

}  // namespace holdfast
