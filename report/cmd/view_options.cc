#include "report/cmd/view_options.h"

#include "fmt/format.h"
#include "report/cmd/files_of_process.h"
#include "report/cmd/help.h"
#include "report/cmd/project_file.h"

namespace holdfast {
namespace {

constexpr char kFiles[] =
    "Profiles in pprof's format (gzip or plain), folders of them, or PIDs (takes a snapshot now);\n"
    "- is standard input";

}  // namespace

void AddCount(CLI::App* command, size_t* count, const char* what) {
  command->add_option("-n,--nodecount,--count", *count, what)
      ->check(WholeNumber())
      ->type_name("N")
      ->capture_default_str();
}
void AddOutput(CLI::App* command, std::string* path) {
  command->add_option("-o,--output,--out", *path, "The file to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
}
void AddCumulative(CLI::App* command, ViewOptions* options) {
  command->add_flag("--cum", options->by_total, "Sort by total instead of self");
}
void AddPlumbing(CLI::App* command, std::vector<std::string>* patterns) {
  command
      ->add_option("--plumbing", *patterns,
                   "Also attribute matching functions, source files and objects to their callers (repeatable;\n"
                   "or in a file .holdfast here or in a folder above, one line plumbing REGEX for each)")
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
  command->add_flag("--error", options->errors, "Show the 95 % half-width (±) of each value");
}
void AddFraction(CLI::App* command, double* fraction) {
  command
      ->add_option("--nodefraction", *fraction,
                   "Group everything below this fraction of the total; 0 = show everything")
      ->type_name("F")
      ->check(Share())
      ->capture_default_str();
}

void AddFileOptions(CLI::App* command, ViewOptions* options) {
  command->add_option("FILE", options->files, kFiles)->required();
  command
      ->add_option("--kind", options->kind,
                   "The kind of profile to take from a folder: heap, mutex, block, map, threads, exceptions,\n"
                   "cpu, wall, peak, lifetimes or resident")
      ->check(OneOf({"heap", "mutex", "block", "map", "threads", "exceptions", "cpu", "wall", "peak", "lifetimes",
                     "resident", "unreachable", "holders"}))
      ->type_name("KIND");
}

void AddMetric(CLI::App* command, ViewOptions* options, const char* what) {
  command->add_option("--metric,--sample_index,--sample-index", options->metric, what)->type_name("NAME");
}

void AddEnded(CLI::App* command, ViewOptions* options) {
  command->add_flag("--ended", options->ended,
                    "For a folder, also count the memory of processes that exited before the others");
}

void AddUnit(CLI::App* command, ViewOptions* options) {
  command->add_option("--unit", options->unit, "auto, bytes, KiB, MiB, GiB, ns, us, ms or s")
      ->type_name("UNIT")
      ->capture_default_str();
}

void AddPeak(CLI::App* command, ViewOptions* options) {
  command->add_flag("--peak", options->peak,
                    "Show the peak: the moment when the processes of these files or folders had most in use");
}

void AddViewedFiles(CLI::App* command, ViewOptions* options) {
  AddFileOptions(command, options);
  AddMetric(command, options,
            "The metric to show, such as inuse_space or delay [default: the profile's own; holdfast info\n"
            "lists them]");
  AddEnded(command, options);
  AddPeak(command, options);
}

void AddFilterOptions(CLI::App* command, ViewOptions* options) {
  StackOptions* stacks = &options->stacks;
  const auto add = [&](const char* name, std::string* value, const char* what) {
    command->add_option(name, *value, what)->type_name("REGEX");
  };
  add("--focus", &stacks->focus, "Keep only stacks with a matching function, source file or object");
  add("--ignore", &stacks->ignore, "Drop stacks with a matching function, source file or object");
  add("--hide", &stacks->hide, "Drop matching frames; their callers get their values");
  add("--show", &stacks->show, "Keep only matching frames");
  add("--show-from,--show_from", &stacks->show_from, "Drop the frames above the outermost match");
  command
      ->add_option("--tagfocus", stacks->tag_focus,
                   "Keep only samples with this label: wait=mutex, bytes=1KiB:64KiB, or a regular expression")
      ->type_name("LABEL");
  command->add_option("--tagignore", stacks->tag_ignore, "Drop samples with this label")->type_name("LABEL");
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
          "Attribute frames to their callers: system: those of libc, ld.so, libstdc++ and the like;\n"
          "plumbing: also other standard libraries, allocators that only forward, and locking; none.\n"
          "recursion (also in addition): show a function that calls itself, directly or indirectly, once")
      ->type_name("WHAT")
      ->expected(1)
      ->take_all()
      ->delimiter(',')
      ->allow_extra_args(false);
  AddPlumbing(command, &stacks->plumbing);
  command->add_flag("!--noinlines,!--no-inlines", stacks->inlines,
                    "Attribute inlined functions to the function that they were inlined into");
}

void AddWaitingNow(CLI::App* command, ViewOptions* options) {
  StackOptions* stacks = &options->stacks;
  command
      ->add_option_function<std::string>(
          "--only",
          [stacks](const std::string& what) {
            if (what != "waiting-now") {
              throw CLI::ValidationError("--only", "\"" + what + "\" is not waiting-now");
            }
            stacks->tag_focus = "state=waiting";
          },
          "waiting-now: show only waits of a block profile that were in progress at the snapshot, with\n"
          "the time until then")
      ->type_name("waiting-now")
      ->excludes(command->get_option("--tagfocus"));
}

void AddRowOption(CLI::App* command, ViewOptions* options, const char* also) {
  command
      ->add_option_function<std::string>(
          "--by",
          [options](const std::string& by) {
            options->stacks.by = by;
            if (by == "held" || by == "class") LabelBlocksInSnapshots();
          },
          fmt::format("What one row represents: function, line, file, object, package, thread (by its start\n"
                      "function), or a label such as wait; for a PID also held (what holds the blocks) and class{}",
                      also))
      ->type_name("WHAT")
      ->default_str(options->stacks.by);
}

void AddStyleOptions(CLI::App* command, ViewOptions* options) {
  command->add_option("--format", options->format, "table, json or csv")->type_name("FORMAT")->capture_default_str();
  command->add_option("--color", options->color, "auto (on a terminal), always or never")
      ->type_name("WHEN")
      ->capture_default_str();
  command->add_option("--width", options->width, "Width of a line; 0 = unlimited [default: the terminal's width]")
      ->check(WholeNumber())
      ->type_name("N");
  AddPager(command, &options->pager);
}

void AddFullNames(CLI::App* command, ViewOptions* options) {
  command->add_flag("-v,--verbose", options->full_names, "Show function names in full, as they are in the file");
}

void AddPager(CLI::App* command, bool* pager) { command->add_flag("!--no-pager", *pager, "Do not use a pager"); }

}  // namespace holdfast
