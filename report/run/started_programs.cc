#include "report/run/started_programs.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/base/base_name.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"
#include "report/names/elf/executable_kind.h"
#include "report/run/shell_script.h"

namespace holdfast {
namespace {

constexpr size_t kMaxShellBytes = 64 << 10;
constexpr int kMaxNesting = 8;

// Programs that execute the program named by their arguments, after their own options. `with_value`: options that take
// the next word. `own_words`: the number of their own words before the program.
struct Starter {
  std::string_view name, with_value;
  int own_words = 0;
  bool cleans_environment = false;
};
constexpr Starter kStarters[] = {
    {"sudo", "-u -g -h -p -C -D -R -T -U -r -t --user --group", 0, true},
    {"doas", "-u -C", 0, true},
    {"pkexec", "--user", 0, true},
    {"systemd-run", "-p -u -E -M -H --property --unit --slice --uid --gid --setenv", 0, true},
    {"runuser", "-u -g -G -s --user --group"},
    {"setpriv", "--reuid --regid --groups --ruid --euid --rgid --egid --inh-caps --ambient-caps --bounding-set"},
    {"env", "-u -C -S --unset --chdir"},
    {"nice", "-n --adjustment"},
    {"ionice", "-c -n --class --classdata"},
    {"chrt", "-T -P -D --sched-runtime --sched-period --sched-deadline", 1},
    {"taskset", "", 1},
    {"numactl", "-C -N -m -i -p -P -w --cpunodebind --membind --interleave --physcpubind"},
    {"nohup", ""},
    {"setsid", ""},
    {"setarch", ""},
    {"linux64", ""},
    {"stdbuf", "-i -o -e --input --output --error"},
    {"timeout", "-k -s --kill-after --signal", 1},
    {"time", "-f -o --format --output"},
    {"xargs", "-I -n -P -L -s -a -d -E --max-args --max-procs --arg-file --delimiter"},
    {"flock", "-w -E --timeout --conflict-exit-code", 1},
    {"watch", "-n --interval"},
    {"strace", "-o -e -p -s -u -E -a -b -I -O -S -X -P -U"},
    {"ltrace", "-o -e -l -n -s -u -a -x -A -D -F -w"},
    {"perf", "", 1},
    {"unshare", ""},
    {"nsenter", "-t -S -G --target --setuid --setgid"},
    {"faketime", "", 1},
    {"tini", "-p -e"},
    {"docker-init", "-p -e"},
    {"dumb-init", "-r --rewrite"},
    {"catatonit", "-P"},
    {"gosu", "", 1},
    {"su-exec", "", 1},
    {"chpst", "-u -U -b -e -/ -n -l -L -m -d -o -p -f -c -r -t -C"},
    {"setuidgid", "", 1},
    {"s6-setuidgid", "", 1},
    {"envdir", "", 1},
    {"softlimit", "-a -c -d -f -l -m -o -p -r -s -t"},
};

bool IsShell(std::string_view program) { return HasWord("sh bash dash ash ksh mksh zsh", BaseName(program)); }

// Helpers that a script calls on the way to its main program.
bool IsHelper(std::string_view program) {
  return HasWord(
      "awk basename cat chgrp chmod chown cp curl cut date df dirname du egrep envsubst expr fgrep find free gawk getent grep "
      "groupadd head hostname id install ip jq ldconfig ln locale ls lsof mkdir mkfifo mktemp mount mv nproc openssl pidof "
      "pgrep pkill ps pwd readlink realpath rm rmdir sed seq sleep sort stat stty sync sysctl tail tar tee touch tput tr tty "
      "umount uname uniq useradd usermod wc wget which whoami",
      BaseName(program));
}

std::string Spaced(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// Finds out whether the words of a command start another command or a script.
struct Inner {
  std::vector<std::string> command;
  std::optional<ShellScript> script;
  std::string shown;  // the starter, for people: "env -i", "bash -c", "./run.sh"
  bool cleans_environment = false;
};

std::vector<std::string> From(const std::vector<std::string>& words, size_t first) {
  return {words.begin() + static_cast<std::ptrdiff_t>(std::min(first, words.size())), words.end()};
}

Inner OfText(std::string shown, std::string text, std::vector<std::string> arguments) {
  return {.command = {}, .script = ShellScript{std::move(text), std::move(arguments)}, .shown = std::move(shown)};
}

Inner OfFile(const std::string& path, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), path);
  return OfText(path, ReadWhole(path, kMaxShellBytes), std::move(arguments));
}

// sh [OPTION…] -c TEXT [NAME [ARGUMENT…]], or sh [OPTION…] FILE [ARGUMENT…].
std::optional<Inner> OfShell(const std::vector<std::string>& words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.empty()) return std::nullopt;
    if (word[0] != '-' && word[0] != '+') return OfFile(word, From(words, i + 1));
    if (word.starts_with("--")) {
      if (word == "--rcfile" || word == "--init-file") ++i;
      continue;
    }
    if (word.find('c') == std::string::npos) {
      if (word.ends_with('o') || word.ends_with('O')) ++i;  // -o pipefail, -eo pipefail
      continue;
    }
    size_t text = i + 1;
    while (text < words.size() && words[text].starts_with('-'))
      text += words[text] == "-o" || words[text] == "-O" ? 2 : 1;
    if (text >= words.size()) return std::nullopt;
    std::vector<std::string> arguments = From(words, text + 1);
    if (arguments.empty()) arguments = {words[0]};
    return OfText(std::string(BaseName(words[0])) + " -c", words[text], std::move(arguments));
  }
  return std::nullopt;
}

