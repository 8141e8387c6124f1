// Answers that are longer than the screen go through a pager, as git's do: on a terminal only, and only then.
//
//     invocation->exit_code = Paged(options->pager, [&](std::ostream& out) { return RunTop(*options, out, std::cerr); });
//
// The pager is $HOLDFAST_PAGER, else $PAGER, else less, a command for sh; "" and cat are none, nor is there one on a dumb
// terminal. LESS is set to FRX (colours, nothing cleared) where it is not set, LV to -c. Who leaves the pager early is done with:
// the exit status is the command's, and no message comes of it. A pager that cannot be started is no loss: the text is printed.
// One thread, which starts no other.
#ifndef HOLDFAST_REPORT_TERMINAL_PAGER_H_
#define HOLDFAST_REPORT_TERMINAL_PAGER_H_

#include <cstddef>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

namespace holdfast {

// Runs `print`, whose result is the exit code; as Finished (base/say.h) has it when standard output takes no more.
// Not `allowed`: it prints to standard output as it goes.
int Paged(bool allowed, const std::function<int(std::ostream&)>& print);

// The command, "" for none. `environment`: getenv.
std::string PagerCommand(const std::function<const char*(const char*)>& environment);

// $COLUMNS, else columns of the terminal that standard output is; 0 where it is none, or does not say.
size_t ScreenWidth();

// How many lines a terminal of `width` columns shows of `text`, whose colours take no room.
size_t LinesOnScreen(std::string_view text, size_t width);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TERMINAL_PAGER_H_
