#include "report/run/tested_systems.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "fmt/format.h"
#include "report/names/elf/processors.h"

namespace holdfast {
namespace {

constexpr TestedSystem kSystems[] = {
    {"Debian 12", "glibc 2.36", "all tests", "every commit"},
    {"Debian 13", "glibc 2.41",
     "scripts/test in a bare root: built with g++ 14, all tests except those that need control groups and one: an exporter at rest holds 5 MiB, not 4; scripts/systems",
     "2026-11-30; 2026-12-01"},
    {"Debian sid", "glibc 2.43",
     "scripts/test in a bare root: built with g++ 16, all tests except those that need control groups and two: an exporter at rest holds 13 MiB, not 4 (mimalloc 3), and check-fast-path for two allocators that are linked in; scripts/systems",
     "2026-11-30; 2026-12-01"},
    {"Debian 11", "glibc 2.31",
     "scripts/systems: heap, locks, exceptions, plugins, late threads; .deb, tree and wheel; 1,089 of 1,322 end-to-end tests (the others need glibc 2.35, as attach does, or tools, headers or programs that are missing there)",
     "2026-12-01; 2026-11-30"},
    {"glibc built from its sources", "glibc 2.28",
     "heap, mutexes, conditions, late threads, fork, exec, C++ with exceptions and plugins, start through ld.so; "
     "run, top, locks, doctor; the files of the .rpm",
     "2026-11-27"},
    {"glibc built from its sources by gcc 9", "glibc 2.17",
     "scripts/systems glibc: joins and locks, bound lazily and at once; the library: sum of the heap, C++, plugins, late "
     "threads, exit codes",
     "2026-11-28"},
    {"Alpine 3.20, 3.21, 3.23; the musl of Debian 13", "musl 1.2.5",
     "3.20, 3.21: scripts/systems musl: heap, locks of every kind, child of a script, its own shell; profiles "
     "written from outside; 3.23: also curl; with its linker C++ (libstdc++) and Rust: heap, locks, threads, "
     "exceptions, panics; Debian 13's, with nothing else in the root: the tool for musl, and its wheel by pip of a "
     "Python 3.13",
     "2026-11-28; 2026-11-27; 2026-11-30"},
    {"Alpine 3.18, 3.19", "musl 1.2.4",
     "scripts/systems musl: heap, locks of every kind, child of a script, its own shell; profiles written from "
     "outside",
     "2026-11-28"},
    {"Debian 12's musl-tools; Alpine 3.16, 3.17", "musl 1.2.3",
     "heap, locks of every kind, fork, child of a script; Alpine: scripts/systems musl; Debian's, with nothing else in "
     "the root: the tool for musl: run, exporter, top, locks, html, doctor, ls, dump, collect, serve, push",
     "every commit; 2026-11-28; 2026-12-01"},
    {"Alpine 3.13 to 3.15", "musl 1.2.2",
     "scripts/systems musl: heap, locks of every kind, child of a script, its own shell; profiles written from "
     "outside",
     "2026-11-28"},
    {"Alpine 3.6 to 3.12", "musl 1.1.16 to 1.1.24",
     "scripts/systems musl: its own shell starts with the library preloaded, and its heap is recorded; aligned blocks; "
     "`run` starts programs without the library",
     "2026-11-28"},
    {"arm64 in an emulated machine (qemu-system): Linux 6.1 with pages of 4 KiB, Linux 6.12 with pages of 16 KiB",
     "glibc 2.36",
     "in the machine of scripts/systems arm64-machine, with 4 KiB and one by one, 88 of the end-to-end tests: 80 "
     "pass, 1 skips itself, 3 fail for what is missing on arm64, 1 below strace, 1 for a page that was only read "
     "(before Linux 6.7), 1 by huge pages and 1 probably by a stack that the kernel joined with other memory (both "
     "mended since, not run again): deadlocks and waits (stuck), holders, the exporter, snapshots, kernels that "
     "lack calls, lifetimes, the peak; by hand, also with 16 KiB: run, preloaded alone, as another user; exact "
     "sums of threads, fork, exec; SIGKILL, exit codes; ls, dump, doctor, memory, threads, locks; attach refuses; "
     "with 4 KiB also html, leaks and Go's pprof",
     "2026-12-01"},
    {"arm64 under emulators: qemu-user; qemu-system with pages of 16 KiB (Linux 6.12) and of 4 KiB (6.1)", "glibc 2.36",
     "the library alone: heap, locks, threads, exceptions, signal handlers, fork, exec, SIGKILL; with 16 KiB not locks, exec, "
     "SIGKILL; with 6.1 not SIGKILL, but also labels and a pool, signed return addresses, guarded landing pads",
     "2026-11-27; 2026-11-30"},
    {"arm64 under qemu-user 10 with other pages: of 64 KiB, with addresses of 42 bits; of 4 KiB, with 39 bits",
     "glibc 2.36",
     "the library: scripts/arm64 (unwind rows, heap, exceptions, a signal handler, fork, pools; signed return addresses); "
     "unit tests of stacks, modules and exact blocks; with 64 KiB also end-to-end tests of `--exact`, labels, exceptions, deep "
     "stacks and threads with little stack. No kernel had such pages",
     "2026-11-30"},
    {"arm64 under qemu-user", "glibc 2.36",
     "scripts/systems arm64: heap, locks, exceptions, plugins, late threads; .deb, tree and the wheel in a venv; "
     "run, collect, top, tree, check, list, doctor; the tools of arm64 and x86-64 read each other's tables and "
     "profiles; by hand info, leaks, diff, html, locks. No stuck or holders, no exporter but one from outside: "
     "processes seem to run the emulator. arm64-tests: of 1,093 unit tests 1,055 pass, 17 skip themselves, 21 cannot run; "
     "of 1,357 end-to-end tests 654 pass, 63 skip themselves, 640 cannot run (23 of these were found to in that run)",
     "2026-11-29; 2026-12-01"},
};

bool IsOfThisProcessor(const TestedSystem& tested) {
  return tested.system.starts_with("arm64") == (kOwnMachine == EM_AARCH64);
}

constexpr int kOldestMinor = 17;  // of glibc

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Returns the version number at the start of `text`.
std::string_view NumberAt(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), [](char c) { return IsDigit(c) || c == '.'; });
  std::string_view number = text.substr(0, static_cast<size_t>(end - text.begin()));
  while (number.ends_with('.')) number.remove_suffix(1);
  return number;
}

