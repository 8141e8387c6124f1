#include "report/analysis/profiles/short_name.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/analysis/profiles/frame_origin.h"

namespace holdfast {
namespace {

constexpr int kDeepest = 64;  // nesting of lists: names in files may be malicious

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$'; }
bool IsCapital(char c) { return std::isupper(static_cast<unsigned char>(c)); }

void ReplaceAll(std::string* text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

// Returns the position of the bracket that closes the one at `open`, or npos.
size_t CloseOf(std::string_view text, size_t open) {
  std::string closes;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '(' || c == '[' || c == '{')
      closes.push_back(c == '<' ? '>' : c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == '-' && i + 1 < text.size() && text[i + 1] == '>') {
      ++i;
    } else if (!closes.empty() && c == closes.back()) {
      closes.pop_back();
      if (closes.empty()) return i;
    }
  }
  return std::string_view::npos;
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> SplitArguments(std::string_view list) {
  std::vector<std::string_view> items;
  size_t begin = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '<' || c == '(' || c == '[' || c == '{') {
      const size_t close = CloseOf(list, i);
      if (close == std::string_view::npos) break;
      i = close;
    } else if (c == ',') {
      items.push_back(Trimmed(list.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  items.push_back(Trimmed(list.substr(begin)));
  return items;
}

// Whether a template argument is a default.
bool IsDefault(std::string_view argument) {
  constexpr std::array<std::string_view, 6> kPolicies = {
      "std::allocator<", "std::less<", "std::hash<", "std::equal_to<", "std::char_traits<", "std::default_delete<"};
  return argument == "A" || argument == "Global" ||
         std::any_of(kPolicies.begin(), kPolicies.end(), [&](std::string_view p) { return argument.starts_with(p); });
}

std::string Joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

std::string Cut(const std::vector<std::string>& items, size_t most) {
  const std::string all = Joined(items);
  if (all.size() <= most) return all;
  return items.size() > 1 && items[0].size() <= most ? items[0] + ", …" : "…";
}

// "alloc::vec::Vec" becomes "Vec"; "core::ops::function::FnOnce::call_once" becomes "FnOnce::call_once".
std::string_view WithoutCrate(std::string_view path) {
  if (!path.starts_with("std::") && !IsRustsPath(path)) return path;
  for (size_t at = path.find("::"); at != std::string_view::npos; at = path.find("::", at + 2)) {
    if (at + 2 < path.size() && IsCapital(path[at + 2])) return path.substr(at + 2);
  }
  return path;
}

// Parses the text after "operator": "<<" in "<<(std::ostream&)" and in "<< <char>(", "<" in "<<char>(", "+" in "+<char>(".
size_t SymbolLength(std::string_view text) {
  constexpr std::array<std::string_view, 38> kSymbols = {
      "<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "==", "!=", "&&",
      "||",  "++",  "--",  "+=",  "-=", "*=", "/=", "%=", "&=", "|=", "^=", "->", "<",
      ">",   "+",   "-",   "*",   "/",  "%",  "&",  "|",  "^",  "~",  "!",  "="};
  for (const std::string_view symbol : kSymbols) {
    if (!text.starts_with(symbol)) continue;
    const std::string_view after = text.substr(symbol.size());
    // "<<char>" is "<" with template arguments.
    if (symbol == "<<" && !after.empty() && IsWord(after[0])) continue;
    return symbol.size();
  }
  return text.starts_with(',') ? 1 : 0;
}

std::string Shorten(std::string_view text, size_t most, int depth);

std::string ShortList(const std::string& before, std::string_view list, char open, size_t most, int depth) {
  std::vector<std::string> items;
  for (const std::string_view item : SplitArguments(list))
    items.push_back(item.starts_with("decltype") ? "…" : Shorten(item, most, depth + 1));
  if (open == '<') {
    while (items.size() > 1 && IsDefault(items.back())) items.pop_back();
    if (items.size() == 1 && before.empty()) return items[0];
  }
  return Cut(items, most);
}

// Replaces `std::basic_string<char>` and its relatives by std::string. Returns true if it replaced the name and the
// list.
bool IsUsualBasic(std::string* out, std::string_view list) {
  const size_t at = out->rfind("std::basic_");
  if (at == std::string::npos || out->find_first_of("<(, ", at) != std::string::npos) return false;
  if (list != "char" && list != "wchar_t") return false;
  out->erase(at + 5, 6);
  if (list == "wchar_t") out->insert(at + 5, "w");
  return true;
}

std::string Shorten(std::string_view text, size_t most, int depth) {
  if (depth > kDeepest) return "…";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (IsWord(c)) {
      size_t end = i;
      while (end < text.size() && (IsWord(text[end]) || text.substr(end).starts_with("::")))
        end += IsWord(text[end]) ? 1 : 2;
      const std::string_view path = text.substr(i, end - i);
      out += out.ends_with("::") ? path : WithoutCrate(path);
      i = end;
      if (!path.ends_with("operator")) continue;
      const size_t symbol = SymbolLength(text.substr(i));
      out += text.substr(i, symbol);
      i += symbol;
      continue;
    }
    const bool opens = c == '<' || c == '(' || c == '{';
    const size_t close = opens ? CloseOf(text, i) : std::string_view::npos;
    if (!opens || close == std::string_view::npos) {
      out += c;
      i += 1;
      continue;
    }
    const std::string_view list = text.substr(i + 1, close - i - 1);
    if (c == '{') {  // {lambda(int)#1}, {{closure}}
      const size_t arguments = list.find('('), behind = list.rfind(')');
      out += '{';
      out += arguments == std::string_view::npos || behind < arguments
                 ? std::string(list)
                 : std::string(list.substr(0, arguments)) + std::string(list.substr(behind + 1));
      out += '}';
    } else if (c == '(' && list == "anonymous namespace") {
      out += "(anonymous namespace)";
    } else if (const std::string made = ShortList(out, list, c, most, depth); c == '(' || !IsUsualBasic(&out, made)) {
      out += c + made + (c == '<' ? ">" : ")");
    }
    i = close + 1;
  }
  return out;
}

std::string WithParameters(std::string_view name, size_t most) {
  const std::string plain = WithoutVersions(name);
  return Shorten(WithoutResult(plain), most, 0);
}

// The type of Rust's "<Type as Trait>", without what points to it; the trait if the type says nothing: "T", "[T]".
std::string_view TypeOf(std::string_view qualified) {
  const size_t as = qualified.find(" as ");
  std::string_view type = Trimmed(qualified.substr(0, as));
  for (const std::string_view mark : {"&", "mut ", "dyn ", "*const ", "*mut "}) {
    if (type.starts_with(mark)) type.remove_prefix(mark.size());
  }
  const bool says_nothing = type.empty() || !IsWord(type[0]) || (type.size() == 1 && IsCapital(type[0]));
  return says_nothing && as != std::string_view::npos ? Trimmed(qualified.substr(as + 4)) : type;
}

// Returns the length of the name in "operator<<(…", "operator[](…", "operator new(…", "operator std::vector<int>() const".
size_t OperatorLength(std::string_view text) {
  constexpr std::string_view kWord = "operator";
  if (!text.starts_with(kWord) || text.size() == kWord.size() || IsWord(text[kWord.size()])) return 0;
  size_t i = kWord.size();
  if (text[i] != ' ' && text[i] != '"') return i + SymbolLength(text.substr(i));
  for (; i < text.size() && text[i] != '('; ++i) {
    if (text[i] != '<') continue;
    const size_t close = CloseOf(text, i);
    if (close == std::string_view::npos) return i;
    i = close;
  }
  return i;
}

// Skips what may follow parameters, such as " const && noexcept".
size_t QualifiersLength(std::string_view text) {
  size_t length = 0;
  for (bool found = true; found;) {
    found = false;
    for (const std::string_view qualifier : {" const", " volatile", " noexcept", " &&", " &", "&&", "&"}) {
      const std::string_view rest = text.substr(length);
      if (!rest.starts_with(qualifier) || (rest.size() > qualifier.size() && IsWord(rest[qualifier.size()]))) continue;
      length += qualifier.size();
      found = true;
    }
  }
  return length;
}

// Drops parameters, a function's own template arguments, lists that were cut to "…", and unnamed namespaces.
std::string Alone(std::string_view text) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  std::string out;
  if (const size_t end = text.find(" thunk to "); end != std::string_view::npos) {
    out = text.substr(0, end + 10);
    return out + Alone(text.substr(end + 10));
  }
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::string_view rest = text.substr(i);
    if (const size_t length = OperatorLength(rest); length > 0 && (out.empty() || out.ends_with("::"))) {
      out += rest.substr(0, length);
      i += length;
      if (text.substr(i).starts_with(" <")) i += 1;  // operator< <char>
      continue;
    }
    if (rest.starts_with(kAnonymous)) {
      i += kAnonymous.size();
      continue;
    }
    const size_t close = c == '<' || c == '(' || c == '{' ? CloseOf(text, i) : std::string_view::npos;
    if (close == std::string_view::npos) {
      out += c;
      ++i;
      continue;
    }
    const std::string_view list = text.substr(i + 1, close - i - 1), after = text.substr(close + 1);
    i = close + 1;
    if (c == '{') {
      out.append("{").append(list).append("}");
    } else if (c == '(') {
      const bool is_parameters = !out.empty() && out.back() != '.' && out.back() != ' ';
      if (!is_parameters) {
        out.append("(").append(list).append(")");
      } else {
        i += QualifiersLength(text.substr(i));
      }
    } else if (list.starts_with("lambda") && (out.empty() || out.ends_with("::"))) {
      out += "{lambda}";
    } else if (out.empty()) {
      out += Alone(TypeOf(list));
    } else if (out.ends_with("::")) {
      out.resize(out.size() - 2);  // Rust's get::<u64>
    } else if (list != "…" && after.starts_with("::")) {
      out.append("<").append(list).append(">");
    }
  }
  constexpr std::string_view kCall = "}::operator()";
  if (out.ends_with(kCall)) out.resize(out.size() - kCall.size() + 1);
  while (out.ends_with(' ')) out.pop_back();
  return out.empty() ? std::string(text) : out;
}

}  // namespace

