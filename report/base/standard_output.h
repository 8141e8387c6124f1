// The end of every command that prints to standard output.
#ifndef HOLDFAST_REPORT_BASE_STANDARD_OUTPUT_H_
#define HOLDFAST_REPORT_BASE_STANDARD_OUTPUT_H_

#include <cerrno>
#include <cstring>
#include <iostream>

namespace holdfast {

// `exit_code`, or 3 with a message when what was printed did not arrive (a full disk behind a redirection).
inline int Finished(int exit_code) {
  errno = 0;
  std::cout.flush();
  if (std::cout) return exit_code;
  const int error = errno != 0 ? errno : EIO;
  std::cerr << "holdfast: standard output: could not write (" << std::strerror(error)
            << "). Check where it is redirected to.\n";
  return 3;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_STANDARD_OUTPUT_H_
