#include "sampler/contract/options.h"

#include <signal.h>

#include "sampler/contract/cpu_sampling.h"
#include "sampler/contract/quantities.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/contract/triggers.h"

namespace holdfast {
namespace {

struct SignalName {
  const char* name;
  int number;
};
constexpr SignalName kSignals[] = {{"USR1", SIGUSR1},     {"USR2", SIGUSR2},   {"HUP", SIGHUP},  {"QUIT", SIGQUIT},
                                   {"PROF", SIGPROF},     {"WINCH", SIGWINCH}, {"URG", SIGURG},  {"IO", SIGIO},
                                   {"VTALRM", SIGVTALRM}, {"PWR", SIGPWR},     {"CONT", SIGCONT}};

bool ParseYesNo(const char* text, bool* value) {
  const bool yes = TextEquals(text, "yes") || TextEquals(text, "1");
  if (!yes && !TextEquals(text, "no") && !TextEquals(text, "0")) return false;
  *value = yes;
  return true;
}

bool ParseLifetimes(const char* text, Lifetimes* value) {
  bool yes = false;
  if (TextEquals(text, "auto")) {
    *value = Lifetimes::kUnlessShort;
  } else if (ParseYesNo(text, &yes)) {
    *value = yes ? Lifetimes::kYes : Lifetimes::kNo;
  } else {
    return false;
  }
  return true;
}

bool ParseEntries(const char* text, Entries* value) {
  bool yes = false;
  if (TextEquals(text, "auto")) {
    *value = Entries::kAuto;
  } else if (ParseYesNo(text, &yes)) {
    *value = yes ? Entries::kYes : Entries::kNo;
  } else {
    return false;
  }
  return true;
}

bool ParseThreadLabel(const char* text, ThreadLabel* value) {
  bool yes = false;
  if (TextEquals(text, "folded")) {
    *value = ThreadLabel::kFolded;
  } else if (ParseYesNo(text, &yes)) {
    *value = yes ? ThreadLabel::kYes : ThreadLabel::kNo;
  } else {
    return false;
  }
  return true;
}

bool ParseSignal(const char* text, int* number) {
  const char* name = TextStartsWith(text, "SIG") ? text + 3 : text;
  if (TextEquals(name, "none") || TextEquals(name, "")) {
    *number = 0;
    return true;
  }
  for (const SignalName& signal : kSignals) {
    if (TextEquals(name, signal.name)) {
      *number = signal.number;
      return true;
    }
  }
  return false;
}

bool ParseProfiles(const char* text, uint32_t* profiles) {
  uint32_t found = 0;
  for (const char* at = text; *at != '\0';) {
    int kind = 0;
    while (kind < kListedKinds && !TextStartsWith(at, kProfileKindNames[kind])) ++kind;
    if (kind == kListedKinds) return false;
    at += TextLength(kProfileKindNames[kind]);
    if (*at == ',') {
      ++at;
    } else if (*at != '\0') {
      return false;
    }
    found |= 1u << kind;
  }
  *profiles = found;
  return found != 0;
}

// Prints one line on standard error: the only thing that the shim ever prints unasked.
void ComplainOf(const char* name, const char* value, const char* takes) {
  TextBuffer<512> line;
  line.Add("holdfast: ").Add(name).Add("=");
  for (int i = 0; i < 200 && value[i] != '\0'; ++i) line.Add(value[i]);
  if (TextLength(value) > 200) line.Add("...");
  line.Add(": ").Add(takes).Add(".\n");
  RawSyscall(SYS_write, 2, line.text(), line.length());
}

bool Contains(const char* text, const char* end, const char* part) {
  for (; text < end; ++text) {
    if (TextStartsWith(text, part) && text + TextLength(part) <= end) return true;
  }
  return false;
}

}  // namespace

bool IsKnownVariable(const char* name) {
  constexpr const char* kNames[] = {"OUT",
                                    "HEAP_INTERVAL",
                                    "LOCK_INTERVAL",
                                    "CPU",
                                    "SNAPSHOT_EVERY",
                                    "KEEP",
                                    "MAX_DISK",
                                    "MAX_MEMORY",
                                    "TABLES",
                                    "PROFILES",
                                    "SIGNAL",
                                    "CHILDREN",
                                    "MERGE_CHILDREN",
                                    "SKIP_SMALL",
                                    "LOCK_LABEL",
                                    "THREAD_LABEL",
                                    "PEAK",
                                    "LIFETIMES",
                                    "RESIDENT",
                                    "WALL",
                                    "SNAPSHOT_WHEN",
                                    "SNAPSHOT_HOLDERS",
                                    "ON_SNAPSHOT",
                                    "ENTRIES",
                                    "SEED",
                                    "ENABLE",
                                    "VERBOSE",
                                    "ROOT",
                                    "EXPORTER",
                                    "REPLAY",
                                    "LEAK_CHECKER",
                                    "PUSH",
                                    "PUSH_EVERY",
                                    "PUSH_TO",
                                    "PUSH_SERVICE_NAME",
                                    "PUSH_TENANT",
                                    "PUSH_USER_FILE",
                                    "PUSH_TOKEN_FILE",
                                    "PUSH_CA",
                                    "PAGER"};
  name += 9;  // HOLDFAST_
  const char* end = name;
  while (*end != '\0' && *end != '=') ++end;
  for (const char* known : kNames) {
    if (TextStartsWith(name, known) && TextLength(known) == static_cast<size_t>(end - name)) return true;
  }
  constexpr const char* kOthers[] = {"TEST_", "REAL_", "BENCH_", "PORT"};
  for (const char* others : kOthers) {
    if (TextStartsWith(name, others)) return true;
  }
  return Contains(name, end, "_SERVICE_") || Contains(name, end, "_PORT");
}

void ReadOptions(const char* const* environment, Options* options) {
  const char* out = ".";
  constexpr const char kSizeHelp[] = "a size (B, KiB, MiB, GiB, KB, MB, GB)";
  constexpr const char kTimeHelp[] = "a time (ns, us, ms, s, m, h)";
  uint64_t number = 0;
  bool by_run = false;     // `holdfast run` has already reported misspelt variables, once for all processes
  bool preloaded = false;  // through a variable
  for (const char* const* entry = environment; *entry != nullptr; ++entry) {
    by_run = by_run || TextStartsWith(*entry, "HOLDFAST_ROOT=");
    preloaded = preloaded || (TextStartsWith(*entry, "LD_PRELOAD=") &&
                              Contains(*entry, *entry + TextLength(*entry), "libholdfast.so"));
  }
  for (; *environment != nullptr; ++environment) {
    const char* entry = *environment;
    if (TextStartsWith(entry, "XDG_RUNTIME_DIR=")) options->runtime_dir = entry + 16;
    if (!TextStartsWith(entry, "HOLDFAST_")) continue;
    TextBuffer<64> name;
    const char* value = entry;
    while (*value != '\0' && *value != '=') name.Add(*value++);
    if (*value != '=') continue;
    ++value;
    const auto is = [&name](const char* wanted) { return TextEquals(name.text() + 9, wanted); };
    const char* takes = nullptr;  // set when the value is bad
    if (is("OUT")) {
      if (*value != '\0') out = value;
    } else if (is("HEAP_INTERVAL")) {
      if (!ParseSize(value, &options->heap_interval)) takes = kSizeHelp;
    } else if (is("LOCK_INTERVAL")) {
      if (!ParseTime(value, &options->lock_interval_ns)) takes = kTimeHelp;
    } else if (is("CPU")) {
      if (!ParseCpu(value, &options->cpu_interval_ns, &options->cpu_is_forced)) takes = kCpuTakes;
    } else if (is("SNAPSHOT_EVERY")) {
      if (!ParseTime(value, &options->snapshot_every_ns)) takes = kTimeHelp;
    } else if (is("KEEP")) {
      if (!ParseCount(value, &number) || number >= kKeepThinned) {
        takes = "a number of snapshots (0 = all)";
      } else {
        options->keep = static_cast<uint32_t>(number);
      }
    } else if (is("MAX_DISK")) {
      if (!ParseSize(value, &options->max_disk_bytes)) takes = kSizeHelp;
    } else if (is("MAX_MEMORY")) {
      // Below 1 MiB not even the empty table fits; an Offset reaches 32 GiB.
      if (!ParseSize(value, &number) || number < (1 << 20) || number > (uint64_t{32} << 30)) {
        takes = "a size from 1MiB to 32GiB";
      } else {
        options->max_memory_bytes = number;
      }
    } else if (is("TABLES")) {
      if (*value != '\0') options->tables = value;
    } else if (is("PROFILES")) {
      if (!ParseProfiles(value, &options->profiles)) takes = "a list of heap, mutex, block, map, threads, exceptions";
    } else if (is("SIGNAL")) {
      if (!ParseSignal(value, &options->signal)) takes = "a signal's name (USR1, USR2, PROF, …)";
    } else if (is("CHILDREN")) {
      if (!ParseYesNo(value, &options->children)) takes = "yes or no";
    } else if (is("LOCK_LABEL")) {
      if (!ParseYesNo(value, &options->lock_label)) takes = "yes or no";
    } else if (is("THREAD_LABEL")) {
      if (!ParseThreadLabel(value, &options->thread_label)) takes = "yes, no or folded";
    } else if (is("PEAK")) {
      if (!ParseYesNo(value, &options->peak)) takes = "yes or no";
    } else if (is("RESIDENT")) {
      if (!ParseYesNo(value, &options->resident)) takes = "yes or no";
    } else if (is("WALL")) {
      if (!ParseYesNo(value, &options->wall)) takes = "yes or no";
    } else if (is("LIFETIMES")) {
      if (!ParseLifetimes(value, &options->lifetimes)) takes = "yes, no or auto";
    } else if (is("ENTRIES")) {
      if (!ParseEntries(value, &options->entries)) takes = "auto, yes or no";
    } else if (is("SNAPSHOT_WHEN")) {
      TriggerList triggers;
      if (ParseTriggers(value, &triggers)) {
        options->snapshot_when = value;
      } else {
        takes = kTriggersTake;
      }
    } else if (is("ON_SNAPSHOT")) {
      if (TextLength(value) >= kOnSnapshotBytes) {
        takes = "a command of at most 1023 bytes";
      } else if (preloaded && *value != '\0') {
        options->on_snapshot = entry;
      }
    } else if (is("REPLAY")) {
      if (!ParseYesNo(value, &options->replay)) takes = "0 or 1";
    } else if (is("SEED")) {
      if (!ParseCount(value, &options->seed)) takes = "a number";
    } else if (is("ENABLE")) {
      if (!ParseYesNo(value, &options->enable)) takes = "0 or 1";
    } else if (is("VERBOSE")) {
      if (!ParseCount(value, &number)) {
        takes = "a number";
      } else {
        options->verbose = static_cast<uint32_t>(number);
      }
    } else if (is("ROOT")) {
      if (!ParseCount(value, &number)) {
        takes = "a process id";
      } else {
        options->root_pid = static_cast<int>(number);
      }
    } else if (is("LEAK_CHECKER")) {
      if (!ParseCount(value, &number)) {
        takes = "a process id";
      } else {
        options->leak_checker = static_cast<int>(number);
      }
    } else if (is("MERGE_CHILDREN")) {
      if (!ParseYesNo(value, &options->merge)) takes = "yes or no";
    } else if (is("SKIP_SMALL")) {
      if (!ParseSize(value, &options->skip_small_bytes)) takes = kSizeHelp;
    } else if (is("EXPORTER")) {
      options->exporter = !TextEquals(value, "no");
      if (options->exporter && *value != '\0') options->exporter_path = value;
    }
    if (takes != nullptr) {
      TextBuffer<192> problem;
      ComplainOf(name.text(), value, problem.Add("not ").Add(takes).Add("; the default is used").text());
    } else if (!by_run && !IsKnownVariable(entry)) {
      ComplainOf(name.text(), value, "no such variable, it is ignored; holdfast run --help names them");
    }
  }
  if (!CopyAbsolutePath(options->out, sizeof options->out, out)) {
    ComplainOf("HOLDFAST_OUT", out, "longer than 1023 bytes; the default is used, the working folder");
    CopyAbsolutePath(options->out, sizeof options->out, ".");
  }
}

bool CopyAbsolutePath(char* to, size_t capacity, const char* path) {
  char here[kLongestPath];
  TextBuffer<kLongestPath> absolute;
  size_t bytes = 0;  // without the terminating zero
  if (*path != '/') {
    const long length = RawSyscall(SYS_getcwd, here, sizeof here);
    if (!SyscallFailed(length)) absolute.Add(here);
    if (TextStartsWith(path, "./")) path += 2;
    bytes = absolute.length();
    if (!TextEquals(path, ".") && *path != '\0') {
      absolute.Add("/").Add(path);
      bytes += 1 + TextLength(path);
    }
  } else {
    absolute.Add(path);
    bytes = TextLength(path);
  }
  CopyText(to, capacity, absolute.text());
  return bytes < kLongestPath && bytes < capacity;
}

}  // namespace holdfast