std::string WithoutVersions(std::string_view name) {
  std::string text(name.substr(0, name.find(" [clone ")));
  ReplaceAll(&text, "{{vtable.shim}}", "");
  for (size_t at = 0; (at = text.find("[abi:", at)) != std::string::npos;) {
    const size_t end = text.find(']', at);
    if (end == std::string::npos) break;
    text.erase(at, end + 1 - at);
  }
  for (const std::string_view space : {"std::__cxx11::", "std::__1::", "std::__ndk1::", "std::_V2::"}) {
    ReplaceAll(&text, space, "std::");
  }
  for (const std::string_view version : {"absl::lts_", "absl::debian", "fmt::v"}) {
    for (size_t at = 0; (at = text.find(version, at)) != std::string::npos; ++at) {
      const size_t begin = text.find("::", at) + 2, digits = at + version.size();
      const size_t end = std::min(text.find_first_not_of("0123456789", digits), text.size());
      if (end > digits && text.compare(end, 2, "::") == 0) text.erase(begin, end + 2 - begin);
    }
  }
  // Rust's hash: `::h0123456789abcdef`.
  constexpr size_t kHash = 19;
  if (text.size() > kHash && std::string_view(text).substr(text.size() - kHash).starts_with("::h") &&
      text.find_first_not_of("0123456789abcdef", text.size() - kHash + 3) == std::string::npos) {
    text.resize(text.size() - kHash);
  }
  return text;
}

