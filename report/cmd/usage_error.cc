#include "report/cmd/usage_error.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace holdfast {
namespace {

// Returns the text before and after `mark`. Both are empty if the text does not contain it.
std::pair<std::string, std::string> Around(const std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string::npos) return {};
  return {text.substr(0, at), text.substr(at + mark.size())};
}

std::string WithoutEnd(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (text.ends_with(' ') || text.ends_with('.')) text.pop_back();
  return text;
}

// CLI11 before 2.6 does so with the arguments that it did not expect.
bool JoinsInReverse() {
  return std::string_view(CLI::ExtrasError(std::vector<std::string>{"first", "second"}).what()).ends_with("first");
}

}  // namespace

// CLI11 provides the names that an error is about only as part of its message.
std::string UsageError(const CLI::ParseError& error) {
  std::string text = WithoutEnd(error.what());
  if (text.starts_with(": ")) text.erase(0, 2);  // CLI11 gives hidden options no name
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (const auto name = Around(text, " is required").first; !name.empty()) return name + " is missing";
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string what = Around(text, "not expected: ").second, words = " " + what;
    if (const size_t at = JoinsInReverse() ? words.rfind(" -") : words.find(" -"); at != std::string::npos) {
      const std::string option = words.substr(at + 1);
      return fmt::format("{}: no such option", option.substr(0, option.find_first_of(" =")));
    }
    if (!what.empty()) return fmt::format("unexpected argument \"{}\"", what);
  }
  if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr) {
    const auto [one, other] = Around(text, " excludes ");
    if (!one.empty()) return fmt::format("{} and {} exclude each other", one, other);
  }
  if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr) {
    const auto [one, other] = Around(text, " requires ");
    if (!one.empty()) return fmt::format("{} requires {}", one, other);
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    if (const auto [name, value] = Around(Around(text, "Could not convert: ").second, " = "); !name.empty()) {
      return fmt::format("{} does not take \"{}\"", name, value);
    }
    if (const std::string name = Around(text, ": ").first; !name.empty()) return name + " takes no value";
    if (const std::string name = Around(text, " allowed value for ").second; !name.empty()) {
      return name + " takes no value";
    }
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool override = text.find("flag override") != std::string::npos;
    const std::string name = override ? Around(text, " was given").first : Around(text, ": ").first;
    if (override) return name + " takes no value";
    if (text.find("missing") != std::string::npos || text.find("but received 0") != std::string::npos) {
      return name + " requires a value";
    }
    if (!name.empty()) return name + " may be given only once";
  }
  return text;
}

}  // namespace holdfast