// su [-] [USER] -c TEXT, also accepted by runuser and script; start-stop-daemon --start --exec FILE -- ARGUMENT….
std::optional<Inner> OfOwnForm(const std::vector<std::string>& words) {
  const std::string_view name = BaseName(words[0]);
  const auto value_of = [&](std::initializer_list<std::string_view> options) -> std::optional<std::string> {
    for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
      for (const std::string_view option : options) {
        if (words[i] == option && i + 1 < words.size()) return words[i + 1];
        if (option.starts_with("--") && words[i].starts_with(std::string(option) + "="))
          return words[i].substr(option.size() + 1);
      }
    }
    return std::nullopt;
  };
  if (HasWord("su runuser script flock", name)) {
    const std::optional<std::string> text = value_of({"-c", "--command"});
    if (!text.has_value()) return std::nullopt;
    Inner inner = OfText(std::string(name), *text, {"sh"});
    inner.cleans_environment = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return name != "script" && name != "flock" && (word == "-" || word == "-l" || word == "--login");
    });
    return inner;
  }
  if (name == "start-stop-daemon") {
    std::optional<std::string> program = value_of({"-a", "--startas"});
    if (!program.has_value()) program = value_of({"-x", "--exec"});
    if (!program.has_value() || std::find(words.begin(), words.end(), "--stop") != words.end()) return std::nullopt;
    Inner inner{.command = {*program}, .script = {}, .shown = std::string(name)};
    const auto dashes = std::find(words.begin(), words.end(), "--");
    if (dashes != words.end()) inner.command.insert(inner.command.end(), dashes + 1, words.end());
    return inner;
  }
  return std::nullopt;
}

std::optional<Inner> OfStarter(const std::vector<std::string>& words, const ProgramLookUp& look_up) {
  const std::string_view name = BaseName(words[0]);
  const auto* starter =
      std::find_if(std::begin(kStarters), std::end(kStarters), [&](const Starter& one) { return one.name == name; });
  if (starter == std::end(kStarters)) return std::nullopt;
  Inner inner{
      .command = {}, .script = {}, .shown = std::string(name), .cleans_environment = starter->cleans_environment};
  const bool is_env = name == "env";
  const auto cleans = [&](std::string_view how) {
    inner.cleans_environment = true;
    inner.shown = fmt::format("{} {}", name, how);
  };
  int own = starter->own_words;
  size_t at = 1;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (is_env && (word == "-i" || word == "-" || word == "--ignore-environment")) {
      cleans(word);
    } else if (is_env &&
               (word == "-uLD_PRELOAD" || word == "--unset=LD_PRELOAD" ||
                ((word == "-u" || word == "--unset") && at + 1 < words.size() && words[at + 1] == "LD_PRELOAD"))) {
      cleans("-u LD_PRELOAD");
      at += word == "-u" || word == "--unset" ? 1 : 0;
    } else if (name == "sudo" && (word == "-E" || word.starts_with("--preserve-env"))) {
      inner.cleans_environment = word.find("LD_PRELOAD") == std::string::npos;  // -E keeps all but LD_…
    } else if (is_env && (word.starts_with("-S") || word.starts_with("--split-string="))) {
      const std::string text =
          word == "-S" && at + 1 < words.size() ? words[++at] : word.substr(word.starts_with("-S") ? 2 : 15);
      std::vector<std::string> split;
      for (const std::string_view part : Split(text, " \t")) {
        if (!part.empty()) split.emplace_back(part);
      }
      split.insert(split.begin(), words[0]);
      const std::vector<std::string> rest = From(words, at + 1);
      split.insert(split.end(), rest.begin(), rest.end());
      return OfStarter(split, look_up);
    } else if (word.starts_with('-')) {
      if (HasWord(starter->with_value, word)) ++at;
    } else if (AssignedName(word) != 0 && (is_env || name == "sudo" || name == "chpst")) {
      if (word.starts_with("LD_PRELOAD=") && word.find("libholdfast") == std::string::npos) cleans("LD_PRELOAD=…");
    } else if (own > 0) {
      --own;
    } else {
      break;
    }
  }
  // After an unknown option that may take a value, the first executable word is the program.
  const auto can_run = [&](const std::string& word) {
    return !word.empty() && word[0] != '-' && !look_up(word).empty();
  };
  if (at < words.size() && !can_run(words[at])) {
    const auto found = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(at), words.end(), can_run);
    if (found != words.end()) at = static_cast<size_t>(found - words.begin());
  }
  if (at >= words.size()) return std::nullopt;
  inner.command = From(words, at);
  if (name == "watch") return OfText(inner.shown, Spaced(inner.command), {"sh"});
  return inner;
}

