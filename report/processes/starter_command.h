// The program behind the programs that only start it: `sudo`, `env -i`, `nice`, a shell script that ends in `exec`.
//
//     ./run.sh            #!/bin/sh … exec "$DIR/server" --port 7000 "$@"      ./server --port 7000, by ./run.sh
//     env -i PATH=… ./server                                                  ./server, without LD_PRELOAD
//     sudo ./server                                                           ./server, without LD_PRELOAD
//
// Read from the command and from the script's text, which is not run: words that only a shell can know stay unknown.
#ifndef HOLDFAST_REPORT_PROCESSES_STARTER_COMMAND_H_
#define HOLDFAST_REPORT_PROCESSES_STARTER_COMMAND_H_

#include <string>
#include <vector>

namespace holdfast {

struct StartedCommand {
  std::vector<std::string> words;  // the program and its arguments; empty: not known
  // What stands between, the outermost first: "./run.sh execs it", "env -i starts it with an empty environment".
  std::vector<std::string> by;
  std::string drops_preload;  // the one of these that takes LD_PRELOAD away: "sudo", "env -i"; "": none does
  std::string unknown;        // the command of a script that could not be read: `exec "$JAVA_HOME/bin/java"`
};

// What `command` starts in the end. `path`: where command[0] was found.
StartedCommand FollowStarters(std::vector<std::string> command, const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_STARTER_COMMAND_H_
