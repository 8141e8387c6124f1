#include "report/cmd/completion.h"

#include <time.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/cmd/help.h"

namespace holdfast {
namespace {

// Returns the commands that --help lists.
std::vector<const CLI::App*> Commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

struct Described {
  std::vector<std::string> names;  // -o, --output
  std::string value;               // FILE; "" for a flag
  std::string text, fallback;
};

std::vector<Described> OptionsOf(const CLI::App& command) {
  std::vector<Described> all;
  for (const CLI::Option* option : command.get_options()) {
    if (option->nonpositional() == false || option->get_group().empty()) continue;
    Described made;
    for (const std::string& name : option->get_snames()) made.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) made.names.push_back("--" + name);
    if (option->get_type_size() != 0) made.value = ValueNameOf(*option);
    made.text = option->get_description();
    made.fallback = option->get_default_str();
    all.push_back(std::move(made));
  }
  return all;
}

std::vector<const CLI::Option*> PositionalsOf(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

bool TakesPath(std::string_view value) { return value == "FILE" || value == "DIR" || value == "PATH"; }

// Escapes text for single quotes of a shell.
std::string Quoted(std::string_view text) {
  std::string made;
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c == '\n' ? ' ' : c);
  return made;
}

std::string Bash(const CLI::App& app) {
  std::vector<std::string> names;
  std::string cases, with_value;
  for (const CLI::App* command : Commands(app)) {
    names.push_back(command->get_name());
    std::vector<std::string> words;
    for (const Described& option : OptionsOf(*command)) {
      words.insert(words.end(), option.names.begin(), option.names.end());
    }
    cases += fmt::format("    {}) options='{}' ;;\n", command->get_name(), fmt::join(words, " "));
  }
  return fmt::format(R"(# bash completion of holdfast. Load it with: source <(holdfast completion bash)
_holdfast() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]-}} options=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W '{} --help --version' -- "$current")
    return
  fi
  case $command in
{}  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [ "$command" = completion ]; then
    mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
}}
complete -F _holdfast holdfast
)",
                     fmt::join(names, " "), cases);
}

// Escapes brackets and colons, which have a meaning in lists of _arguments and _describe.
std::string ZshText(std::string_view text) {
  std::string made;
  for (const char c : Quoted(text)) {
    if (c == '[' || c == ']' || c == ':') made += '\\';
    made += c;
  }
  return made;
}

std::string Zsh(const CLI::App& app) {
  std::string names, cases;
  for (const CLI::App* command : Commands(app)) {
    names += fmt::format("    '{}:{}'\n", command->get_name(), ZshText(command->get_description()));
    cases += fmt::format("    {})\n      _arguments -S \\\n", command->get_name());
    for (const Described& option : OptionsOf(*command)) {
      for (const std::string& name : option.names) {
        const std::string value = option.value.empty() ? ""
                                                       : fmt::format(":{}:{}", ZshText(option.value),
                                                                     TakesPath(option.value) ? "_files" : "");
        cases += fmt::format("        '*{}[{}]{}' \\\n", name, ZshText(option.text), value);
      }
    }
    cases +=
        command->get_name() == "completion" ? "        '*:shell:(bash zsh fish)' ;;\n" : "        '*:file:_files' ;;\n";
  }
  return fmt::format(R"(#compdef holdfast
# zsh completion of holdfast: a file _holdfast in a folder of $fpath.
_holdfast() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
if [ "$funcstack[1]" = _holdfast ]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
)",
                     names, cases);
}

std::string Fish(const CLI::App& app) {
  std::string text = "# fish completion of holdfast: holdfast.fish in a folder of $fish_complete_path.\n";
  text += "complete -c holdfast -n __fish_use_subcommand -l help -s h -d 'Print help'\n";
  text += "complete -c holdfast -n __fish_use_subcommand -l version -d 'Print the version'\n";
  for (const CLI::App* command : Commands(app)) {
    text += fmt::format("complete -c holdfast -f -n __fish_use_subcommand -a {} -d '{}'\n", command->get_name(),
                        Quoted(command->get_description()));
    for (const Described& option : OptionsOf(*command)) {
      std::string names;
      for (const std::string& name : option.names) {
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      text += fmt::format("complete -c holdfast -n '__fish_seen_subcommand_from {}'{}{} -d '{}'\n", command->get_name(),
                          names,
                          option.value.empty()      ? ""
                          : TakesPath(option.value) ? " -r"
                                                    : " -x",
                          Quoted(option.text));
    }
  }
  return text + "complete -c holdfast -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n";
}

// Escapes a line of roff: its special characters, and a first character that would make the line a request.
std::string Roff(std::string_view text) {
  std::string made;
  if (text.starts_with('.') || text.starts_with('\'')) made = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      made += "\\e";
    } else if (c == '-') {
      made += "\\-";
    } else if (c == '\n') {
      made += "\n";
    } else {
      made += c;
    }
  }
  return made;
}

