#include "report/processes/starter_command.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

constexpr int kMostStarters = 8;
constexpr size_t kMostScript = 256 << 10;

// Programs that execute their first word that is no option. `with_value`: options that take the next word. `own_words`:
// words of their own before the program.
struct Starter {
  std::string_view name;
  std::string_view with_value;
  int own_words = 0;
  bool cleans_environment = false;
};
constexpr Starter kStarters[] = {
    {"sudo", "-u -g -h -p -C -D -R -T -U -r -t", 0, true},
    {"doas", "-u -C", 0, true},
    {"pkexec", "--user", 0, true},
    {"runuser", "-u -g -G", 0, false},
    {"setpriv", "", 0, false},
    {"env", "-u -C -S --unset --chdir", 0, false},
    {"nice", "-n", 0, false},
    {"ionice", "-c -n -p", 0, false},
    {"chrt", "-T -P -D", 1, false},
    {"taskset", "", 1, false},
    {"numactl", "-C -N -m -i -p", 0, false},
    {"nohup", "", 0, false},
    {"setsid", "", 0, false},
    {"stdbuf", "-i -o -e", 0, false},
    {"timeout", "-k -s", 1, false},
    {"time", "-f -o", 0, false},
    {"tini", "-p -e", 0, false},
    {"dumb-init", "-r", 0, false},
    {"gosu", "", 1, false},
    {"su-exec", "", 1, false},
};

bool IsAssignment(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         word.substr(0, equals).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
             std::string_view::npos;
}

bool HasWord(std::string_view words, std::string_view one) {
  return (" " + std::string(words) + " ").find(" " + std::string(one) + " ") != std::string::npos;
}

