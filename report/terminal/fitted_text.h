// Text for a terminal of some width: shortened with a sign, or wrapped. A character is one column. Pure functions.
#ifndef HOLDFAST_REPORT_TERMINAL_FITTED_TEXT_H_
#define HOLDFAST_REPORT_TERMINAL_FITTED_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// At most `width` characters of it, 0 = all, with an ellipsis for what is missing: first in the place of the object behind
// a name, of argument lists, of templates' arguments, then in the middle, or of namespaces.
//
//     app::Table<int, std::string>::Get(std::string const&)  (libtable.so)
//     app::Table<int, std::string>::Get(std::string const&)  (…)
//     app::Table<int, std::string>::Get(…)
//     app::Table<…>::Get(…)
//     app::Ta…:Get(…), or …::Get(…) where Get(…) is more than half of it
std::string ShortenedTo(std::string_view text, size_t width);

// The beginning, with an ellipsis when it is not all.
std::string CutTo(std::string_view text, size_t width);

// The text over lines of at most `width` (0 = any) characters, broken at blanks, those behind the first indented by
// `indent` of them. A word that is longer than a line is broken, too.
std::vector<std::string> Wrapped(std::string_view text, size_t width, size_t indent);

// "program  redis-server …": 9, where what is said of it begins. Of text without such a word, what it begins with and 2.
size_t HangingIndent(std::string_view line);

// Each line of a text, wrapped so.
std::string WrappedLines(std::string_view text, size_t width);

// A text of two columns, such as --help: what is said of a word begins behind two blanks or more and goes on below itself. Where
// that is too wide, it is wrapped there; where that is in the right half, it stands below the word.
//
//       holdfast top --by age DIR     since when what is in use has been,
//                                     the oldest first
std::string FittedHelp(std::string_view text, size_t width);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TERMINAL_FITTED_TEXT_H_
