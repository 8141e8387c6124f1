#include "report/run/run_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <optional>

#include "fmt/format.h"
#include "report/base/split.h"
#include "report/base/value_units.h"
#include "report/run/leave_own_profile.h"
#include "sampler/contract/cpu_sampling.h"
#include "sampler/contract/layout.h"
#include "sampler/contract/options.h"
#include "sampler/contract/triggers.h"

namespace holdfast {
namespace {

using Normalized = absl::StatusOr<std::string>;

// The largest number that the library's parser accepts.
constexpr uint64_t kMaxBytesOrNs = uint64_t{1} << 62;

absl::Status Takes(const std::string& value, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("\"{}\" is not {}", value, what));
}

Normalized Size(const std::string& value) {
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(std::string_view(value));
  if (!bytes.ok()) return bytes.status();
  if (*bytes > kMaxBytesOrNs) return Takes(value, "a size below 4EiB");
  return fmt::format("{}", *bytes);
}

Normalized NormalizedTime(const std::string& value) {
  const absl::StatusOr<uint64_t> ns = ParseTimeNs(value);
  if (!ns.ok()) return ns.status();
  if (*ns > kMaxBytesOrNs) return Takes(value, "a time below 146 years");
  return *ns == 0 ? "0" : fmt::format("{}ns", *ns);
}

Normalized MaxMemory(const std::string& value) {
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(std::string_view(value));
  if (!bytes.ok()) return bytes.status();
  if (*bytes < (1 << 20) || *bytes > (uint64_t{32} << 30)) return Takes(value, "a size from 1MiB to 32GiB");
  return fmt::format("{}", *bytes);
}

std::optional<uint64_t> ParseWholeNumber(const std::string& value) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  return number;
}

Normalized NormalizedKeep(const std::string& value) {
  const std::optional<uint64_t> number = ParseWholeNumber(value);
  if (!number || *number >= kKeepThinned) return Takes(value, "a number of snapshots (0 = all)");
  return fmt::format("{}", *number);
}

Normalized Seed(const std::string& value) {
  const std::optional<uint64_t> number = ParseWholeNumber(value);
  if (!number || *number > kMaxBytesOrNs) return Takes(value, "a number (0 = random)");
  return fmt::format("{}", *number);
}

Normalized Profiles(const std::string& value) {
  for (const std::string_view kind : Split(value, ",")) {
    if (std::find(kProfileKindNames, kProfileKindNames + kListedKinds, kind) == kProfileKindNames + kListedKinds) {
      return Takes(value, "a list of heap, mutex, block, map, threads and exceptions, such as heap,block");
    }
  }
  return value;
}

Normalized Cpu(const std::string& value) {
  uint64_t interval_ns = 0;
  bool is_forced = false;
  return ParseCpu(value.c_str(), &interval_ns, &is_forced) && !value.empty() ? Normalized(value)
                                                                             : Takes(value, kCpuTakes);
}

Normalized YesNo(const std::string& value) {
  if (value == "yes" || value == "1") return "yes";
  if (value == "no" || value == "0") return "no";
  return Takes(value, "yes or no");
}

// An option of its own, because it may have no value.
Normalized Wall(const std::string& value) { return YesNo(value); }

Normalized YesNoAuto(const std::string& value) {
  if (value == "auto") return value;
  const Normalized known = YesNo(value);
  return known.ok() ? known : Takes(value, "yes, no or auto");
}

Normalized ThreadLabels(const std::string& value) {
  if (value == "folded") return value;
  const Normalized known = YesNo(value);
  return known.ok() ? known : Takes(value, "yes, no or folded");
}

Normalized PushUrl(const std::string& value) {
  if (value.starts_with("http://") || value.starts_with("https://")) return value;
  return Takes(value, "a server's URL, such as http://localhost:4040");
}

Normalized SnapshotWhen(const std::string& value) {
  TriggerList triggers;
  if (!ParseTriggers(value.c_str(), &triggers) || triggers.count == 0 || value.size() != strlen(value.c_str())) {
    return Takes(value, kTriggersTake);
  }
  return value;
}