// musl has its version as a string of its own: "\0" "1.2.3\0"; Alpine 3.19 "\0" "1.2.4_git20230717\0".
std::string_view VersionOfMusl(std::string_view bytes) {
  for (size_t at = 0; (at = bytes.find('\0', at)) != std::string_view::npos;) {
    const std::string_view number = NumberAt(bytes.substr(++at, 16));
    if (std::count(number.begin(), number.end(), '.') == 2 && at + number.size() < bytes.size() &&
        (bytes[at + number.size()] == '\0' || bytes.substr(at + number.size()).starts_with("_git")) &&
        IsDigit(number[0]))
      return number;
  }
  return "";
}

}  // namespace

std::span<const TestedSystem> TestedSystems() { return kSystems; }

std::string LibcIn(std::string_view bytes) {
  constexpr std::string_view kGlibc = "release version ", kMusl = "musl libc (";
  if (bytes.find(kMusl) != std::string_view::npos) {
    const std::string_view version = VersionOfMusl(bytes);
    return version.empty() ? "" : fmt::format("musl {}", version);
  }
  const size_t at = bytes.find(kGlibc);
  if (at == std::string_view::npos || bytes.find("GNU C Library") == std::string_view::npos) return "";
  const std::string_view version = NumberAt(bytes.substr(at + kGlibc.size(), 16));
  return version.empty() ? "" : fmt::format("glibc {}", version);
}

void DescribeLibc(const std::string& path, Findings* findings) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string libc = LibcIn(bytes);
  if (libc.empty()) return;
  for (const TestedSystem& tested : kSystems) {
    if (tested.libc == libc && IsOfThisProcessor(tested))
      return findings->Ok("system",
                          fmt::format("{}: tested on {}: {} ({})", libc, tested.system, tested.what, tested.when));
  }
  constexpr std::string_view kGlibc2 = "glibc 2.";
  if (libc.starts_with(kGlibc2) && atoi(libc.c_str() + kGlibc2.size()) < kOldestMinor)
    return findings->No("system", fmt::format("{}: before 2.17, which the library needs", libc));
  findings->Note("system",
                 fmt::format("{}: not tested; no file of Holdfast needs a symbol newer than glibc 2.17", libc));
}

}  // namespace holdfast
