// Makes text of a profile or a path safe to show on a terminal or a page.
#ifndef HOLDFAST_REPORT_BASE_PRINTABLE_H_
#define HOLDFAST_REPORT_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace holdfast {

// Replaces control characters with '?'. Names come from files that anyone may have written, and an escape sequence in a
// name would control the reader's terminal.
inline std::string Printable(std::string_view text) {
  std::string shown(text);
  for (size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    // 0xc2 0x80–0x9f: the control characters U+0080–U+009F in UTF-8.
    const bool second_set = byte >= 0x80 && byte < 0xa0 && i > 0 && static_cast<unsigned char>(shown[i - 1]) == 0xc2;
    if (byte < 0x20 || byte == 0x7f) shown[i] = '?';
    if (second_set) {
      shown[i - 1] = '?';
      shown.erase(i--, 1);
    }
  }
  return shown;
}

// Also escapes the text for HTML or XML, inside or outside quotes.
inline std::string MarkupEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_PRINTABLE_H_
