#include "report/command_line/view_options.h"

#include "report/command_line/help.h"
#include "report/command_line/project_file.h"

namespace holdfast {
namespace {

constexpr char kFiles[] =
    "Profiles in pprof's format, gzip or plain; a folder of them; a PID: takes a snapshot of it now;\n"
    "- is standard input";

}  // namespace

void AddCount(CLI::App* command, size_t* count, const char* what) {
  command->add_option("-n,--nodecount,--count", *count, what)
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
}
void AddOutput(CLI::App* command, std::string* path) {
  command->add_option("-o,--output,--out", *path, "Where to, - = standard output")
      ->type_name("FILE")
      ->capture_default_str();
}
void AddCumulative(CLI::App* command, ViewOptions* options) {
  command->add_flag("--cum", options->by_total, "Sort by total instead of self");
}
void AddPlumbing(CLI::App* command, std::vector<std::string>* patterns) {
  command
      ->add_option("--plumbing", *patterns,
                   "What else counts for its callers: functions, source files and objects that match; also several,\n"
                   "and a line each, plumbing REGEX, in a file .holdfast here or above")
      ->type_name("REGEX")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command->parse_complete_callback([patterns] { AddProjectPatterns(".", patterns); });
}
void AddFold(CLI::App* command, bool* folds, std::vector<std::string>* patterns, const char* what) {
  command
      ->add_option_function<std::string>(
          "--fold",
          [folds](const std::string& fold) {
            if (fold != "none" && fold != "plumbing") {
              throw CLI::ValidationError("--fold", "\"" + fold + "\" is not none or plumbing");
            }
            *folds = fold == "plumbing";
          },
          what)
      ->type_name("WHAT");
  AddPlumbing(command, patterns);
}

void AddErrors(CLI::App* command, ViewOptions* options) {
  command->add_flag("--error", options->errors,
                    "Show ± half the 95 % interval of each value, recomputed from the file");
}
void AddFraction(CLI::App* command, double* fraction) {
  command->add_option("--nodefraction", *fraction, "Sum up what holds less of the total than this, 0 = nothing")
      ->type_name("F")
      ->check(Share())
      ->capture_default_str();
}

void AddFileOptions(CLI::App* command, ViewOptions* options) {
  command->add_option("FILE", options->files, kFiles)->required();
  command
      ->add_option(
          "--metric,--sample_index,--sample-index", options->metric,
          "The value to show, such as inuse_space or delay (default: the profile's own; holdfast info lists them)")
      ->type_name("NAME");
  command
      ->add_option(
          "--kind", options->kind,
          "Of a folder only this kind: heap, mutex, block, map, threads, exceptions, peak, lifetimes\nor resident")
      ->type_name("KIND");
  command->add_flag("--ended", options->ended,
                    "Of what is in use, add what processes of a folder held when they ended before the others");
  command->add_option("--unit", options->unit, "auto, bytes, KiB, MiB, GiB, ns, us, ms or s")
      ->type_name("UNIT")
      ->capture_default_str();
}

void AddPeak(CLI::App* command, ViewOptions* options) {
  command->add_flag(
      "--peak", options->peak,
      "What was in use at the most: of the processes whose files or folders\nare given, the peak profiles");
}

void AddFilterOptions(CLI::App* command, ViewOptions* options) {
  StackOptions* stacks = &options->stacks;
  const auto add = [&](const char* name, std::string* value, const char* what) {
    command->add_option(name, *value, what)->type_name("REGEX");
  };
  add("--focus", &stacks->focus, "Only stacks with a function, source file or object that matches");
  add("--ignore", &stacks->ignore, "No stacks with a match");
  add("--hide", &stacks->hide, "Drop frames that match; what they used counts for their callers");
  add("--show", &stacks->show, "Only frames that match");
  add("--show-from,--show_from", &stacks->show_from, "Cut what is above the outermost match");
  CLI::Option* tag_focus = command
                               ->add_option("--tagfocus", stacks->tag_focus,
                                            "Only samples with the label: wait=mutex, bytes=1KiB:64KiB, or a regex")
                               ->type_name("LABEL");
  command
      ->add_option_function<std::string>(
          "--only",
          [stacks](const std::string& what) {
            if (what != "waiting-now")
              throw CLI::ValidationError("--only",
                                         "\"" + what + "\" is not waiting-now, the only thing that is asked for so");
            stacks->tag_focus = "state=waiting";
          },
          "waiting-now: of a block profile the waits that went on when it was\ntaken, with the time until then")
      ->type_name("waiting-now")
      ->excludes(tag_focus);
  command->add_option("--tagignore", stacks->tag_ignore, "No samples with the label")->type_name("LABEL");
  command
      ->add_option_function<std::vector<std::string>>(
          "--fold",
          [stacks](const std::vector<std::string>& folded) {
            for (const std::string& what : folded) {
              if (what == "recursion") {
                stacks->fold_recursion = true;
                continue;
              }
              if (what != "none" && what != "system" && what != "plumbing")
                throw CLI::ValidationError("--fold", "\"" + what + "\" is not none, system, plumbing or recursion");
              stacks->fold_system = what == "system";
              stacks->fold_plumbing = what == "plumbing";
            }
          },
          "Count for their callers: system: frames of libc, ld.so, libstdc++ and the like;\n"
          "plumbing: those, other standard libraries, allocators that only forward, and locking; none.\n"
          "recursion, alone or beside these: show a function that calls itself, directly or through others, once")
      ->type_name("WHAT")
      ->expected(1)
      ->take_all()
      ->delimiter(',')
      ->allow_extra_args(false);
  AddPlumbing(command, &stacks->plumbing);
  command->add_flag("!--noinlines,!--no-inlines", stacks->inlines,
                    "Count inlined functions for the function around them");
  command
      ->add_option("--by", stacks->by,
                   "What a row is: function, line, file, object, package, thread\n"
                   "(by what it was started with), or a label such as wait;\n"
                   "age: how old what is in use is, the oldest first;\n"
                   "top: size, a histogram of block sizes")
      ->type_name("WHAT")
      ->capture_default_str();
}

void AddStyleOptions(CLI::App* command, ViewOptions* options) {
  command->add_option("--format", options->format, "table, json or csv")->type_name("FORMAT")->capture_default_str();
  command->add_option("--color", options->color, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
  command->add_flag("-v,--verbose", options->full_names, "Names of functions in full, as they are in the file");
  command->add_option("--width", options->width, "Columns of a line, 0 = any (default: the terminal's)")
      ->check(WholeNumber())
      ->type_name("N");
  AddPager(command, &options->pager);
}

void AddPager(CLI::App* command, bool* pager) {
  command->add_flag("!--no-pager", *pager, "Straight to the terminal, also what is longer than the screen");
}

}  // namespace holdfast
