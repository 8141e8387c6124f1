// `holdfast exporter`: run by `holdfast run` and by the preloaded library, never by hand; see report/export/exporter.h.
#ifndef HOLDFAST_REPORT_COMMANDS_EXPORTER_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_EXPORTER_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

void AddExporterCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_EXPORTER_COMMAND_H_
