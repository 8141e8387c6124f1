#include "report/processes/started_programs.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/elf/executable_kind.h"

namespace holdfast {
namespace {

constexpr size_t kMostScriptBytes = 64 << 10;
constexpr int kMostLookUps = 256, kMostDepth = 4;
constexpr std::string_view kPreload = "LD_PRELOAD";

template <size_t kCount>
bool IsOneOf(std::string_view word, const std::string_view (&words)[kCount]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

bool IsShell(std::string_view program) {
  constexpr std::string_view kShells[] = {"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"};
  return IsOneOf(BaseName(program), kShells);
}

// Programs and builtins that start what one of their words names.
bool StartsItsWords(std::string_view program) {
  constexpr std::string_view kStarters[] = {
      "env",     "nice",    "nohup", "timeout",   "time",      "setsid", "setpriv", "stdbuf",  "ionice", "chrt",
      "taskset", "xargs",   "sudo",  "gosu",      "su-exec",   "chpst",  "setarch", "linux64", "strace", "ltrace",
      "unshare", "nsenter", "tini",  "dumb-init", "catatonit", "flock",  "script",  "runuser", "watch",  "faketime"};
  return IsOneOf(BaseName(program), kStarters);
}

// Words of the shell's before a command.
bool IsBeforeCommand(std::string_view word) {
  constexpr std::string_view kWords[] = {"exec",  "command", "builtin", "if", "then", "else", "elif", "while",
                                         "until", "do",      "!",       "{",  "}",    "(",    ")",    "time"};
  return IsOneOf(word, kWords);
}

size_t NameLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && (std::isalnum(static_cast<unsigned char>(text[length])) != 0 || text[length] == '_'))
    ++length;
  return length;
}

// "NAME=value": the length of NAME; 0: no assignment.
size_t AssignedName(std::string_view word) {
  const size_t length = NameLength(word);
  const bool is_name = length > 0 && std::isdigit(static_cast<unsigned char>(word[0])) == 0;
  return is_name && length < word.size() && word[length] == '=' ? length : 0;
}

class Finder {
 public:
  explicit Finder(const std::function<std::string(const std::string&)>& look_up) : look_up_(look_up) {}