namespace {

// Returns the last position of the parameters at `open` if the function only encloses the named one, as in
// "auto app::Load()::$_0::operator()<int>(int) const" or "app::Load() const::Local::go()". Returns npos otherwise.
size_t EndOfScope(std::string_view name, size_t open) {
  const size_t close = CloseOf(name, open);
  if (close == std::string_view::npos) return close;
  size_t next = close + 1;
  for (const std::string_view qualifier : {" const", " volatile", " &&", " &"}) {
    if (name.substr(next).starts_with(qualifier)) next += qualifier.size();
  }
  return name.substr(next).starts_with("::") ? next - 1 : std::string_view::npos;
}

}  // namespace

std::string_view WithoutResult(std::string_view name) {
  if (name.find(" thunk to ") != std::string_view::npos) return name;
  size_t begin = 0, templates = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '(' && (name.substr(0, i).ends_with("decltype") || name.substr(0, i).ends_with("decltype "))) {
      const size_t close = CloseOf(name, i);
      if (close == std::string_view::npos) return name;
      i = close;
      continue;
    }
    if (c == '<' || c == '{') {
      const size_t close = CloseOf(name, i);
      if (name.substr(0, i).ends_with("operator")) return name.substr(begin);
      if (close == std::string_view::npos) return name;
      ++templates;
      i = close;
    } else if (c == '(' && name.substr(0, i).ends_with("operator") && name.substr(i).starts_with("()")) {
      ++i;
    } else if (c == '(' && !name.substr(i).starts_with("(anonymous namespace)")) {
      const size_t scope = EndOfScope(name, i);
      if (scope == std::string_view::npos) return templates > 0 ? name.substr(begin) : name;
      i = scope;
    } else if (c == ' ') {
      const std::string_view before = name.substr(begin, i - begin);
      if (before.find("operator") != std::string_view::npos || before.ends_with("(anonymous")) continue;
      begin = i + 1;
    }
  }
  return name;
}

std::string LongerName(std::string_view name) { return WithParameters(name, kMaxArguments); }

std::string ShortName(std::string_view name) { return Alone(LongerName(name)); }

std::vector<std::string> ShownNames(const std::vector<std::string>& names) {
  using Form = std::string (*)(std::string_view);
  constexpr std::array<Form, 4> kForms = {
      ShortName,
      LongerName,
      [](std::string_view name) { return WithParameters(name, std::string_view::npos); },
      [](std::string_view name) { return std::string(name); },
  };
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(ShortName(name));
  std::vector<size_t> form(names.size(), 0);
  for (bool changed = true; changed;) {
    // A shown name, and whether all functions that have it are one.
    absl::flat_hash_map<std::string_view, std::pair<std::string_view, bool>> functions_of;
    for (size_t i = 0; i < names.size(); ++i) {
      const auto [place, added] = functions_of.try_emplace(shown[i], std::string_view(names[i]), true);
      if (place->second.first != names[i]) place->second.second = false;
    }
    std::vector<size_t> alike;
    for (size_t i = 0; i < names.size(); ++i) {
      if (form[i] + 1 < kForms.size() && !functions_of[shown[i]].second) alike.push_back(i);
    }
    for (const size_t i : alike) shown[i] = kForms[++form[i]](names[i]);
    changed = !alike.empty();
  }
  return shown;
}

}  // namespace holdfast
