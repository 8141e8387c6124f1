// How `--help` looks: CLI11's text, with the program in `run`'s usage and defaults in brackets.
#ifndef HOLDFAST_REPORT_HELP_H_
#define HOLDFAST_REPORT_HELP_H_

#include <string>

#include "CLI/CLI.hpp"

namespace holdfast {

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_name() == "run") return "Usage: holdfast run [OPTIONS] [--] PROGRAM [ARGS…]\n";
    return CLI::Formatter::make_usage(app, name);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string text = " " + option->get_type_name();
    if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
    if (option->get_required()) text += " (required)";
    return text;
  }
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HELP_H_