  // `words`: a command and its arguments.
  void Command(const std::vector<std::string>& words, const std::string& script, int depth) {
    if (words.empty() || depth > kMostDepth) return;
    const std::string path = LookUp(words[0]);
    if (path.empty()) return;
    if (depth > 0) Add(path, script);
    if (IsShell(path)) return Shell(words, depth);
    const ExecutableKind file = ReadExecutableKind(path);
    const bool is_shells =
        file.kind == ExecutableKind::Kind::kText ||
        (file.kind == ExecutableKind::Kind::kScript && (IsShell(file.interpreter) || IsShell(WordOf(file.argument))));
    if (is_shells) return Script(path, words, depth);
    if (!StartsItsWords(path)) return;
    if (std::find(words.begin(), words.end(), "--unset=LD_PRELOAD") != words.end()) return;
    for (size_t i = 1; i < words.size(); ++i) {
      const bool is_after_u = words[i - 1] == "-u" || words[i - 1] == "--unset";
      if (words[i] == "-uLD_PRELOAD" || (is_after_u && words[i] == kPreload)) return;
      if (AssignedName(words[i]) != 0 && words[i].starts_with("LD_PRELOAD=")) return;
    }
    // Which word names the program depends on options that take values: the first that can be executed.
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].empty() || words[i][0] == '-' || AssignedName(words[i]) != 0 || LookUp(words[i]).empty()) continue;
      return Command({words.begin() + static_cast<std::ptrdiff_t>(i), words.end()}, script, depth + 1);
    }
  }

  std::vector<StartedProgram> Take() { return std::move(found_); }

 private:
  // "-S bash -e" or "bash": the first word that is no option, as `env` takes it.
  static std::string WordOf(const std::string& argument) {
    size_t start = 0;
    while (start < argument.size()) {
      const size_t end = std::min(argument.find_first_of(" \t", start), argument.size());
      const std::string word = argument.substr(start, end - start);
      if (!word.empty() && word[0] != '-' && AssignedName(word) == 0) return word;
      start = end + 1;
    }
    return "";
  }

  std::string LookUp(const std::string& word) {
    const auto known = looked_up_.find(word);
    if (known != looked_up_.end()) return known->second;
    if (looked_up_.size() >= kMostLookUps) return "";
    return looked_up_[word] = look_up_(word);
  }

  void Add(const std::string& path, const std::string& script) {
    if (seen_.insert(path).second) found_.push_back({path, script});
  }

  // sh [OPTION…] -c TEXT [NAME [ARGUMENT…]], or sh [OPTION…] FILE [ARGUMENT…].
  void Shell(const std::vector<std::string>& words, int depth) {
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].empty()) return;
      if (words[i][0] != '-') {
        Script(words[i], {words.begin() + static_cast<std::ptrdiff_t>(i), words.end()}, depth);
        return;
      }
      if (words[i] == "-o") ++i;
      if (words[i].starts_with("--") || words[i].find('c') == std::string::npos) continue;
      if (i + 1 >= words.size()) return;
      std::vector<std::string> arguments(words.begin() + static_cast<std::ptrdiff_t>(i) + 2, words.end());
      if (arguments.empty()) arguments = {words[0]};
      return Text(words[i + 1], arguments, "", depth);
    }
  }

  void Script(const std::string& path, const std::vector<std::string>& arguments, int depth) {
    if (!scripts_.insert(path).second) return;
    std::vector<std::string> its_arguments = arguments;
    its_arguments[0] = path;  // $0
    Text(ReadWhole(path, kMostScriptBytes), its_arguments, path, depth);
  }

  // One word of the shell's, unquoted and expanded; `parts`: several of "$@". False: it is not known.
  bool Expand(std::string_view word, const std::vector<std::string>& arguments, std::vector<std::string>* parts) {
    std::string text;
    char quote = 0;
    for (size_t at = 0; at < word.size(); ++at) {
      const char c = word[at];
      if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
      } else if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote != '\'' && at + 1 < word.size()) {
        text += word[++at];
      } else if (c != '$' || quote == '\'') {
        if (c == '`') return false;
        text += c;
      } else {
        const std::string_view rest = word.substr(at + 1);
        if (rest.starts_with('@') || rest.starts_with('*') || rest.starts_with("{@}")) {
          if (!text.empty()) return false;
          parts->insert(parts->end(), arguments.begin() + 1, arguments.end());
          return true;
        }
        size_t length = 0;
        const std::string_view kFolders[] = {"(dirname \"$0\")", "(dirname $0)", "(dirname -- \"$0\")", "{0%/*}"};
        for (const std::string_view folder : kFolders) {
          if (!rest.starts_with(folder)) continue;
          const size_t slash = arguments[0].rfind('/');
          text += slash == std::string::npos ? "." : arguments[0].substr(0, slash);
          length = folder.size();
        }
        if (length == 0) {
          const bool braces = rest.starts_with('{');
          const std::string_view from = rest.substr(braces ? 1 : 0);
          size_t name = NameLength(from);
          if (name > 1 && !braces && std::isdigit(static_cast<unsigned char>(from[0])) != 0) name = 1;
          if (name == 0 || (braces && (from.size() <= name || from[name] != '}'))) return false;
          if (std::isdigit(static_cast<unsigned char>(from[0])) != 0) {
            const size_t number = name > 2 ? SIZE_MAX : std::stoul(std::string(from.substr(0, name)));
            if (number >= arguments.size()) return false;
            text += arguments[number];
          } else {
            const auto variable = variables_.find(std::string(from.substr(0, name)));
            if (variable == variables_.end()) return false;
            text += variable->second;
          }
          length = name + (braces ? 2 : 0);
        }
        at += length;
      }
    }
    parts->push_back(text);
    return true;
  }

  // A simple command of the shell's. False: nothing that follows is started below the library.
  bool Simple(const std::vector<std::string_view>& raw, const std::vector<std::string>& arguments,
              const std::string& script, int depth) {
    size_t at = 0;
    bool without_library = false;
    for (; at < raw.size(); ++at) {
      const std::string_view word = raw[at];
      if (const size_t name = AssignedName(word); name != 0) {
        without_library = without_library || word.substr(0, name) == kPreload;
        std::vector<std::string> value;
        if (Expand(word.substr(name + 1), arguments, &value) && value.size() == 1) {
          variables_[std::string(word.substr(0, name))] = value[0];
        } else {
          variables_.erase(std::string(word.substr(0, name)));
        }
      } else if (!IsBeforeCommand(word)) {
        break;
      }
    }
    if (at == raw.size()) return !without_library;  // LD_PRELOAD= alone is for what follows
    if (without_library) return true;
    if (raw[at] == "unset" || raw[at] == "export") {
      for (const std::string_view word : raw) {
        if (word == kPreload || word.starts_with("LD_PRELOAD=")) return raw[at] == "export" && word == kPreload;
      }
      return true;
    }
    std::vector<std::string> words;
    for (; at < raw.size(); ++at) {
      const bool is_first = words.empty();
      if (!Expand(raw[at], arguments, &words) && is_first) return true;
    }
    Command(words, script, depth + 1);
    return true;
  }

  void Text(std::string_view text, const std::vector<std::string>& arguments, const std::string& script, int depth) {
    std::map<std::string, std::string> outer = std::exchange(variables_, {});
    std::vector<std::string_view> words;
    size_t start = 0;
    bool in_word = false;
    const auto end_word = [&](size_t end) {
      if (in_word) words.push_back(text.substr(start, end - start));
      in_word = false;
    };
    int open = 0;  // $( … )
    char quote = 0;
    for (size_t at = 0; at <= text.size(); ++at) {
      const char c = at < text.size() ? text[at] : '\n';
      if (quote != 0 && at < text.size()) {
        if (c == '\\' && quote == '"') ++at;
        if (c == quote) quote = 0;
        continue;
      }
      if (c == '\\' && at + 1 < text.size()) {
        if (text[at + 1] == '\n') {
          end_word(at);
        } else if (!in_word) {
          in_word = true;
          start = at;
        }
        ++at;
        continue;
      }
      if (open > 0 && at < text.size()) {
        open += c == '(' ? 1 : c == ')' ? -1 : 0;
        continue;
      }
      if (c == '#' && !in_word) {
        at = std::min(text.find('\n', at), text.size());
        if (!words.empty() && !Simple(words, arguments, script, depth)) break;
        words.clear();
        continue;
      }
      if (std::string_view(" \t\n;&|()<>").find(c) != std::string_view::npos) {
        if (c == '(' && in_word && text[at - 1] == '$') {
          open = 1;
          continue;
        }
        end_word(at);
        if (c == ' ' || c == '\t') continue;
        if (!words.empty() && !Simple(words, arguments, script, depth)) break;
        words.clear();
        // The word after a redirection is a file, not a command.
        if (c == '<' || c == '>') words.emplace_back("<");
        continue;
      }
      if (!in_word) start = at;
      in_word = true;
      if (c == '\'' || c == '"') quote = c;
    }
    variables_ = std::move(outer);
  }

  const std::function<std::string(const std::string&)>& look_up_;
  std::map<std::string, std::string> looked_up_, variables_;
  std::set<std::string> seen_, scripts_;
  std::vector<StartedProgram> found_;
};

}  // namespace

std::vector<StartedProgram> ProgramsStartedBy(const std::vector<std::string>& command,
                                              const std::function<std::string(const std::string&)>& look_up) {
  Finder finder(look_up);
  finder.Command(command, "", 0);
  return finder.Take();
}

}  // namespace holdfast