// Takes one starter off the front of `command`. False: it is none, or names no program.
bool TakeStarter(std::vector<std::string>* command, StartedCommand* started) {
  const std::string_view name = BaseName((*command)[0]);
  const auto* starter =
      std::find_if(std::begin(kStarters), std::end(kStarters), [&](const Starter& one) { return one.name == name; });
  if (starter == std::end(kStarters)) return false;
  bool cleans = starter->cleans_environment;
  std::string shown(name);
  size_t at = 1;
  int own = starter->own_words;
  for (; at < command->size(); ++at) {
    const std::string& word = (*command)[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (name == "env" && (word == "-i" || word == "-" || word == "--ignore-environment")) {
      cleans = true;
      shown = "env " + word;
    } else if (name == "env" && (word == "-uLD_PRELOAD" || word == "--unset=LD_PRELOAD")) {
      cleans = true;
      shown = "env -u LD_PRELOAD";
    } else if (name == "sudo" && (word == "-E" || word.starts_with("--preserve-env"))) {
      cleans = !HasWord(word, "LD_PRELOAD") && word.find("LD_PRELOAD") == std::string::npos;
    } else if (word.starts_with('-')) {
      if (HasWord(starter->with_value, word)) {
        ++at;
        if (name == "env" && at < command->size() && (*command)[at] == "LD_PRELOAD") {
          cleans = true;
          shown = "env -u LD_PRELOAD";
        }
      }
    } else if (IsAssignment(word) && (name == "env" || name == "sudo")) {
      if (word.starts_with("LD_PRELOAD=")) {
        cleans = true;
        shown = std::string(name) + " LD_PRELOAD=…";
      }
    } else if (own > 0) {
      --own;
    } else {
      break;
    }
  }
  if (at >= command->size()) return false;
  command->erase(command->begin(), command->begin() + static_cast<ptrdiff_t>(at));
  started->by.push_back(cleans ? fmt::format("{} starts it without LD_PRELOAD", shown)
                               : fmt::format("{} starts it", shown));
  if (cleans && started->drops_preload.empty()) started->drops_preload = shown;
  return true;
}

// ---- Scripts ----

using Variables = std::map<std::string, std::string>;

// A word of a shell's, without its quotes. Nothing: only the shell knows it. "$@" is no word at all.
struct Word {
  std::optional<std::string> text;
  bool is_arguments = false;
};

class Script {
 public:
  Script(const std::string& path, std::string text) : text_(std::move(text)) {
    folder_ = std::filesystem::path(path).parent_path().string();
    if (folder_.empty()) folder_ = ".";
    variables_["0"] = path;
  }

  // The command of the last `exec`, else of the last line that is one.
  StartedCommand Run() {
    StartedCommand last, of_exec;
    bool has_exec = false;
    for (const std::string& line : Lines()) {
      std::vector<Word> words = WordsOf(line);
      while (!words.empty() && words[0].text && IsAssignment(*words[0].text)) {
        const std::string& word = *words[0].text;
        const size_t equals = word.find('=');
        variables_[word.substr(0, equals)] = word.substr(equals + 1);
        words.erase(words.begin());
      }
      if (words.empty() || !words[0].text) {
        if (!words.empty()) last = Unknown(line);
        continue;
      }
      const std::string& first = *words[0].text;
      if (first == "cd" && words.size() == 2 && words[1].text) folder_ = In(*words[1].text);
      if (first == "exec") {
        if (words.size() > 1 && !IsRedirection(line)) {
          of_exec = CommandOf({words.begin() + 1, words.end()}, line);
          has_exec = has_exec || !of_exec.words.empty() || !of_exec.unknown.empty();
        }
      } else if (!IsShells(first)) {
        last = CommandOf(words, line);
      }
    }
    return has_exec ? of_exec : last;
  }

 private:
  static bool IsShells(std::string_view word) {
    return HasWord(
               "if then else elif fi for while until do done case esac in function { } ( ) ! [ [[ : . source alias break "
               "continue eval export readonly local return exit set shift trap ulimit umask unset wait cd echo printf test true "
               "false read mkdir rm cp mv ln chmod chown cat sed grep sleep kill ;;",
               word) ||
           word.ends_with(')');
  }
  static bool IsRedirection(const std::string& line) {
    const size_t at = line.find_first_not_of(" \t", line.find("exec") + 4);
    return at != std::string::npos && (line[at] == '>' || line[at] == '<' || line.find_first_of("<>", at) == at + 1);
  }
  static StartedCommand Unknown(const std::string& line) {
    StartedCommand command;
    command.unknown = line;
    return command;
  }

  std::string In(const std::string& path) const {
    if (path.starts_with('/') || folder_ == ".") return path;
    return (std::filesystem::path(folder_) / path).lexically_normal().string();
  }

  StartedCommand CommandOf(std::vector<Word> words, const std::string& line) const {
    if (words.size() > 1 && words[0].text &&
        (*words[0].text == "-a" || *words[0].text == "-c" || *words[0].text == "-l"))
      words.erase(words.begin(), words.begin() + (*words[0].text == "-a" ? 2 : 1));
    StartedCommand command;
    for (const Word& word : words) {
      if (word.is_arguments) continue;
      if (!word.text) {
        if (command.words.empty()) return Unknown(line);
        continue;  // an argument
      }
      const std::string& text = *word.text;
      if (text == "&" || text == "|" || text == "||" || text == "&&" || text.starts_with('>') || text.starts_with("2>"))
        break;
      command.words.push_back(text);
    }
    if (command.words.empty()) return words.empty() ? command : Unknown(line);
    if (command.words[0].find('/') != std::string::npos) command.words[0] = In(command.words[0]);
    return command;
  }

  // Without comments, a line that goes on is one line; `a; b` and `a && b` are two.
  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::string line;
    char quote = 0;
    for (size_t i = 0; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '\\' && i + 1 < text_.size()) {
        if (text_[i + 1] != '\n') line += {c, text_[i + 1]};
        ++i;
      } else if (quote != 0) {
        if (c == quote) quote = 0;
        line += c;
      } else if (c == '\'' || c == '"') {
        quote = c;
        line += c;
      } else if (c == '#' && (line.empty() || line.back() == ' ' || line.back() == '\t')) {
        while (i + 1 < text_.size() && text_[i + 1] != '\n') ++i;
      } else if (c == '\n' || c == ';' || (c == '&' && i + 1 < text_.size() && text_[i + 1] == '&')) {
        if (c == '&') ++i;
        lines.push_back(std::exchange(line, ""));
      } else {
        line += c;
      }
    }
    lines.push_back(line);
    return lines;
  }

  std::vector<Word> WordsOf(const std::string& line) const {
    std::vector<Word> words;
    for (size_t at = 0; at < line.size();) {
      at = line.find_first_not_of(" \t", at);
      if (at == std::string::npos) break;
      words.push_back(NextWord(line, &at));
    }
    return words;
  }

  Word NextWord(const std::string& line, size_t* at) const {
    Word word{.text = ""};
    char quote = 0;
    const size_t begin = *at;
    for (; *at < line.size(); ++*at) {
      const char c = line[*at];
      if (quote == 0 && (c == ' ' || c == '\t')) break;
      if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else if (c == '\\' && quote != '\'' && *at + 1 < line.size()) {
        Append(&word, std::string(1, line[++*at]));
      } else if (c == '$' && quote != '\'') {
        const std::optional<std::string> value = Expanded(line, at);
        if (value) {
          Append(&word, *value);
        } else {
          word.text.reset();
        }
      } else if (c == '`' || (quote == 0 && (c == '*' || c == '?'))) {
        word.text.reset();
      } else {
        Append(&word, std::string(1, c));
      }
    }
    const std::string_view whole = std::string_view(line).substr(begin, *at - begin);
    word.is_arguments = whole == "\"$@\"" || whole == "$@" || whole == "$*" || whole == "${1+\"$@\"}";
    return word;
  }
  static void Append(Word* word, const std::string& text) {
    if (word->text) *word->text += text;
  }

  // The value of what begins with the '$' at `*at`; moves `*at` to its last character.
  std::optional<std::string> Expanded(const std::string& line, size_t* at) const {
    const std::string_view rest = std::string_view(line).substr(*at + 1);
    if (rest.starts_with('(')) {
      int depth = 0;
      size_t end = 0;
      for (; end < rest.size(); ++end) {
        depth += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
        if (depth == 0) break;
      }
      const std::string_view inside = rest.substr(0, end + 1);
      *at += end + 1;
      // $(dirname "$0"), $(cd "$(dirname "$0")" && pwd), $(dirname "$(readlink -f "$0")")
      const bool is_folder =
          inside.find("dirname") != std::string_view::npos &&
          (inside.find("$0") != std::string_view::npos || inside.find("BASH_SOURCE") != std::string_view::npos) &&
          inside.find("..") == std::string_view::npos;
      if (!is_folder) return std::nullopt;
      const std::string folder = std::filesystem::path(variables_.at("0")).parent_path().string();
      return folder.empty() ? "." : folder;
    }
    std::string name;
    std::string operation;
    if (rest.starts_with('{')) {
      const size_t end = rest.find('}');
      if (end == std::string_view::npos) return std::nullopt;
      *at += end + 1;
      name = rest.substr(1, end - 1);
      const size_t split = name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
      if (split != std::string::npos) {
        operation = name.substr(split);
        name.resize(split);
      }
    } else {
      size_t end = 0;
      while (end < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[end])) != 0 || rest[end] == '_')) ++end;
      if (end == 0) end = 1;
      *at += end;
      name = rest.substr(0, end);
    }
    const auto known = variables_.find(name);
    const char* const set = known == variables_.end() ? std::getenv(name.c_str()) : nullptr;
    std::string value = known != variables_.end() ? known->second : set != nullptr ? set : "";
    if (operation == "%/*") return value.substr(0, value.rfind('/'));
    if (operation.starts_with(":-") || operation.starts_with("-")) {
      if (!value.empty()) return value;
      const std::string usual = operation.substr(operation[0] == ':' ? 2 : 1);
      return usual.find('$') == std::string::npos ? std::optional(usual) : std::nullopt;
    }
    if (!operation.empty() || (known == variables_.end() && set == nullptr)) return std::nullopt;
    return value;
  }

  const std::string text_;
  std::string folder_;
  Variables variables_;
};

