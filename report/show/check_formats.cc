#include "report/show/check_formats.h"

#include <algorithm>
#include <string_view>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"

namespace holdfast {
namespace {

std::string Xml(std::string_view text) { return RepairUtf8(MarkupEscaped(text)); }

std::string ResultText(const Outcome& outcome) {
  if (!outcome.why.empty()) return "FAIL: " + outcome.why;
  if (outcome.failed) return outcome.uncertain ? "FAIL (within the sampling error)" : "FAIL";
  if (outcome.unknown) return "cannot tell";
  return outcome.uncertain ? "ok (within the sampling error)" : "ok";
}

size_t CountFailures(const std::vector<Outcome>& outcomes) {
  return static_cast<size_t>(
      std::count_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.failed; }));
}

// The longest part of a name that is shown: templates have thousands of characters.
constexpr size_t kMaxNameBytes = 100;
constexpr size_t kMaxMarkdownRows = 20;

std::string MarkdownCell(std::string_view raw) {
  std::string text = Printable(raw);
  if (text.size() > kMaxNameBytes) text = RepairUtf8(text.substr(0, kMaxNameBytes)) + "…";
  std::string made;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '<' || c == '`' || c == '*' || c == '_') made += '\\';
    made += c;
  }
  return made;
}

}  // namespace

std::string CheckText(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (const Outcome& o : outcomes) {
    if (o.limit.empty()) {
      text += fmt::format("{:4}  {}\n", "FAIL", o.name);
      continue;
    }
    if (!o.why.empty()) {
      text += Printable(fmt::format("FAIL  {}: {}", o.name, o.why)) + "\n";
      continue;
    }
    text += Printable(fmt::format("{:4}  {}: {}, at most {}{}",
                                  o.failed    ? "FAIL"
                                  : o.unknown ? "?"
                                              : "ok",
                                  o.name, o.value, o.limit, o.uncertain ? "  (within the sampling error)" : "")) +
            "\n";
  }
  return text;
}

std::string CheckMarkdown(const std::vector<Outcome>& outcomes) {
  std::vector<const Outcome*> rows;
  for (const bool failed : {true, false}) {
    for (const Outcome& outcome : outcomes) {
      if (outcome.failed == failed) rows.push_back(&outcome);
    }
  }
  const size_t failures = CountFailures(outcomes);
  std::string text = failures == 0 ? fmt::format("### holdfast: {} of {} kept\n\n", outcomes.size(), outcomes.size())
                                   : fmt::format("### holdfast: {} of {} not kept\n\n", failures, outcomes.size());
  text += "| budget | value | at most | |\n|---|---|---|---|\n";
  for (size_t i = 0; i < std::min(rows.size(), kMaxMarkdownRows); ++i) {
    const Outcome& o = *rows[i];
    text += fmt::format("| {} | {} | {} | {} |\n", MarkdownCell(o.name), MarkdownCell(o.value), MarkdownCell(o.limit),
                        o.failed ? "**" + ResultText(o) + "**" : ResultText(o));
  }
  if (rows.size() > kMaxMarkdownRows) text += fmt::format("\nand {} more\n", rows.size() - kMaxMarkdownRows);
  return text;
}

std::string CheckJunit(const std::vector<Outcome>& outcomes) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"holdfast check\" tests=\"{}\" "
      "failures=\"{}\">\n",
      outcomes.size(), CountFailures(outcomes));
  for (const Outcome& o : outcomes) {
    text += fmt::format("    <testcase classname=\"holdfast\" name=\"{}\"", Xml(o.name));
    if (!o.failed) {
      text += "/>\n";
      continue;
    }
    text += fmt::format(">\n      <failure message=\"{}: {}\"/>\n    </testcase>\n", Xml(o.name),
                        Xml(o.why.empty() ? fmt::format("{}, at most {}", o.value, o.limit) : o.why));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace holdfast
