// Which programs a command starts, as its words and its shell scripts say. For programs that do not start below LD_PRELOAD: musl's
// loader ends when a library of glibc is preloaded.
//
//     run.sh a b      run.sh: exec env MODE=fast "$1" …        → a
//     env X=1 timeout 5 ./server                               → timeout, ./server
//     sh -c 'cd / && exec ./server'                            → ./server
//
// Known are literal words, variables that the script itself sets, its arguments, and the folder of $0. What a script computes, sources or
// starts by other languages is not.
#ifndef HOLDFAST_REPORT_PROCESSES_STARTED_PROGRAMS_H_
#define HOLDFAST_REPORT_PROCESSES_STARTED_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

namespace holdfast {

struct StartedProgram {
  std::string path;    // as the command or the script names it, looked up in PATH
  std::string script;  // the script that starts it; "": the command itself
};

// `look_up`: the path of a word that can be executed, else "". Programs below `env -u LD_PRELOAD`, `LD_PRELOAD= PROGRAM` or
// `unset LD_PRELOAD` are left out. At most 256 words are looked up, in scripts of up to 64 KiB each.
std::vector<StartedProgram> ProgramsStartedBy(const std::vector<std::string>& command,
                                              const std::function<std::string(const std::string&)>& look_up);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_STARTED_PROGRAMS_H_
