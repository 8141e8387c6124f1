// Messages and exit codes, which all commands share.
//
// A message is one line on standard error: `holdfast: <thing>: what happened (detail). What to do next.` One write(2)
// writes the whole line, so that it does not mix with lines of the program.
#ifndef HOLDFAST_REPORT_BASE_SAY_H_
#define HOLDFAST_REPORT_BASE_SAY_H_

#include <iostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

enum ExitCode : int {
  kFine = 0,
  kFinding = 1,  // what the user asked about was found, such as a leak above a limit
  kWrongUsage = 2,
  kCouldNot = 3,
  // Only for `run`, which otherwise returns the exit code of its program.
  kRunFailed = 125,
  kNotExecutable = 126,
  kNotFound = 127,
};

// Prints "holdfast: " and `text`, which is one line without a newline. Control characters become '?'.
void Say(std::string_view text);
// Prints the same line to `err`, so that tests can read it. std::cerr is unbuffered, so this is one write as well.
void SayTo(std::ostream& err, std::string_view text);

// Prints the error. Returns kWrongUsage for InvalidArgument, otherwise kCouldNot.
int Failed(const absl::Status& status, std::ostream& err = std::cerr);

// Every command that prints to standard output returns Finished(exit_code). Returns `exit_code`; or prints a message
// and returns kCouldNot if the output could not be written, for example because the disk is full.
int Finished(int exit_code);

// Prints several related lines unchanged.
void SayLines(std::string_view lines);

// Returns `text` for pasting into a shell, quoted if necessary.
std::string ShellQuoted(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_SAY_H_
