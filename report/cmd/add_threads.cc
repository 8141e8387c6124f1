#include <iostream>
#include <memory>

#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/pager.h"
#include "report/show/thread_table.h"

namespace holdfast {

void AddThreadsCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ThreadsOptions>();
  CLI::App* threads =
      app.add_subcommand("threads", "Show where the time of each thread went: CPU, locks, system calls");
  threads->footer(
      "With wall profiles (holdfast run --wall, or holdfast set PID wall=on): prints first what holds threads up most, then\n"
      "one line per thread or group of like-named threads (worker-1 and worker-2 are worker-*). The parts of a line add up\n"
      "to the lifetime:\n"
      "  on CPU       the threads ran, as the kernel counts it since the first look\n"
      "  wants CPU    they were ready to run and waited for a CPU, as the kernel counts it since the first look\n"
      "  lock         they waited for a mutex or a reader-writer lock; waits most for names it and its holder\n"
      "  io           they read, wrote or sent, or waited for a page of a file\n"
      "  sleep        nanosleep, pause\n"
      "  other calls  other system calls, such as epoll_wait, or futex for conditions and semaphores\n"
      "  stopped      by a signal or a debugger\n"
      "  not seen     before the first look at the thread (its CPU time, too), or the kernel does not show it\n"
      "Without wall profiles: names, lifetimes, CPU time and waits for locks at the last snapshot, and how to get the rest.\n"
      "The parts other than CPU are estimates from 20 looks a second. A part of 40 % of a minute of one thread is within 3\n"
      "points (95 %); with more than 40 active threads looks are rarer.\n"
      "\n"
      "  holdfast threads holdfast.server.4242            all threads of the processes in the folder\n"
      "  holdfast threads 4242                            a running process, from a snapshot taken now\n"
      "  holdfast threads --each holdfast.server.4242     each thread in a line of its own\n"
      "  holdfast top --kind wall holdfast.server.4242    the same times by function\n");
  threads->add_option("DIR", options->files, "Profiles, folders of them, or process ids")->required();
  threads->add_flag("--each", options->each, "One line per thread [default: one for like-named threads]");
  threads->add_flag("--wide", options->wide, "Do not shorten names, even if lines become wider than the terminal");
  AddCount(threads, &options->count, "Show at most N lines; 0 = all");
  CLI::Option* const format = threads->add_option("--format", options->format, "table, json or csv")
                                  ->type_name("FORMAT")
                                  ->capture_default_str();
  threads
      ->add_flag_function(
          "--json", [options](int64_t) { options->format = "json"; }, "The same as --format json")
      ->excludes(format);
  threads->add_option("--color", options->color, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
  AddPager(threads, &options->pager);
  threads->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->pager, [&](std::ostream& out) { return RunThreads(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
