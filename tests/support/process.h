// Runs a program the way a user would and says how it ended: output, status, time. For tests only.
//
//     RunResult r = Execute({.argv = {"/bin/echo", "hi"}, .env = {{"HOLDFAST_OUT", dir}}});
//     EXPECT_EQ(r.out, "hi\n");  EXPECT_TRUE(r.exited(0)) << r.Describe();
//
// A program that is not done in `timeout_seconds` is killed and the result says so: a hang is a failure, never a wait.
#ifndef HOLDFAST_TESTS_SUPPORT_PROCESS_H_
#define HOLDFAST_TESTS_SUPPORT_PROCESS_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::testing {

struct Command {
  std::vector<std::string> argv;                // argv[0] is looked up in PATH when it has no slash
  std::map<std::string, std::string> env = {};  // added to the test's own, which holds no HOLDFAST_… and no LD_PRELOAD
  std::string cwd = {};
  std::string input = {};                           // on standard input; then it is closed
  std::vector<std::pair<int, rlim_t>> limits = {};  // RLIMIT_…, set in the child just before exec
  int uid = -1;                                     // become this user (and drop all groups) before exec
  bool own_group = false;  // a new process group; its leader's parent is in this session, so the group can be stopped
  double timeout_seconds = 60;
};

struct RunResult {
  bool started = false;
  bool timed_out = false;
  int status = 0;  // as from waitpid
  std::string out, err;
  pid_t pid = 0;
  double seconds = 0;

  bool exited(int code) const;
  bool killed_by(int signal) const;
  // Returns whether we added no wait. On a busy machine the same program may take several times as long, so this is approximate.
  bool AboutAsFastAs(const RunResult& bare) const;
  std::string Describe() const;  // one paragraph for failure messages
};

// A program that is still running.
class Running {
 public:
  explicit Running(const Command& command);
  ~Running();  // kills it when it still runs
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Everything that came on standard output so far, once it holds `text`; false when it never did in time.
  bool WaitForOutput(const std::string& text, double seconds = 60);
  void Write(const std::string& input);  // only with Command::input empty
  void CloseInput();
  void HoldInput() { hold_input_ = true; }  // Wait leaves the input open: only something else ends the program
  RunResult Wait(double timeout_seconds = 60);

 private:
  void Pump(int timeout_ms);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, err_ = -1;
  double start_ = 0;
  RunResult result_;
  bool waited_ = false, hold_input_ = false;
};

RunResult Execute(const Command& command);

double Now();  // CLOCK_MONOTONIC, seconds
bool IsRoot();

// Asks `condition` every few milliseconds until it is true or the time is over.
template <typename Condition>
bool Eventually(Condition condition, double seconds = 30);

void Pause();  // the step of Eventually: 5 ms

template <typename Condition>
bool Eventually(Condition condition, double seconds) {
  const double end = Now() + seconds;
  while (!condition()) {
    if (Now() > end) return false;
    Pause();
  }
  return true;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_PROCESS_H_