// "#!/bin/sh", "#!/usr/bin/env bash", or a text that begins without them.
bool IsShellScript(const std::string& text) {
  if (text.empty() || text.find('\0') < 512) return false;
  if (!text.starts_with("#!")) return !text.starts_with("\x7f");
  const std::string first = text.substr(0, text.find('\n'));
  const std::string shell = first.substr(first.find_last_of("/ ") + 1);
  return HasWord("sh bash dash ash ksh zsh", shell) || first.find("/sh ") != std::string::npos ||
         first.find("bash ") != std::string::npos;
}

bool StartsAShell(std::string_view name) { return HasWord("sh bash dash ash ksh zsh", name); }

}  // namespace

StartedCommand FollowStarters(std::vector<std::string> command, const std::string& path) {
  StartedCommand started;
  std::string file = path;
  for (int i = 0; i < kMostStarters && !command.empty(); ++i) {
    if (TakeStarter(&command, &started)) {
      file = command[0];
      continue;
    }
    std::string text, shown = command[0];
    if (StartsAShell(BaseName(command[0])) && command.size() > 2 && command[1] == "-c") {
      text = command[2];
      shown = std::string(BaseName(command[0])) + " -c";
    } else if (StartsAShell(BaseName(command[0])) && command.size() > 1 && !command[1].starts_with('-')) {
      shown = file = command[1];
      text = ReadWhole(file, kMostScript);
    } else if (file.find('/') != std::string::npos) {
      text = ReadWhole(file, kMostScript);
      if (!IsShellScript(text)) break;
    }
    if (text.empty()) break;
    StartedCommand inner = Script(file, text).Run();
    if (inner.words.empty()) {
      started.unknown = inner.unknown;
      if (!inner.unknown.empty()) started.by.push_back(fmt::format("{} starts something else", shown));
      break;
    }
    started.by.push_back(fmt::format("{} starts it", shown));
    command = std::move(inner.words);
    file = command[0];
  }
  if (!started.by.empty() && started.unknown.empty()) started.words = std::move(command);
  return started;
}

}  // namespace holdfast
