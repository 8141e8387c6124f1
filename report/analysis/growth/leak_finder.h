// Finds what grows: reads the profiles of processes, and judges each process and each of its stacks.
//
//     LeakFinder finder({.files = {"out"}});
//     finder.Prepare();  finder.Read(std::cerr);
//     const LeaksAnswer answer = finder.Answer();     answer.worst == Grows::kYes, answer.stacks[0].frames …
//
// The answer is data. `holdfast leaks` renders it (report/show/leaks.cc), and `check --max-growth` compares Growths with a
// limit. One thread at a time.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_LEAK_FINDER_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_LEAK_FINDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/analysis/growth/alive_ages.h"
#include "report/analysis/growth/all_memory.h"
#include "report/analysis/growth/growth_answer.h"
#include "report/analysis/growth/growth_rate.h"
#include "report/analysis/growth/process_series.h"
#include "report/analysis/growth/suppressions.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/progress.h"

namespace holdfast {

struct LeaksQuestion {
  std::vector<std::string> files;
  StackOptions stacks = {};
  size_t depth = 0;                            // number of innermost functions that identify a stack; 0 = all
  std::string kind = "";                       // heap, map or threads; "" = all
  std::vector<std::string> suppressions = {};  // files
  bool all = false;                            // include what does not grow, and every program of a folder
  size_t max_stacks = 0;                       // 0 = all
};

struct LeaksAnswer {
  // One kind of one process, or of a family of processes.
  struct Process {
    std::string program, kind;
    size_t snapshots = 0, course_points = 0;
    double hours = 0;
    bool is_by_births = false, is_freed_at_end = false;
    int64_t in_use = 0;
    Growth total;
    GrowthAnswer answer;
    double leak_slope = 0;                    // bytes an hour of all stacks that leak
    std::optional<MemoryAnswer> memory = {};  // all of its memory; only with the first kind of a process
    std::string older_blocks = {};            // AllMemory::OlderBlocks; with `memory`
    std::string how_to_name = {};             // if names are missing
  };
  // The threads of a process that are created and never exit; or perhaps, if not `grows`.
  struct Threads {
    std::string program;
    int64_t alive = 0;
    Growth total;
    bool grows = true;
  };
  // One stack that grows, or another one that was asked for.
  struct Stack {
    std::string process, program, kind;
    bool is_of_threads = false, grows = false;
    ProcessSeries::Entry entry;
    std::vector<std::string> frames;  // leaf first
    AliveAges ages = {};
  };
  // The processes of a folder that were not chosen.
  struct Others {
    size_t of_same_program = 0;                                // processes
    std::vector<std::pair<std::string, Grows>> programs = {};  // the first few
    size_t more_programs = 0;
    size_t processes = 0;     // of all
    bool chosen_grow = true;  // false: nothing grows, so the largest was chosen
  };

  std::vector<Process> processes;
  std::vector<Threads> threads;
  std::vector<Stack> stacks;  // at most max_stacks
  std::optional<Others> others;
  Grows worst = Grows::kNo;
  size_t leaks = 0, suppressed = 0;  // stacks
  size_t too_short = 0;              // processes with fewer than kMinSnapshots
  size_t all_stacks = 0;             // also beyond max_stacks
  bool knows_ages = false;           // of some of the stacks
  // The run was exact and too short for a judgement, so all stacks are listed with what they held at the end, or before
  // the program freed it.
  bool lists_all = false, lists_freed = false;
  size_t heap_processes = 0;
  std::string first_process;  // its identity
  double shortest_hours = 0;  // of the judged processes; infinite: there is none
};

// The result for one kind of one process, or of one family of processes.
struct ProgramGrowth {
  std::string program, kind;
  GrowthAnswer answer;
  double slope = 0, half_width = 0;  // bytes an hour of all leaks; 0: no leak
  double hours = 0;                  // observed time
  // Resident memory that grows and is in neither heap nor map profiles, such as free memory that the allocator keeps,
  // and its bytes an hour; "" if there is none. Only with the first kind of a process.
  std::string elsewhere = {};
  double elsewhere_slope = 0;
};

class LeakFinder {
 public:
  explicit LeakFinder(LeaksQuestion question) : question_(std::move(question)) {}

  // Reads the suppressions and checks the question.
  absl::Status Prepare();
  // Reads new files. Drops each profile after reading it: a hundred snapshots need no more memory than their series.
  absl::Status Read(std::ostream& err);
  bool empty() const { return processes_.empty() && threads_.empty(); }

  LeaksAnswer Answer() const;
  std::vector<ProgramGrowth> Growths() const;
  // Returns why the newest profiles cannot be judged, or "".
  std::string WhyIncomplete() const;
  const Suppressions& suppressions() const { return suppressions_; }

 private:
  // A process's identity, and heap, map, …: a program has a series for each kind.
  using OfKind = std::pair<std::string, std::string>;
  using NamedSeries = std::pair<std::string, ProcessSeries>;  // the program
  // The series to judge: processes, or families of processes if each runs too briefly.
  struct Chosen {
    struct One {
      OfKind key;
      std::string program, kind;
      std::shared_ptr<const ProcessSeries> series;
      bool is_family = false;
    };
    std::vector<One> series;
    size_t left_out = 0;
  };
  // One series, judged.
  struct Judged {
    const Chosen::One* one;
    std::vector<ProcessSeries::Entry> entries;
    GrowthAnswer answer;
    GrowthRate rate;
  };

  absl::Status ReadAges();
  absl::Status AddFile(const FoundFile& file, Progress* progress, std::ostream& err);
  absl::StatusOr<std::vector<FoundFile>> FindFiles() const;
  void LookWhatHolds();
  bool IsWanted(std::string_view kind) const { return question_.kind.empty() || question_.kind == kind; }
  Chosen Choose() const;
  static std::vector<Judged> Judge(const Chosen& chosen);
  std::optional<LeaksAnswer::Others> LeaveOutOthers(std::vector<Judged>* judged) const;
  LeaksAnswer::Process ProcessOf(const Judged& judged) const;
  void AddStacks(const Judged& judged, LeaksAnswer* answer) const;
  void AddThreads(const OfKind& key, const NamedSeries& named, LeaksAnswer* answer) const;
  bool Counts(const ProcessSeries& series) const;
  double ShortestHours() const;
  std::optional<MemoryAnswer> MemoryOf(const std::string& process) const;
  std::string HowToNameIn(const OfKind& process) const;

  LeaksQuestion question_;
  Suppressions suppressions_;
  std::set<std::string> seen_, seen_ages_;
  std::map<OfKind, NamedSeries> processes_, threads_;
  std::map<OfKind, std::string> family_of_;
  std::map<std::string, std::string> program_of_;  // by identity: the program and its build
  std::map<std::string, AllMemory> memory_;        // by identity
  bool is_from_folders_ = true;                    // no file was given by name
  std::map<OfKind, ProfileFile> newest_;
  int64_t next_look_ns_ = 0;                              // CLOCK_MONOTONIC: when LookWhatHolds may read tables again
  std::map<std::string, std::vector<ProfileFile>> ages_;  // by identity: the newest lifetimes profiles
};

// Prepares, reads, and returns Growths.
absl::StatusOr<std::vector<ProgramGrowth>> FindGrowth(const LeaksQuestion& question, std::ostream& err);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_LEAK_FINDER_H_
