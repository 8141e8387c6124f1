// Judges from its text whether a script may call prctl.
//
// Reads the command line, the script and, for python, the modules that it imports: those beside the script, in
// PYTHONPATH and in the installed packages. Modules of the language itself do not call prctl.
//
//     $ python3 /srv/app.py            app.py: from reaper import start     reaper.py: CDLL(None).prctl(36, 1): yes
#ifndef HOLDFAST_REPORT_RUN_SCRIPT_CALLS_H_
#define HOLDFAST_REPORT_RUN_SCRIPT_CALLS_H_

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Whether any of the texts mentions prctl or subreaper, or calls syscall. Also true if there are too many modules to
// read. `pid`: the process to judge. `process`: a descendant; its working directory is used if that of `pid` is hidden.
// `program`: the interpreter's name, such as "python3.11".
bool ScriptMayCallPrctl(int pid, const std::string& process, std::string_view program,
                        const std::vector<std::string>& arguments);

// Returns the modules that a python text imports: "a.b", and ".c" for a module beside it. "from a import b" gives "a"
// and "a.b".
std::vector<std::string> ImportedModules(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SCRIPT_CALLS_H_
