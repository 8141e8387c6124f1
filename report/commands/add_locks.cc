#include <iostream>
#include <memory>

#include "report/command_line/help.h"
#include "report/command_line/view_options.h"
#include "report/commands/commands.h"
#include "report/terminal/pager.h"
#include "report/views/locks.h"

namespace holdfast {

void AddLocksCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LocksOptions>();
  CLI::App* locks = app.add_subcommand("locks", "The hottest locks, and who waited for whom");
  locks->footer(
      "One line for each lock that was waited for, the longest delay first, and last what idle threads wait for\n"
      "(conditions, semaphores …, and futexes that are no locks): how often and how long (counted, not estimated;\n"
      "p99: of 100 waits 99 are no longer, within 12 %; held: while somebody waited), the function that most waiting was\n"
      "attributed to, the function that waited most, and what the lock is: a symbol, an offset in a block that is known from\n"
      "the heap profile, or its address.\n"
      "Any mutex or block profile of a process says the same; of several snapshots the newest counts.\n"
      "\n"
      "  holdfast locks holdfast.server.4242                      the locks of everything in the folder\n"
      "  holdfast locks --holder flush_log app.4242.0003.mutex.pb.gz\n"
      "                                                           whom flush_log kept waiting\n"
      "  holdfast locks --waiter '^handle_' app.4242.0003.mutex.pb.gz\n"
      "                                                           for whom the handlers waited\n");
  locks
      ->add_option("FILE", options->files,
                   "Mutex or block profiles that holdfast wrote; a folder of them; - is standard input")
      ->required();
  locks->add_option("--holder", options->holder, "The waiters that holders with such a function delayed")
      ->type_name("REGEX");
  locks->add_option("--waiter", options->waiter, "The holders that waiters with such a function waited for")
      ->type_name("REGEX");
  locks->add_flag(
      "--each", options->each,
      "Each lock by itself [default: locks of one class in one line: of one array, of blocks from one function, or\n"
      "with the same holder and waiter]");
  locks->add_flag("--wide", options->wide, "Whole names, also where a line is then wider than the terminal");
  locks->add_flag("-v,--verbose", options->details, "Under each row its texts in full");
  AddFold(locks, &options->fold, &options->plumbing,
          "plumbing: name the first function that is the user's own, or a library's; none: that which called libc");
  AddCount(locks, &options->count, "How many lines, 0 = all");
  locks->add_option("--format", options->format, "table, json or csv")->type_name("FORMAT")->capture_default_str();
  locks->add_option("--color", options->color, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
  AddPager(locks, &options->pager);
  locks->callback([options, invocation] {
    invocation->exit_code =
        Paged(options->pager, [&](std::ostream& out) { return RunLocks(*options, out, std::cerr); });
  });
}

}  // namespace holdfast
