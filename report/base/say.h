// What all commands have in common: messages, and exit codes of their own.
//
// Every message is one line on standard error: `holdfast: <thing>: what happened (detail). What to do next.` It is
// written by one write(2), so that lines of the program and ours do not mix.
#ifndef HOLDFAST_REPORT_BASE_SAY_H_
#define HOLDFAST_REPORT_BASE_SAY_H_

#include <iostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

enum ExitCode : int {
  kFine = 0,
  kFinding = 1,  // something that the user asked about, such as a leak above a bound
  kWrongUsage = 2,
  kCouldNot = 3,
  // Of `run`, which otherwise exits as its program does.
  kRunFailed = 125,
  kNotExecutable = 126,
  kNotFound = 127,
};

// "holdfast: " and `text`, which is one line without its end; control characters in it become '?'.
void Say(std::string_view text);
// The same on `err`, for what tests look at; standard error is unbuffered, so it is one write there, too.
void SayTo(std::ostream& err, std::string_view text);

// Says what went wrong. The exit code: wrong usage for an InvalidArgument, else "could not do it".
int Failed(const absl::Status& status, std::ostream& err = std::cerr);

// The end of every command that prints to standard output: `exit_code`, or kCouldNot with a message when what was printed
// did not arrive (a full disk behind a redirection).
int Finished(int exit_code);

// Several lines that belong together, as they are.
void SayLines(std::string_view lines);

// `text` as it can be pasted into a shell: in quotes where it needs them.
std::string ShellQuoted(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_SAY_H_