Normalized OnSnapshot(const std::string& value) {
  const size_t last = value.find_last_not_of(" \t");
  // The file's name is appended: after one of these characters it would be a command of its own.
  const bool is_open = last != std::string::npos && std::string_view("&;|").find(value[last]) == std::string_view::npos;
  if (is_open && value.size() < kOnSnapshotBytes && value.find('\0') == std::string::npos) return value;
  return Takes(value,
               "a command of 1 to 1023 bytes that takes a file's name as its last argument, such as 'cp -t /backup'");
}

Normalized Signal(const std::string& value) {
  constexpr std::array<std::string_view, 12> kNames = {"USR1", "USR2", "HUP",    "QUIT", "PROF", "WINCH",
                                                       "URG",  "IO",   "VTALRM", "PWR",  "CONT", "none"};
  const std::string_view name = value.starts_with("SIG") ? std::string_view(value).substr(3) : value;
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) {
    return Takes(value, "one of USR1, USR2, HUP, QUIT, PROF, WINCH, URG, IO, VTALRM, PWR, CONT");
  }
  return std::string(name);
}

// For --exact: enough for every stack, row and live block in the test run of a large program.
constexpr uint64_t kExactMaxMemory = 1 << 30;

struct Setting {
  const char* option;  // without --
  const char* variable;
  const char* type;
  std::string usual;
  const char* help;
  Normalized (*normalize)(const std::string&);
};

const std::vector<Setting>& Settings() {
  static const std::vector<Setting> settings = {
      {"heap-interval", "HOLDFAST_HEAP_INTERVAL", "SIZE", FormatSize(kDefaultHeapInterval),
       "Mean bytes between heap samples; 1 = every allocation, 0 = off", Size},
      {"lock-interval", "HOLDFAST_LOCK_INTERVAL", "TIME", FormatTimeNs(kDefaultLockIntervalNs),
       "Mean waited time between lock samples; 1ns = every\n"
       "wait, 0 = off",
       NormalizedTime},
      {"cpu", "HOLDFAST_CPU", "HZ", "100",
       "Sample CPU time: each thread HZ times in a second of its own\n"
       "(.cpu.pb.gz); off without --cpu. --cpu=HZ,force: also before\n"
       "Linux 5.9, where system calls may be interrupted, and behind\n"
       "a seccomp filter, which must allow timers",
       Cpu},
      {"wall", "HOLDFAST_WALL", "yes|no", "yes",
       "Record where the time of each thread goes: on a CPU, waiting\n"
       "for one or for a lock, in system calls (.wall.pb.gz); off\n"
       "without --wall. Looks at all threads 20 times a second, from\n"
       "outside. holdfast threads shows the result",
       Wall},
      {"snapshot-every", "HOLDFAST_SNAPSHOT_EVERY", "TIME", "60s",
       "Time between snapshots of every kind (the first ones are\n"
       "closer together); 0 = only at the end",
       NormalizedTime},
      {"keep", "HOLDFAST_KEEP", "N", "100",
       "Snapshots to keep of each process and kind; 0 = all.\n"
       "Without --keep: the newest 60, then hourly, then daily",
       NormalizedKeep},
      {"max-disk", "HOLDFAST_MAX_DISK", "SIZE", "1GiB", "Maximum size of the output folder", Size},
      {"profiles", "HOLDFAST_PROFILES", "LIST", "heap,mutex,block,map,threads,exceptions",
       "The kinds of profiles to write", Profiles},
      {"signal", "HOLDFAST_SIGNAL", "NAME", "none", "Signal that requests a snapshot, such as USR2", Signal},
      {"children", "HOLDFAST_CHILDREN", "yes|no", "yes", "Also profile child processes", YesNo},
      {"merge-children", "HOLDFAST_MERGE_CHILDREN", "yes|no", "no",
       "Write one file for all short processes of a program\n"
       "(builds, shells); processes that run for longer than\n"
       "--snapshot-every have their own. The peak is the highest of\n"
       "one process; lifetimes cover processes that run for a\n"
       "second, unless --lifetimes yes",
       YesNo},
      {"skip-small", "HOLDFAST_SKIP_SMALL", "SIZE", "0",
       "Write no profile of a child process that ends within a second\n"
       "and has allocated less than SIZE; 0 = of every process. No\n"
       "effect with --exact",
       Size},
      {"lock-label", "HOLDFAST_LOCK_LABEL", "yes|no", "no", "Label samples with the address of the lock (lock_address)",
       YesNo},
      {"thread-label", "HOLDFAST_THREAD_LABEL", "yes|no|folded", "no",
       "Label samples with the name of the thread (thread);\n"
       "folded: io-1 and io-2 become io-*",
       ThreadLabels},
      {"peak", "HOLDFAST_PEAK", "yes|no", "yes", "Record the peak of memory in use (.peak.pb.gz)", YesNo},
      {"lifetimes", "HOLDFAST_LIFETIMES", "yes|no|auto", "auto",
       "Record how long blocks live (.lifetimes.pb.gz); auto: for\n"
       "processes that run for at least a second",
       YesNoAuto},
      {"entries", "HOLDFAST_ENTRIES", "auto|yes|no", "auto",
       "Redirect the functions of an allocator that is linked into\n"
       "the executable; auto: of jemalloc, tcmalloc, mimalloc and\n"
       "snmalloc, if all can be redirected",
       YesNoAuto},
      {"resident", "HOLDFAST_RESIDENT", "yes|no", "no",
       "Record which blocks and mappings are resident\n"
       "(.resident.pb.gz)",
       YesNo},
      {"snapshot-when", "HOLDFAST_SNAPSHOT_WHEN", "EXPR", "none",
       "Take up to 10 extra snapshots (repeatable): inuse>2GiB,\n"
       "rss>80%limit, growth>100MiB/min, delay>10s/min",
       SnapshotWhen},
      {"on-snapshot", "HOLDFAST_ON_SNAPSHOT", "CMD", "none",
       "Run a command for each written file, with the file's name\n"
       "as its last argument; it is killed after 60s",
       OnSnapshot},
      {"max-memory", "HOLDFAST_MAX_MEMORY", "SIZE", "64MiB", "Maximum size of the tables of one process", MaxMemory},
      {"push", "HOLDFAST_PUSH", "URL", "none",
       "Send new profiles to this Pyroscope server while the\n"
       "program runs and when it exits (see holdfast push --help)",
       PushUrl},
      {"seed", "HOLDFAST_SEED", "N", "random", "Seed for reproducible sampling", Seed},
  };
  return settings;
}

