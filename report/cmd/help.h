// The format of `--help`: CLI11's text, plus the program in the usage of `run`, and defaults in brackets. Also the
// validators that options share.
#ifndef HOLDFAST_REPORT_CMD_HELP_H_
#define HOLDFAST_REPORT_CMD_HELP_H_

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"

namespace holdfast {

// Returns the name of an option's value for the help, such as DIR.
inline std::string ValueNameOf(const CLI::Option& option) {
  // For options of several commands. CLI11 calls the value of any option TEXT.
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"tables", "DIR"},
                                                                      {"out", "DIR"},
                                                                      {"listen", "ADDRESS"},
                                                                      {"token-file", "FILE"},
                                                                      {"listen-token-file", "FILE"},
                                                                      {"cert", "FILE"},
                                                                      {"listen-cert", "FILE"},
                                                                      {"key", "FILE"},
                                                                      {"listen-key", "FILE"},
                                                                      {"ca", "FILE"},
                                                                      {"user-file", "FILE"},
                                                                      {"host", "NAME"},
                                                                      {"listen-host", "NAME"},
                                                                      {"service-name", "NAME"},
                                                                      {"label", "NAME=VALUE"},
                                                                      {"tenant", "ID"},
                                                                      {"proxy", "URL"}};
  const std::string name = option.get_type_name();
  if (name == "TEXT") {
    for (const auto& [long_name, value] : kNames) {
      if (option.check_lname(std::string(long_name))) return std::string(value);
    }
  }
  return name.substr(0, name.find(':'));  // CLI11 appends the name of the check: DIR:DIR
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { KeepLines(*this); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_name() == "run") return "Usage: holdfast run [OPTIONS] [--] PROGRAM [ARGS…]\n";
    if (app->get_name() == "set") return "Usage: holdfast set [OPTIONS] [PID…] NAME=VALUE…\n";
    // Not CLI11's: that of 2.6 does not begin with Usage.
    std::string usage = "Usage: " + name + " [OPTIONS]";
    for (const CLI::Option* option : app->get_options([](const CLI::Option* one) { return one->get_positional(); }))
      usage += " " + make_option_usage(option);
    if (app->get_require_subcommand_min() > 0) usage += " COMMAND";
    return usage + "\n";
  }
  // Omits the "{false}" that CLI11 appends to flags that switch something off.
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, is_positional);
    constexpr std::string_view kOff = "{false}";
    for (size_t at; (at = name.find(kOff)) != std::string::npos;) name.erase(at, kOff.size());
    return name;
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0 || !option->nonpositional()) return "";  // the usage shows which are optional
    const std::string value = ValueNameOf(*option);
    // A value that may be left out must be in the same word: --cpu=100.
    const bool is_optional = option->get_items_expected_min() == 0 && !value.empty();  // a flag has no value
    std::string text = is_optional ? "[=" + value + "]" : " " + value;
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    if (option->get_required()) text += " (required)";
    return text;
  }

 private:
  // CLI11 2.6 joins and wraps the lines of descriptions and footers, also of examples.
  template <typename Formatter>
  static void KeepLines(Formatter& formatter) {
    if constexpr (requires { formatter.enable_footer_formatting(false); }) {
      formatter.enable_footer_formatting(false);
      formatter.enable_description_formatting(false);
    }
  }
};

// Validates an option that takes a fraction of a total.
inline CLI::Validator Share() {
  const auto check = [](const std::string& text) {
    double share = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
    const bool fine = error == std::errc() && end == text.data() + text.size() && share >= 0 && share <= 1;
    return fine ? std::string() : "\"" + text + "\" is not a fraction from 0 to 1, such as 0.01";
  };
  return CLI::Validator(check, "");
}

// Validates an option that takes one of `words`.
inline CLI::Validator OneOf(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    std::string all;
    for (size_t i = 0; i < words.size(); ++i) all += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return "\"" + text + "\" is not " + all;
  };
  return CLI::Validator(check, "");
}

// For options that take a count, 0 or more. CLI11 alone would accept -1 as the largest number.
inline CLI::Validator WholeNumber() {
  const auto check = [](const std::string& text) {
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    return digits ? std::string() : "\"" + text + "\" is not a whole number, 0 or more";
  };
  return CLI::Validator(check, "");
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_HELP_H_
