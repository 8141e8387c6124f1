// Shows answers that are longer than the screen through a pager, as git does. Only on a terminal.
//
//     invocation->exit_code = Paged(options->pager, [&](std::ostream& out) { return RunTop(*options, out, std::cerr); });
//
// The pager is $HOLDFAST_PAGER, else $PAGER, else less; sh runs the command. "" and cat mean no pager, and a dumb
// terminal gets none. If LESS is not set, it is set to FRX (colours, do not clear the screen), and LV to -c. Quitting
// the pager early is no error: the exit status remains the command's, and there is no message. If the pager cannot be
// started, the text is printed. Uses one thread, and the caller must have no others.
#ifndef HOLDFAST_REPORT_SHOW_PAGER_H_
#define HOLDFAST_REPORT_SHOW_PAGER_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace holdfast {

// Runs `print`, which returns the exit code. If standard output accepts no more, behaves like Finished (base/say.h).
// Unless `allowed`, prints directly to standard output.
int Paged(bool allowed, const std::function<int(std::ostream&)>& print);
// `before`: called after a command has made its output, and before Paged writes it, unless `allowed` is false.
void CallBeforeOutput(std::function<void()> before);

// Returns the command, or "" for none. `environment`: getenv.
std::string PagerCommand(const std::function<const char*(const char*)>& environment);

// Returns $COLUMNS, else the columns of the terminal on standard output, or 0 if there is no terminal or it does not
// say.
size_t ScreenWidth();

// Returns how many lines a terminal of `width` columns needs for `text`. Colours take no space.
size_t LinesOnScreen(std::string_view text, size_t width);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_PAGER_H_
