// Writes JSON text from left to right: objects, arrays, strings and numbers. The tool's reports use it.
//
//   JsonText json;
//   json.Open('{').Key("pid").Number(4242).Key("names").Open('[').String("a\"b").Close(']').Close('}');
//
// Strings are repaired to valid UTF-8. Commas are inserted automatically.
#ifndef HOLDFAST_REPORT_BASE_JSON_TEXT_H_
#define HOLDFAST_REPORT_BASE_JSON_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "report/base/utf8.h"

namespace holdfast {

class JsonText {
 public:
  JsonText& Open(char bracket) {
    Comma();
    text_ += bracket;
    needs_comma_ = false;
    return *this;
  }
  JsonText& Close(char bracket) {
    text_ += bracket;
    needs_comma_ = true;
    return *this;
  }
  JsonText& Key(std::string_view key) {
    String(key);
    text_ += ':';
    needs_comma_ = false;
    return *this;
  }
  JsonText& String(std::string_view value) {
    Comma();
    text_ += '"';
    for (const char c : RepairUtf8(value)) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        text_ += c;
      }
    }
    text_ += '"';
    needs_comma_ = true;
    return *this;
  }
  JsonText& Number(int64_t value) { return Raw(fmt::format("{}", value)); }
  JsonText& Real(double value) { return Raw(fmt::format("{:.17g}", value)); }  // finite values only
  JsonText& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonText& Null() { return Raw("null"); }
  // Appends a value that is already JSON.
  JsonText& Raw(std::string_view value) {
    Comma();
    text_ += value;
    needs_comma_ = true;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void Comma() {
    if (needs_comma_) text_ += ',';
  }
  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_JSON_TEXT_H_
