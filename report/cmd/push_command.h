// The options of the commands that push: `push` and `agent`.
#ifndef HOLDFAST_REPORT_CMD_PUSH_COMMAND_H_
#define HOLDFAST_REPORT_CMD_PUSH_COMMAND_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "report/fleet/push/pusher.h"

namespace holdfast {

struct PushCommand {
  PushOptions push;
  std::string service_name, every = "15s", max_disk, linger = "10s", within = "1m", to = "push";
  std::vector<std::string> what, tables, labels;
};

// `command` must live as long as `app`.
void AddPushOptions(CLI::App* app, PushCommand* command);
// Validates the options and stores them in `command->push`. An error has a complete message.
absl::Status TakePushOptions(PushCommand* command);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_PUSH_COMMAND_H_