std::string_view VariableName(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

absl::StatusOr<std::string> NormalizeRunOption(std::string_view option, const std::string& value) {
  for (const Setting& setting : Settings()) {
    if (option == setting.option) return setting.normalize(value);
  }
  return absl::NotFoundError(fmt::format("no option --{}", option));
}

void AddRunOptions(CLI::App& run, RunOptions* options) {
  const auto folder = [&run](const char* names, const char* complain, std::string* place, const char* help) {
    return run
        .add_option_function<std::string>(
            names,
            [=](const std::string& value) {
              if (value.empty()) throw CLI::ValidationError(complain, "\"\" is not a folder");
              *place = value;
            },
            help)
        ->type_name("DIR")
        ->take_last();
  };
  folder("-o,--out", "--out", &options->out, "Output folder, created if missing")
      ->default_str("./holdfast.<program>.<pid>");
  run.add_flag("--exec", options->exec,
               "Replace holdfast by the program (containers, systemd): pid,\n"
               "parent, terminal and signals are the program's own; prints\n"
               "nothing");
  run.add_flag("--html", options->html,
               "At the end, also write an HTML report of all profiles of\n"
               "this run: DIR/<program>.<pid>.html")
      ->excludes("--exec");
  CLI::Option* exact = run.add_flag_function(
      "--exact",
      [options](int64_t) {
        options->variables["HOLDFAST_HEAP_INTERVAL"] = "1";
        options->variables["HOLDFAST_LOCK_INTERVAL"] = "1ns";
        options->variables.emplace("HOLDFAST_MAX_MEMORY", std::to_string(kExactMaxMemory));
      },
      "Record every allocation and every wait, in tables of up to\n"
      "1GiB (or --max-memory)");
  run.add_flag_function(
      "--snapshot-holders", [options](int64_t) { options->variables["HOLDFAST_SNAPSHOT_HOLDERS"] = "yes"; },
      "Label the blocks of each snapshot with what holds them (held)\n"
      "and with their class, as dump --holders; takes 2 to 4 s of CPU\n"
      "for each GiB of heap");
  CLI::Option* const leak_check = run.add_flag("--leak-check", options->leak_check,
                                               "At the end, search the memory of each process for blocks to\n"
                                               "which no pointer leads; the exit status is 1 if there are any\n"
                                               "and the program's own is 0. Use it with --exact")
                                      ->excludes("--exec");
  run.add_option("--suppressions", options->suppressions,
                 "For the leak check: a file of known leaks (repeatable), with\n"
                 "lines leak:PATTERN or valgrind's suppressions")
      ->type_name("FILE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->needs(leak_check);
  run.add_option("--scan-memory", options->scan_memory,
                 "For the leak check: how much memory to copy at most\n"
                 "[default: half of what is free]")
      ->type_name("SIZE")
      ->take_last()
      ->needs(leak_check);
  for (const Setting& setting : Settings()) {
    const std::string name = std::string("--") + setting.option;
    CLI::Option* added = run.add_option_function<std::string>(
                                name,
                                [&setting, name, options](const std::string& value) {
                                  const absl::StatusOr<std::string> normalized = setting.normalize(value);
                                  if (!normalized.ok())
                                    throw CLI::ValidationError(name, std::string(normalized.status().message()));
                                  options->variables[setting.variable] = *normalized;
                                },
                                setting.help)
                             ->type_name(setting.type)
                             ->default_str(setting.usual);
    if (setting.normalize == SnapshotWhen) {
      added->join(',');
    } else if (setting.normalize == Cpu || setting.normalize == Wall) {
      // --cpu alone, or --cpu=HZ: a following word is not its value.
      added->expected(0, 1)->take_last();
    } else {
      added->take_last();
    }
    if (name == "--heap-interval" || name == "--lock-interval") exact->excludes(added);
  }
  folder("--tables", "--tables", &options->tables, "Folder of the table files, on a tmpfs")->default_str("/dev/shm");
  run.add_flag("-q,--quiet", options->quiet, "Print only errors");
  run.add_flag("-v,--verbose", options->verbose, "Print more, including messages of the preloaded library")
      ->default_str("");  // newer CLI11 shows 0
}

size_t SplitProgram(const CLI::App& run, const std::vector<std::string>& arguments, std::vector<std::string>* program) {
  const auto takes_value = [&run](const std::string& name) {
    const CLI::Option* option = run.get_option_no_throw(name);
    return option != nullptr && option->get_items_expected_min() > 0;
  };
  size_t at = 0;
  while (at < arguments.size()) {
    const std::string& word = arguments[at];
    if (word == "--" || word.size() < 2 || word[0] != '-') break;
    if (word[1] == '-') {
      at += takes_value(word) ? 2 : 1;  // "--out=DIR" is one word, not the name of an option
    } else {
      // "-qo DIR": in a group of letters, the first option that takes a value ends the group; "-oDIR" contains its
      // value.
      size_t letter = 1;
      while (letter < word.size() && !takes_value(std::string("-") + word[letter])) ++letter;
      at += letter + 1 == word.size() ? 2 : 1;
    }
  }
  at = std::min(at, arguments.size());
  const size_t ours = at;
  if (at < arguments.size() && arguments[at] == "--") ++at;
  program->assign(arguments.begin() + static_cast<ptrdiff_t>(at), arguments.end());
  return ours;
}

std::vector<std::string> ProgramEnvironment(const char* const* environment, const std::string& library,
                                            const std::map<std::string, std::string>& variables) {
  std::vector<std::string> result;
  std::string preload = library;
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = VariableName(entry);
    if (name == "LD_PRELOAD" && entry.size() > name.size()) {
      if (const std::string others = WithoutOwnLibrary(entry.substr(name.size() + 1)); !others.empty()) {
        preload += fmt::format(":{}", others);
      }
    } else if (!variables.contains(std::string(name))) {
      result.emplace_back(entry);
    }
  }
  result.push_back("LD_PRELOAD=" + preload);
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

}  // namespace holdfast
