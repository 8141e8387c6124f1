#include <iostream>
#include <memory>

#include "report/cmd/commands.h"
#include "report/cmd/help.h"
#include "report/cmd/view_options.h"
#include "report/show/locks.h"
#include "report/show/pager.h"

namespace holdfast {

void AddLocksCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<LocksOptions>();
  CLI::App* locks = app.add_subcommand("locks", "Show the most contended locks, with their holders and waiters");
  locks->footer(
      "Prints one line per contended lock, the longest total delay first; conditions, semaphores and other futexes that idle\n"
      "threads wait for come last. Waits are counted, not estimated; p99 is within 12 %; held counts only while a thread\n"
      "waited. Top holder is the function that most waiting is charged to, top waiter the function that waited most. A lock\n"
      "is named by its symbol, by an offset in a block of the heap profile, or by its address.\n"
      "The mutex and block profiles of a process give the same answer; the newest snapshot is used.\n"
      "\n"
      "  holdfast locks holdfast.server.4242                      the locks of all processes in the folder\n"
      "  holdfast locks --holder flush_log app.4242.0003.mutex.pb.gz\n"
      "                                                           the waiters that flush_log delayed\n"
      "  holdfast locks --waiter '^handle_' app.4242.0003.mutex.pb.gz\n"
      "                                                           the holders that the handlers waited for\n");
  locks
      ->add_option("FILE", options->files,
                   "Mutex or block profiles written by holdfast, or folders of them; - is standard input")
      ->required();
  locks->add_option("--holder", options->holder, "List the waiters that holders with a matching function delayed")
      ->type_name("REGEX");
  locks->add_option("--waiter", options->waiter, "List the holders that waiters with a matching function waited for")
      ->type_name("REGEX");
  locks->add_flag("--each", options->each,
                  "List every lock [default: one line per class: the locks of one array, of blocks from one function,\n"
                  "or with the same holder and waiter]");
  locks->add_flag("--wide", options->wide, "Do not shorten names, even if lines become wider than the terminal");
  locks->add_flag("-v,--verbose", options->details, "Show names in full below each row");
  AddFold(locks, &options->fold, &options->plumbing,
          "plumbing: name the first function that is not plumbing [default]; none: name the caller of libc");
  AddCount(locks, &options->count, "Show at most N lines; 0 = all");
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
