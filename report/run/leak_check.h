// The leak check of `holdfast run --leak-check`: searches the memory of each process of the run at its end.
//
//   target                     holdfast run
//   exit, _exit: leak_check = kAsked, waits at most a minute
//                              Look: stops the process, copies its memory, lets it continue, searches the copy
//                              leak_check = kDone
//   continues; its last profile is written
//
// If the copy needs too much memory, the waiting process is searched as it is. When `run` receives SIGTERM, it searches
// all its processes before it forwards the signal; a process that then exits is searched again, and the later answer
// counts. Processes that end in another way than exit, quick_exit or _exit are not searched.
//
// Each answer is also written as a profile of the kind `unreachable`. One thread: an ancestor of the processes, because
// the kernel may let nobody else read them.
#ifndef HOLDFAST_REPORT_RUN_LEAK_CHECK_H_
#define HOLDFAST_REPORT_RUN_LEAK_CHECK_H_

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "report/analysis/growth/suppressions.h"
#include "report/base/file_descriptor.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

struct LeakCheckOptions {
  std::vector<std::string> suppressions;  // files
  std::string scan_memory;                // for the copy; "": half of the free memory
};

class LeakCheck {
 public:
  // Reads the options. An error is for a message.
  absl::Status Prepare(const LeakCheckOptions& options);
  // `tables`: the folder of the tables. `out`: the output folder of the run.
  void Begin(const std::string& tables, const std::string& out);

  // Readable if a process may have asked.
  int descriptor() const { return events_.get(); }
  // Searches the processes that wait for it.
  void Look();
  // Searches all processes of the run.
  void LookAtAll();

  // Returns the lines to print. `child`: the program, with its status as of waitpid. `quiet`: only findings and failures.
  std::string Text(pid_t child, int status, bool quiet) const;
  // 1: blocks are unreachable; 125: a process could not be searched; otherwise 0.
  int ExitCode(pid_t child, int status) const;

 private:
  struct Answer {
    pid_t pid = 0;
    int code = 0;           // as of holdfast leaks; kCouldNot: not searched
    std::string text = {};  // lines, or why not
  };
  template <typename Visit>
  void ForEachTable(const Visit& visit);
  void Check(const TableFile& table);
  Answer SearchOwn(pid_t pid) const;
  // Returns why the program itself was not searched; "": it was, or it recorded nothing.
  std::string WhyNotProgram(pid_t child, int status) const;

  Suppressions suppressions_;
  std::string scan_memory_, tables_, out_;
  FolderId out_id_{};
  FileDescriptor folder_, events_;
  std::set<std::string> of_others_;        // names of tables of other runs
  std::set<pid_t> seen_;                   // processes of the run that have a table
  std::map<std::string, Answer> answers_;  // by table
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_LEAK_CHECK_H_