// "-S bash -e" or "bash": returns the first word that is no option, as `env` does.
std::string WordOf(const std::string& argument) {
  for (const std::string_view word : Split(argument, " \t")) {
    if (!word.empty() && word[0] != '-' && AssignedName(word) == 0) return std::string(word);
  }
  return "";
}

// `path`: where command[0] was found.
std::optional<Inner> InnerOf(const std::vector<std::string>& command, const std::string& path,
                             const ProgramLookUp& look_up) {
  if (IsShell(path) || IsShell(command[0])) return OfShell(command);
  if (auto inner = OfOwnForm(command); inner.has_value()) return inner;
  if (auto inner = OfStarter(command, look_up); inner.has_value()) return inner;
  const ExecutableKind file = ReadExecutableKind(path);
  const bool is_shells =
      file.kind == ExecutableKind::Kind::kText ||
      (file.kind == ExecutableKind::Kind::kScript && (IsShell(file.interpreter) || IsShell(WordOf(file.argument))));
  if (!is_shells) return std::nullopt;
  Inner inner = OfFile(path, From(command, 1));
  inner.shown = command[0];
  return inner;
}

// Returns the main command of a script.
const ScriptCommand* MainOf(const std::vector<ScriptCommand>& commands, const std::string& script,
                            const ProgramLookUp& look_up) {
  const ScriptCommand* best = nullptr;
  int best_rank = -1;
  for (const ScriptCommand& one : commands) {
    if (one.is_inside_word) continue;
    const bool is_itself =
        !one.words.empty() && std::find(one.words.begin(), one.words.end(), script) != one.words.end();
    if (!one.is_exec && !one.is_unknown && IsHelper(one.words[0])) continue;
    const bool is_found = !one.is_unknown && !look_up(one.words[0]).empty();
    const int rank = (one.is_exec ? 4 : 0) + (is_itself ? 0 : 2) + (is_found ? 1 : 0);
    if (rank < best_rank) continue;
    best_rank = rank;
    best = &one;
  }
  return best;
}

}  // namespace

StartedCommand FollowStarters(const std::vector<std::string>& given, const ProgramLookUp& look_up) {
  StartedCommand started;
  std::vector<std::string> command = given;
  std::set<std::string> scripts;
  for (int i = 0; i < kMaxNesting && !command.empty(); ++i) {
    std::optional<Inner> inner = InnerOf(command, look_up(command[0]), look_up);
    if (!inner.has_value()) break;
    bool drops = inner->cleans_environment;
    std::string how;
    if (inner->script.has_value()) {
      if (!scripts.insert(inner->script->text).second) break;  // the script starts itself
      const std::vector<ScriptCommand> commands = CommandsOf(*inner->script);
      const ScriptCommand* one = MainOf(commands, inner->script->arguments[0], look_up);
      if (one == nullptr) break;
      if (one->is_unknown) {
        started.unknown = one->text;
        started.by.push_back(fmt::format("{} starts another program", inner->shown));
        break;
      }
      how = one->without_library;
      drops = drops || !how.empty();
      inner->command = one->words;
    }
    started.by.push_back(fmt::format("{} starts it{}{}", inner->shown, drops ? " without LD_PRELOAD" : "",
                                     how.empty() ? "" : fmt::format(" ({})", how)));
    if (drops && started.drops_preload.empty()) {
      started.drops_preload = inner->shown;
      started.drops_by = how;
    }
    command = std::move(inner->command);
  }
  if (!started.by.empty() && started.unknown.empty()) started.words = std::move(command);
  return started;
}

}  // namespace holdfast
