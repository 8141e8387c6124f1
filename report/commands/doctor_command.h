// `holdfast doctor`: what will and will not be seen of a program or a process, and why.
#ifndef HOLDFAST_REPORT_COMMANDS_DOCTOR_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_DOCTOR_COMMAND_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace holdfast {

// `program`: what stands behind `--`, filled in before the command line is parsed. `exit_code` is set when the command
// has run.
void AddDoctorCommand(CLI::App& app, std::vector<std::string>* program, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_DOCTOR_COMMAND_H_
