// Fits text to the width of a terminal: shortens it with an ellipsis, or wraps it. One character is one column. Pure
// functions.
#ifndef HOLDFAST_REPORT_SHOW_FITTED_TEXT_H_
#define HOLDFAST_REPORT_SHOW_FITTED_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Shortens the text to `width` characters (0 = unlimited), with an ellipsis for what is removed. Removes first the
// object after a name, then lists of parameters, template arguments, and finally the middle or the namespaces.
//
//     app::Table<int, std::string>::Get(std::string const&)  (libtable.so)
//     app::Table<int, std::string>::Get(std::string const&)  (…)
//     app::Table<int, std::string>::Get(…)
//     app::Table<…>::Get(…)
//     app::Ta…:Get(…), or …::Get(…) where Get(…) is more than half of it
std::string ShortenedTo(std::string_view text, size_t width);

// Keeps the beginning of the text, with an ellipsis if anything was removed.
std::string CutTo(std::string_view text, size_t width);

// Wraps the text into lines of at most `width` (0 = unlimited) characters, at blanks. Indents all lines but the first
// by `indent` characters. Also breaks words that are longer than a line.
std::vector<std::string> Wrapped(std::string_view text, size_t width, size_t indent);

// For "program  redis-server …" returns 9, the start of the description after the first word. For text without such a
// word, returns its own indent plus 2.
size_t HangingIndent(std::string_view line);

// Wraps each line of a text in this way.
std::string WrappedLines(std::string_view text, size_t width);

// Fits a text of two columns, such as --help. The description of a word begins after two or more blanks and continues
// below itself if it is too wide. If it begins in the right half of the screen, it goes below the word.
//
//       holdfast top --by age DIR     since when what is in use has been,
//                                     the oldest first
std::string FittedHelp(std::string_view text, size_t width);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_FITTED_TEXT_H_
