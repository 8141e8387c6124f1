#include "report/run/shell_script.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"

namespace holdfast {
namespace {

constexpr size_t kMaxText = 64 << 10, kMaxCommands = 256;
constexpr int kMaxCalls = 8;
constexpr std::string_view kPreloadName = "LD_PRELOAD";

size_t NameLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && (std::isalnum(static_cast<unsigned char>(text[length])) != 0 || text[length] == '_'))
    ++length;
  return length;
}

// ---- Words and operators ----

struct Token {
  std::string_view text;
  bool is_word = false;
};

// Returns the position after the `close` that matches the `open` at `at`. Skips quoted and parenthesized text.
size_t EndOfNested(std::string_view text, size_t at, char open, char close) {
  int depth = 0;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\' && quote != '\'') {
      ++at;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      return at + 1;
    }
  }
  return text.size();
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<Token> Run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        at_ += 2;
      } else if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\n') {
        Add(1, false);
        SkipDocuments();
      } else if ((c == '<' || c == '>' || (c == '&' && Next() == '>')) && Next() != '(') {
        Redirection();
      } else if (std::string_view(";&|()").find(c) != std::string_view::npos) {
        Add(Next() == c && c != '(' && c != ')' ? 2 : 1, false);
      } else {
        Add(EndOfWord() - at_, true);
      }
    }
    return std::move(tokens_);
  }

 private:
  char Next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }
  void Add(size_t length, bool is_word) {
    tokens_.push_back({text_.substr(at_, length), is_word});
    at_ += length;
  }

  size_t EndOfWord() const {
    size_t at = at_;
    while (at < text_.size()) {
      const char c = text_[at];
      const char next = at + 1 < text_.size() ? text_[at + 1] : '\0';
      if (c == '\\') {
        at += 2;
      } else if (c == '\'') {
        at = text_.find('\'', at + 1);
        at = at == std::string_view::npos ? text_.size() : at + 1;
      } else if (c == '"') {
        at = EndOfQuoted(at);
      } else if (c == '`') {
        at = text_.find('`', at + 1);
        at = at == std::string_view::npos ? text_.size() : at + 1;
      } else if (c == '$' && next == '(') {
        at = EndOfNested(text_, at + 1, '(', ')');
      } else if (c == '$' && next == '{') {
        at = EndOfNested(text_, at + 1, '{', '}');
      } else if ((c == '<' || c == '>') && next == '(' && at == at_) {
        at = EndOfNested(text_, at + 1, '(', ')');
      } else if (c == '(' && at > at_ && text_[at - 1] == '=') {
        at = EndOfNested(text_, at, '(', ')');  // NAME=(an array)
      } else if (std::string_view(" \t\r\n;&|()<>").find(c) != std::string_view::npos) {
        break;
      } else {
        ++at;
      }
    }
    return std::min(at, text_.size());
  }

  size_t EndOfQuoted(size_t at) const {
    for (++at; at < text_.size() && text_[at] != '"'; ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == '$' && at + 1 < text_.size() && text_[at + 1] == '(') {
        at = EndOfNested(text_, at + 1, '(', ')') - 1;
      }
    }
    return std::min(at + 1, text_.size());
  }

  // Skips a redirection: the number of the descriptor before it and the file name after it.
  void Redirection() {
    if (!tokens_.empty() && tokens_.back().is_word &&
        tokens_.back().text.end() == text_.begin() + static_cast<ptrdiff_t>(at_) &&
        tokens_.back().text.find_first_not_of("0123456789") == std::string_view::npos)
      tokens_.pop_back();
    const bool is_document = text_.substr(at_).starts_with("<<") && !text_.substr(at_).starts_with("<<<");
    while (at_ < text_.size() && std::string_view("<>&|").find(text_[at_]) != std::string_view::npos) ++at_;
    const bool is_indented = is_document && at_ < text_.size() && text_[at_] == '-';
    if (is_indented || (at_ < text_.size() && text_[at_] == '-')) ++at_;
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    const size_t end = EndOfWord();
    if (is_document) {
      std::string mark;
      for (const char c : text_.substr(at_, end - at_)) {
        if (c != '\'' && c != '"' && c != '\\') mark += c;
      }
      documents_.emplace_back(mark, is_indented);
    }
    at_ = end;
  }

  // Skips the here-documents after a line with <<MARK.
  void SkipDocuments() {
    for (const auto& [mark, is_indented] : std::exchange(documents_, {})) {
      while (at_ < text_.size()) {
        const size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        while (is_indented && line.starts_with('\t')) line.remove_prefix(1);
        if (line == mark) break;
      }
    }
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
  std::vector<std::pair<std::string, bool>> documents_;
};

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path.empty() ? "." : path, error);
  std::string text = error ? path : absolute.lexically_normal().string();
  if (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

std::string Joined(const std::string& folder, const std::string& path) {
  if (path.starts_with('/') || folder.empty()) return path;
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

std::string ScriptFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// ---- The reader ----

class Reader {
 public:
  explicit Reader(const ShellScript& script) : path_(script.arguments.empty() ? "" : script.arguments[0]) {
    Scope scope{.arguments = script.arguments};
    if (scope.arguments.empty()) scope.arguments.emplace_back("sh");
    RunText(script.text, &scope, 0);
  }
  std::vector<ScriptCommand> Take() { return std::move(commands_); }

 private:
  struct Scope {
    std::vector<std::string> arguments;
    bool are_known = true;  // false: the script shifts them in a loop
    bool has_ended = false;
  };
  using Tokens = std::vector<Token>;
  struct Body {
    const Tokens* tokens = nullptr;
    size_t begin = 0, end = 0;
  };
  // The expansion of $…: one text, or the words of a list. Neither is set: unknown.
  struct Value {
    std::optional<std::string> text;
    std::optional<std::vector<std::string>> list;
  };

  void RunText(std::string_view text, Scope* scope, int calls) {
    if (calls > kMaxCalls || text.size() > kMaxText) return;
    texts_.emplace_back(text);
    tokens_.push_back(Tokenizer(texts_.back()).Run());
    Run({&tokens_.back(), 0, tokens_.back().size()}, scope, calls);
  }

  static bool IsOperator(const Tokens& tokens, size_t at, std::string_view text) {
    return at < tokens.size() && !tokens[at].is_word && tokens[at].text == text;
  }

  void Run(const Body& body, Scope* scope, int calls) {
    const Tokens& tokens = *body.tokens;
    std::vector<std::string_view> words;
    int branches = 0, loops = 0;
    bool after_and = false;
    std::vector<bool> patterns;  // per open case: whether a pattern comes next
    for (size_t at = body.begin; at <= body.end && !scope->has_ended && commands_.size() < kMaxCommands; ++at) {
      const bool is_end = at == body.end;
      if (!is_end && tokens[at].is_word) {
        const std::string_view word = tokens[at].text;
        if (!patterns.empty() && patterns.back()) {
          if (word == "esac") {
            patterns.pop_back();
            --branches;
          }
          continue;
        }
        if (!words.empty()) {
          words.push_back(word);
          continue;
        }
        if (const size_t next = TakeFunction(body, at); next != 0) {
          at = next - 1;
        } else if (word == "case") {
          while (at < body.end && !(tokens[at].is_word && tokens[at].text == "in")) ++at;
          patterns.push_back(true);
          ++branches;
        } else if (word == "[[") {
          while (at < body.end && tokens[at].text != "]]") ++at;
        } else if (word == "for" || word == "select") {
          ++loops;
          while (at < body.end && tokens[at].text != ";" && tokens[at].text != "\n" && tokens[at].text != "do") ++at;
        } else if (word == "if") {
          ++branches;
        } else if (word == "while" || word == "until") {
          ++loops;
        } else if (HasWord("fi done esac", word)) {
          (word == "done" ? loops : branches) -= 1;
          if (word == "esac" && !patterns.empty()) patterns.pop_back();
        } else if (!HasWord("then else elif do ! { } time coproc", word)) {
          words.push_back(word);
        }
        continue;
      }
      const std::string_view op = is_end ? std::string_view("\n") : tokens[at].text;
      if (!patterns.empty() && patterns.back()) {
        if (op == ")") patterns.back() = false;
        continue;
      }
      if (op == "(" && IsOperator(tokens, at + 1, "(")) {  // ((arithmetic))
        while (at + 1 < body.end && !(IsOperator(tokens, at, ")") && IsOperator(tokens, at + 1, ")"))) ++at;
        ++at;
        continue;
      }
      if (!words.empty()) {
        const bool is_sure = branches <= 0 && loops <= 0 && patterns.empty() && !after_and;
        Simple(words, scope, is_sure, loops > 0, calls);
        words.clear();
      }
      after_and = op == "&&" || op == "||";
      if (op == ";;" && !patterns.empty()) patterns.back() = true;
    }
  }

  // Records the body of name() { … } or function name { … }. Returns where to continue, or 0 if this is no function.
  size_t TakeFunction(const Body& body, size_t at) {
    const Tokens& tokens = *body.tokens;
    const bool has_word = tokens[at].text == "function" && at + 1 < body.end && tokens[at + 1].is_word;
    const std::string_view name = tokens[at + (has_word ? 1 : 0)].text;
    size_t next = at + (has_word ? 2 : 1);
    const bool has_parentheses = IsOperator(tokens, next, "(") && IsOperator(tokens, next + 1, ")");
    if (!has_word && !has_parentheses) return 0;
    if (has_parentheses) next += 2;
    while (next < body.end && IsOperator(tokens, next, "\n")) ++next;
    if (next >= body.end || tokens[next].text != "{") return 0;
    const size_t begin = next + 1;
    int depth = 0;
    for (; next < body.end; ++next) {
      if (tokens[next].is_word && tokens[next].text == "{") ++depth;
      if (tokens[next].is_word && tokens[next].text == "}" && --depth == 0) break;
    }
    functions_[std::string(name)] = {&tokens, begin, next};
    return next + 1;
  }

  // Reads a simple command. `is_sure`: the command runs unconditionally.
  void Simple(const std::vector<std::string_view>& raw, Scope* scope, bool is_sure, bool is_in_loop, int calls) {
    size_t at = 0;
    bool is_exec = false;
    std::string without = without_library_;
    for (; at < raw.size(); ++at) {
      const size_t name = AssignedName(raw[at]);
      if (name == 0) break;
      const std::string_view variable = raw[at].substr(0, name);
      if (variable == kPreloadName) {
        if (!KeepsLibrary(raw[at])) without = raw[at];
      } else {
        Assign(variable, raw[at].substr(name + 1), scope, calls);
      }
    }
    if (at == raw.size()) {  // applies to all that follows
      without_library_ = without;
      return;
    }
    const std::string text = fmt::format("{}", fmt::join(raw.begin() + static_cast<ptrdiff_t>(at), raw.end(), " "));
    std::vector<std::string> words;
    for (; at < raw.size(); ++at) {
      const size_t before = words.size();
      if (!Expand(raw[at], *scope, calls, &words)) {
        words.resize(before);
        if (before != 0) continue;
        if (is_exec || !HasWord("exec command builtin", raw[at])) return AddUnknown(text, is_exec);
      }
      if (before == 0 && words.size() == 1 && HasWord("exec command builtin", words[0])) {
        is_exec = is_exec || words[0] == "exec";
        words.clear();
        while (at + 1 < raw.size() && raw[at + 1].starts_with('-')) at += raw[at + 1] == "-a" ? 2 : 1;
      }
    }
    if (words.empty()) return;
    if (Builtin(words, raw, scope, is_sure, is_in_loop, calls)) return;
    if (const auto function = functions_.find(words[0]); function != functions_.end()) {
      if (calls >= kMaxCalls) return;
      Scope inner{.arguments = {scope->arguments[0]}, .are_known = scope->are_known};
      inner.arguments.insert(inner.arguments.end(), words.begin() + 1, words.end());
      const Body body = function->second;
      Run(body, &inner, calls + 1);
      return;
    }
    ResolveProgram(&words[0]);
    commands_.push_back({.words = std::move(words),
                         .text = text,
                         .is_exec = is_exec,
                         .is_inside_word = inside_word_ > 0,
                         .without_library = without});
    if (is_exec && is_sure && inside_word_ == 0) scope->has_ended = true;
  }

  void AddUnknown(const std::string& text, bool is_exec) {
    commands_.push_back({.words = {},
                         .text = (is_exec ? "exec " : "") + text,
                         .is_exec = is_exec,
                         .is_unknown = true,
                         .is_inside_word = inside_word_ > 0,
                         .without_library = without_library_});
  }

  static bool KeepsLibrary(std::string_view assignment) {
    return assignment.find("$LD_PRELOAD") != std::string_view::npos ||
           assignment.find("${LD_PRELOAD") != std::string_view::npos ||
           assignment.find("libholdfast") != std::string_view::npos;
  }

  // Resolves the program in the current folder and PATH of the script.
  void ResolveProgram(std::string* program) const {
    if (program->find('/') != std::string::npos) {
      *program = Joined(folder_, *program);
      return;
    }
    const auto path = variables_.find("PATH");
    if (path == variables_.end()) return;
    for (const std::string_view folder : Split(path->second, ":")) {
      const std::string file = fmt::format("{}/{}", folder, *program);
      if (!folder.empty() && access(file.c_str(), X_OK) == 0) {
        *program = file;
        return;
      }
    }
  }

  void Assign(std::string_view name, std::string_view value, const Scope* scope, int calls) {
    const std::string key(name);
    std::vector<std::string> parts;
    bool is_known = true;
    const bool is_array = value.starts_with('(') && value.ends_with(')');
    if (is_array) {
      const std::string inside(value.substr(1, value.size() - 2));
      for (const Token& token : Tokenizer(inside).Run())
        is_known = is_known && (!token.is_word || Expand(token.text, *scope, calls, &parts));
    } else {
      is_assigned_ = true;
      is_known = Expand(value, *scope, calls, &parts) && parts.size() <= 1;
      is_assigned_ = false;
    }
    variables_.erase(key);
    arrays_.erase(key);
    unknown_.insert(key);
    if (!is_known) return;
    if (is_array) {
      arrays_[key] = parts;
    } else {
      variables_[key] = parts.empty() ? "" : parts[0];
    }
    unknown_.erase(key);
  }

  // Performs a shell builtin. Returns false if `words` is no builtin.
  bool Builtin(const std::vector<std::string>& words, const std::vector<std::string_view>& raw, Scope* scope,
               bool is_sure, bool is_in_loop, int calls) {
    const std::string& name = words[0];
    if (name == "export" || name == "readonly" || name == "declare" || name == "typeset" || name == "local") {
      for (const std::string_view word : raw) {
        const size_t length = AssignedName(word);
        if (length == 0) continue;
        if (word.substr(0, length) == kPreloadName) {
          if (!KeepsLibrary(word)) without_library_ = fmt::format("{} {}", name, word);
        } else {
          Assign(word.substr(0, length), word.substr(length + 1), scope, calls);
        }
      }
    } else if (name == "unset") {
      for (size_t i = 1; i < words.size(); ++i) {
        variables_.erase(words[i]);
        if (words[i] == kPreloadName) without_library_ = "unset LD_PRELOAD";
      }
    } else if (name == "cd" || name == "pushd") {
      const std::string to = words.size() > 1 ? words.back() : "";
      if (to.empty() || to == "-") return true;
      folder_ = Absolute(Joined(folder_, to));
    } else if (name == "." || name == "source") {
      if (words.size() > 1 && words[1].find('/') != std::string::npos)
        RunText(ReadWhole(Joined(folder_, words[1]), kMaxText), scope, calls + 1);
    } else if (name == "eval") {
      RunText(fmt::format("{}", fmt::join(words.begin() + 1, words.end(), " ")), scope, calls + 1);
    } else if (name == "shift") {
      const int by = words.size() > 1 ? std::atoi(words[1].c_str()) : 1;
      if (is_in_loop) scope->are_known = false;
      if (is_sure) {
        for (int i = 0; i < by && scope->arguments.size() > 1; ++i)
          scope->arguments.erase(scope->arguments.begin() + 1);
      }
    } else if (name == "set") {
      const auto dashes = std::find(words.begin(), words.end(), "--");
      // The condition around it often tests whether there is a program or only options: `[ "${1#-}" != "$1" ]`.
      const bool has_program = scope->arguments.size() > 1 && !scope->arguments[1].starts_with('-');
      if (dashes != words.end() && (is_sure || !has_program)) {
        scope->arguments.erase(scope->arguments.begin() + 1, scope->arguments.end());
        scope->arguments.insert(scope->arguments.end(), dashes + 1, words.end());
      }
    } else if (name == "exit" || name == "return") {
      scope->has_ended = is_sure;
    } else {
      return HasWord(
          "[ : alias bg break continue dirs disown echo false fc fg getopts hash jobs kill let popd printf pwd "
          "read shopt test times trap true type ulimit umask unalias wait mapfile readarray",
          name);
    }
    return true;
  }

  // ---- Expansion of words ----

  // Appends the words. Returns false if only a running shell can compute them.
  bool Expand(std::string_view raw, const Scope& scope, int calls, std::vector<std::string>* parts) {
    std::string text;
    bool is_word = false;
    char quote = 0;
    for (size_t at = 0; at < raw.size(); ++at) {
      const char c = raw[at];
      if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
        is_word = true;
      } else if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote != '\'' && at + 1 < raw.size()) {
        const char next = raw[++at];
        if (next == '\n') continue;
        if (quote == '"' && std::string_view("$`\"\\").find(next) == std::string_view::npos) text += c;
        text += next;
        is_word = true;
      } else if ((c == '$' || c == '`') && quote != '\'') {
        const Value value = c == '$' ? Dollar(raw, &at, scope, calls) : Backticks(raw, &at, scope, calls);
        if (value.list.has_value()) {
          for (size_t i = 0; i < value.list->size(); ++i) {
            if (i > 0) parts->push_back(std::exchange(text, ""));
            text += (*value.list)[i];
          }
          // "$@" without arguments is no word, although it is quoted.
          is_word = (is_word && raw != "\"$@\"" && raw != "\"${@}\"") || !value.list->empty();
        } else if (!value.text.has_value()) {
          return false;
        } else if (quote != 0 || is_assigned_) {
          text += *value.text;
        } else {
          for (const char one : *value.text) {
            if (one != ' ' && one != '\t' && one != '\n') {
              text += one;
              is_word = true;
            } else if (is_word) {
              parts->push_back(std::exchange(text, ""));
              is_word = false;
            }
          }
        }
      } else if (quote == 0 && (c == '*' || c == '?' || ((c == '<' || c == '>') && at == 0))) {
        return false;
      } else if (quote == 0 && c == '~' && at == 0 && (raw.size() == 1 || raw[1] == '/')) {
        const char* home = std::getenv("HOME");
        if (home == nullptr) return false;
        text += home;
        is_word = true;
      } else {
        text += c;
        is_word = true;
      }
    }
    if (is_word || !text.empty()) parts->push_back(text);
    return true;
  }

  std::optional<std::string> Variable(const std::string& name, const Scope& scope) const {
    if (name == "0") return path_.empty() ? scope.arguments[0] : path_;
    if (name == "BASH_SOURCE") return path_.empty() ? std::nullopt : std::optional(path_);
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos) {
      const size_t number = name.size() > 2 ? SIZE_MAX : std::stoul(name);
      if (!scope.are_known || number >= scope.arguments.size()) return std::nullopt;
      return scope.arguments[number];
    }
    if (name == "PWD") return Absolute(folder_);
    if (const auto known = variables_.find(name); known != variables_.end()) return known->second;
    const char* set = unknown_.contains(name) ? nullptr : std::getenv(name.c_str());
    return set == nullptr ? std::nullopt : std::optional<std::string>(set);
  }

  static Value List(const Scope& scope) {
    if (!scope.are_known) return {};
    return {.text = {}, .list = std::vector<std::string>(scope.arguments.begin() + 1, scope.arguments.end())};
  }

  // Expands what begins with the '$' at `*at`. Moves `*at` to its last character.
  Value Dollar(std::string_view raw, size_t* at, const Scope& scope, int calls) {
    const std::string_view rest = raw.substr(*at + 1);
    if (rest.starts_with('(')) {
      const size_t end = EndOfNested(rest, 0, '(', ')');
      *at += end;
      if (rest.starts_with("((") || end < 2) return {};
      return Printed(rest.substr(1, end - 2), scope, calls);
    }
    if (rest.starts_with('{')) {
      const size_t end = EndOfNested(rest, 0, '{', '}');
      *at += end;
      return end < 2 ? Value{} : InBraces(rest.substr(1, end - 2), scope, calls);
    }
    if (rest.starts_with('@') || rest.starts_with('*')) {
      ++*at;
      return List(scope);
    }
    size_t length = NameLength(rest);
    if (length == 0) {
      if (rest.empty() || std::string_view("\"' /.:-").find(rest[0]) != std::string_view::npos)
        return {.text = "$", .list = {}};
      ++*at;
      return {};
    }
    if (std::isdigit(static_cast<unsigned char>(rest[0])) != 0) length = 1;
    *at += length;
    return {.text = Variable(std::string(rest.substr(0, length)), scope), .list = {}};
  }

  Value InBraces(std::string_view inside, const Scope& scope, int calls) {
    if (inside == "@" || inside == "*" || inside.starts_with("1+\"$@\"") || inside.starts_with("1:+\"$@\""))
      return List(scope);
    const size_t length = NameLength(inside);
    if (length == 0) return {};
    const std::string name(inside.substr(0, length));
    std::string_view operation = inside.substr(length);
    if (operation == "[@]" || operation == "[*]") {
      const auto array = arrays_.find(name);
      return array == arrays_.end() ? Value{} : Value{.text = {}, .list = array->second};
    }
    if (operation == "[0]" && name == "BASH_SOURCE") operation = "";
    const std::optional<std::string> value = Variable(name, scope);
    if (operation.empty()) return {.text = value, .list = {}};
    const bool has_colon = operation.starts_with(':');
    const std::string_view behind = operation.substr(has_colon ? 1 : 0);
    if (behind.starts_with('-') || behind.starts_with('=')) {
      if (value.has_value() && !(has_colon && value->empty())) return {.text = value, .list = {}};
      return unknown_.contains(name) ? Value{} : OneWord(behind.substr(1), scope, calls);
    }
    if (behind.starts_with('+'))
      return value.has_value() ? OneWord(behind.substr(1), scope, calls) : Value{.text = "", .list = {}};
    if (!value.has_value()) return {};
    const size_t first = value->find('/'), last = value->rfind('/');
    if (operation == "%/*") return {.text = value->substr(0, last), .list = {}};
    if (operation == "##*/") return {.text = last == std::string::npos ? *value : value->substr(last + 1), .list = {}};
    if (operation == "#*/") return {.text = first == std::string::npos ? *value : value->substr(first + 1), .list = {}};
    const std::string_view pattern = operation.substr(1);
    if (pattern.empty() || pattern.find_first_of("*?[%#$") != std::string_view::npos) return {};
    if (operation[0] == '%')
      return {.text = value->ends_with(pattern) ? value->substr(0, value->size() - pattern.size()) : *value,
              .list = {}};
    if (operation[0] == '#')
      return {.text = value->starts_with(pattern) ? value->substr(pattern.size()) : *value, .list = {}};
    return {};
  }

  Value OneWord(std::string_view raw, const Scope& scope, int calls) {
    std::vector<std::string> parts;
    const bool was_assigned = std::exchange(is_assigned_, true);
    const bool is_known = Expand(raw, scope, calls, &parts);
    is_assigned_ = was_assigned;
    if (!is_known) return {};
    return {.text = fmt::format("{}", fmt::join(parts, " ")), .list = {}};
  }

  Value Backticks(std::string_view raw, size_t* at, const Scope& scope, int calls) {
    const size_t end = raw.find('`', *at + 1);
    if (end == std::string_view::npos) return {};
    const std::string_view inside = raw.substr(*at + 1, end - *at - 1);
    *at = end;
    return Printed(inside, scope, calls);
  }

  // Returns what the commands in $(…) print, if their words alone determine it. Records the programs among them.
  Value Printed(std::string_view text, const Scope& scope, int calls) {
    if (calls >= kMaxCalls) return {};
    const bool was_assigned = std::exchange(is_assigned_, false);
    const auto [variables, folder, without] = std::tuple(variables_, folder_, without_library_);
    ++inside_word_;
    Scope inner = scope;
    const std::optional<std::string> printed = Evaluate(text, inner, calls);
    if (!printed.has_value()) RunText(text, &inner, calls + 1);
    --inside_word_;
    variables_ = variables;
    folder_ = folder;
    without_library_ = without;
    is_assigned_ = was_assigned;
    return {.text = printed, .list = {}};
  }

  std::optional<std::string> Evaluate(std::string_view text, const Scope& scope, int calls) {
    const std::string kept(text);
    std::optional<std::string> printed;
    std::string folder = folder_;
    std::vector<std::string> words;
    std::vector<Token> tokens = Tokenizer(kept).Run();
    tokens.push_back({"\n", false});
    for (const Token& token : tokens) {
      if (token.is_word) {
        if (!Expand(token.text, scope, calls + 1, &words)) return std::nullopt;
        continue;
      }
      if (token.text == "|" || token.text == "(") return std::nullopt;
      if (!words.empty()) {
        const std::string name = std::exchange(words.front(), "");
        std::vector<std::string> operands;
        for (size_t i = 1; i < words.size(); ++i) {
          if (!words[i].starts_with('-')) operands.push_back(words[i]);
        }
        if (name == "cd" && operands.size() == 1) {
          folder = Absolute(Joined(folder, operands[0]));
        } else if (name == "pwd") {
          printed = Absolute(folder);
        } else if (name == "dirname" && operands.size() == 1) {
          printed = ScriptFolderOf(operands[0]);
        } else if (name == "basename" && !operands.empty()) {
          printed = std::string(BaseName(operands[0]));
          if (operands.size() > 1 && printed->ends_with(operands[1]))
            printed->resize(printed->size() - operands[1].size());
        } else if ((name == "readlink" || name == "realpath") && operands.size() == 1) {
          std::error_code error;
          const std::string path = Absolute(Joined(folder, operands[0]));
          const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
          printed = error ? path : real.string();
        } else if (name == "echo") {
          printed = fmt::format("{}", fmt::join(operands, " "));
        } else if (name == "printf" && operands.size() == 2 && (operands[0] == "%s" || operands[0] == "%s\\n")) {
          printed = operands[1];
        } else if ((name == "which" || name == "command") && operands.size() == 1) {
          printed = operands[0];
        } else if (name == "uname" && words.size() == 2 && (words[1] == "-m" || words[1] == "-s")) {
          utsname names{};
          uname(&names);
          printed = words[1] == "-m" ? names.machine : names.sysname;
        } else if (name == "id" && words.size() == 2 && words[1] == "-u") {
          printed = fmt::format("{}", geteuid());
        } else {
          return std::nullopt;
        }
        words.clear();
      }
      if (token.text == "||") break;
    }
    return printed;
  }

  const std::string path_;
  std::deque<std::string> texts_;
  std::deque<Tokens> tokens_;
  std::map<std::string, std::string> variables_;
  std::map<std::string, std::vector<std::string>> arrays_;
  std::map<std::string, Body> functions_;
  std::set<std::string> unknown_;  // variables that the script sets to values that only a running shell can compute
  std::string folder_;             // "": the folder in which the script was started
  std::string without_library_;
  bool is_assigned_ = false;  // the value of an assignment is not split into words
  int inside_word_ = 0;
  std::vector<ScriptCommand> commands_;
};

}  // namespace

size_t AssignedName(std::string_view word) {
  const size_t length = NameLength(word);
  const bool is_name = length > 0 && std::isdigit(static_cast<unsigned char>(word[0])) == 0;
  return is_name && length < word.size() && word[length] == '=' ? length : 0;
}

std::vector<ScriptCommand> CommandsOf(const ShellScript& script) { return Reader(script).Take(); }

}  // namespace holdfast