// Escapes text with examples: keeps lines that begin with blanks unfilled.
std::string RoffText(const std::string& text) {
  std::string made;
  bool example = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with(' ');
    if (indented != example) made += indented ? ".PP\n.nf\n" : ".fi\n.PP\n";
    example = indented;
    made += line.empty() ? (example ? "\n" : ".PP\n") : Roff(line) + "\n";
  }
  return made + (example ? ".fi\n" : "");
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// The date of the build: SOURCE_DATE_EPOCH for releases, otherwise today.
std::string PageDate() {
  const char* epoch = getenv("SOURCE_DATE_EPOCH");
  const time_t when = epoch != nullptr ? static_cast<time_t>(strtoll(epoch, nullptr, 10)) : time(nullptr);
  tm parts{};
  gmtime_r(&when, &parts);
  char text[16] = {};
  strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

std::string Page(const CLI::App& app, const std::string& name, const std::string& synopsis,
                 const std::string& summary) {
  std::string text = fmt::format(".TH {} 1 \"{}\" \"{}\" \"Holdfast\"\n.SH NAME\n{} \\- {}\n", Upper(Roff(name)),
                                 PageDate(), Roff(app.version()), Roff(name), Roff(summary));
  return text + fmt::format(".SH SYNOPSIS\n{}\n", synopsis);
}

std::string OptionsSection(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : PositionalsOf(command)) {
    text += fmt::format(".TP\n.I {}\n{}\n", Roff(option->get_name(true)), Roff(option->get_description()));
  }
  for (const Described& option : OptionsOf(command)) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back(fmt::format("\\fB{}\\fR", Roff(name)));
    text += fmt::format(".TP\n{}{}\n{}{}\n", fmt::join(names, ", "),
                        option.value.empty() ? "" : fmt::format(" \\fI{}\\fR", Roff(option.value)), Roff(option.text),
                        option.fallback.empty() ? "" : fmt::format(" [{}]", Roff(option.fallback)));
  }
  return text.empty() ? "" : ".SH OPTIONS\n" + text;
}

constexpr char kExitStatus[] =
    ".SH EXIT STATUS\n"
    "0: fine. 1: a finding (a leak, an exceeded budget). 2: wrong usage. 3: the command could not do it. \\fBholdfast run\\fR exits with the status of the program; 125, 126 and 127 are its own.\n";

}  // namespace

absl::StatusOr<std::string> CompletionFor(std::string_view shell, const CLI::App& app) {
  if (shell == "bash") return Bash(app);
  if (shell == "zsh") return Zsh(app);
  if (shell == "fish") return Fish(app);
  return absl::InvalidArgumentError(fmt::format("completion {}: no such shell. Use bash, zsh or fish.", shell));
}

std::vector<std::pair<std::string, std::string>> ManPages(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> pages;
  std::string list, group;
  for (const CLI::App* command : Commands(app)) {
    const std::string name = "holdfast-" + command->get_name();
    if (command->get_group() != group) list += fmt::format(".SS {}\n", Roff(group = command->get_group()));
    list += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", Roff(name), Roff(command->get_description()));
    std::string synopsis = fmt::format("\\fBholdfast {}\\fR [\\fIOPTIONS\\fR]", Roff(command->get_name()));
    if (command->get_name() == "run") synopsis += " [\\-\\-] \\fIPROGRAM\\fR [\\fIARGS\\fR...]";
    for (const CLI::Option* option : PositionalsOf(*command)) {
      synopsis +=
          fmt::format(" \\fI{}\\fR{}", Roff(option->get_name(true)), option->get_items_expected_max() > 1 ? "..." : "");
    }
    std::string page = Page(app, name, synopsis, command->get_description());
    if (!command->get_footer().empty()) page += ".SH DESCRIPTION\n" + RoffText(command->get_footer());
    page += OptionsSection(*command) + kExitStatus + ".SH SEE ALSO\n\\fBholdfast\\fR(1)\n";
    pages.push_back({name + ".1", std::move(page)});
  }
  std::string page = Page(app, "holdfast", "\\fBholdfast\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...",
                          "heap and lock profiles of native programs, without rebuilding them");
  // The help names the library by its installed path, which may not apply where the page is read.
  std::string description = app.get_description();
  constexpr std::string_view kVariable = "LD_PRELOAD=";
  if (const size_t at = description.find(kVariable); at != std::string::npos) {
    const size_t begin = at + kVariable.size(), end = description.find(' ', begin);
    description.replace(begin, end == std::string::npos ? std::string::npos : end - begin,
                        "…/lib/holdfast/libholdfast.so");
  }
  page += ".SH DESCRIPTION\n" + RoffText(description) + ".SH COMMANDS\n" + list + kExitStatus;
  pages.insert(pages.begin(), {"holdfast.1", std::move(page)});
  return pages;
}

}  // namespace holdfast
