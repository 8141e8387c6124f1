#include "report/run/program_check.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/say.h"
#include "report/base/split.h"
#include "report/names/elf/executable_kind.h"
#include "report/names/elf/processors.h"
#include "report/run/started_programs.h"

namespace holdfast {
namespace {

// A script's interpreter may be a script itself. The kernel follows at most this many.
constexpr int kMaxScripts = 5;

// Returns 0, or the errno with which execve would fail.
int Executable(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  if (!S_ISREG(info.st_mode)) return EACCES;
  // Check as the effective user, as execve does.
  return faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

struct Lookup {
  std::string path;
  int error = 0;
};

// Looks up a program as execvp does. A name with a slash is a path. Otherwise returns the first executable file in
// PATH, or EACCES if all files found are not executable.
Lookup LookUpProgram(const std::string& name, const char* path_variable) {
  if (name.find('/') != std::string::npos) return {name, Executable(name)};
  bool denied = false;
  for (const std::string_view folder : Split(path_variable != nullptr ? path_variable : "/bin:/usr/bin", ":")) {
    const std::string path = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    const int error = Executable(path);
    if (error == 0) return {path, 0};
    denied = denied || error == EACCES || error == EISDIR;
  }
  return {name, denied ? EACCES : ENOENT};
}

// Returns the program that `env` starts: the first word that is neither an option nor a variable.
std::string ProgramOfEnv(std::string_view argument) {
  for (const std::string_view word : Split(argument, " \t")) {
    if (!word.empty() && word[0] != '-' && word.find('=') == std::string_view::npos) return std::string(word);
  }
  return "";
}

// Returns why the kernel would start this file with more rights than we have; the loader then ignores LD_PRELOAD. "":
// it would not.
std::string GainedRights(const std::string& path) {
  struct stat info;
  struct statvfs mount;
  if (stat(path.c_str(), &info) != 0) return "";
  if (statvfs(path.c_str(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) return "";
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) return "";
  if ((info.st_mode & S_ISUID) != 0 && info.st_uid != getuid()) return "is setuid";
  if ((info.st_mode & S_ISGID) != 0 && (info.st_mode & S_IXGRP) != 0 && info.st_gid != getgid()) return "is setgid";
  if (getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) return "has file capabilities";
  return "";
}

// `ld-linux-x86-64.so.2 [OPTION…] PROGRAM [ARGUMENT…]`: returns the index of PROGRAM. Returns the number of arguments
// if there is no PROGRAM (--version) or if an option is unknown.
size_t ProgramOfLoader(const std::vector<std::string>& command) {
  constexpr std::string_view kWithValue[] = {"--library-path",     "--inhibit-rpath", "--audit",
                                             "--preload",          "--argv0",         "--glibc-hwcaps-prepend",
                                             "--glibc-hwcaps-mask"};
  for (size_t at = 1; at < command.size(); ++at) {
    if (!command[at].starts_with("--")) return at;
    if (command[at] == "--inhibit-cache") continue;
    if (std::find(std::begin(kWithValue), std::end(kWithValue), command[at]) == std::end(kWithValue)) break;
    ++at;
  }
  return command.size();
}

ProgramCheck Refuse(int exit_code, std::string message) {
  return {.exit_code = exit_code, .message = std::move(message)};
}

// `shown`: "PROGRAM:", or "SCRIPT: its interpreter FILE".
void CheckElf(const std::string& shown, const std::string& path, const ExecutableKind& file, const std::string& library,
              ProgramCheck* check) {
  const auto refuse = [&](const std::string& why) { *check = Refuse(kRunFailed, fmt::format("{} {}", shown, why)); };
  if (!file.machine.empty() || !file.is_64_bit) {
    const std::string kind = file.is_64_bit ? fmt::format("a program for {}", file.machine) : "a 32-bit program";
    return refuse(
        fmt::format("is {}: nothing in it can be recorded. This Holdfast profiles {} programs.", kind, kOwnPrograms));
  }
  if (file.interpreter.empty()) {
    return refuse(fmt::format(
        "is linked statically, so no library can be preloaded and nothing in it can be recorded. Link it dynamically; to profile only the programs that it starts, start it with LD_PRELOAD={} instead.",
        library));
  }
  if (access(file.interpreter.c_str(), F_OK) != 0) {
    *check = Refuse(kNotExecutable,
                    fmt::format("{} its loader {} is missing ({}). Install it, or build the program for this system.",
                                shown, file.interpreter, strerror(errno)));
    return;
  }
  if (const std::string rights = GainedRights(path); !rights.empty()) {
    return refuse(fmt::format(
        "{}, so the loader ignores LD_PRELOAD and nothing in it can be recorded. Profile a copy without these privileges, or run it as the user with these privileges.",
        rights));
  }
  if (file.is_old_musl) {
    check->recordable = false;
    check->message = fmt::format(
        "{} uses a musl before 1.2.2, in which aligned allocations fail below another malloc: it runs, but nothing is recorded. Use a newer musl (Alpine 3.14).",
        shown);
  }
  if (!file.sanitizer.empty()) {
    check->recordable = false;
    check->message = fmt::format(
        "{} was built with {}, which has its own malloc: it runs, but nothing is recorded. Profile a build without it.",
        shown, file.sanitizer);
  }
}

}  // namespace

ProgramLookUp LookUpIn(const char* path_variable) {
  return [path_variable](const std::string& word) {
    const Lookup found = LookUpProgram(word, path_variable);
    return found.error == 0 ? found.path : "";
  };
}

ProgramCheck CheckProgram(const std::vector<std::string>& command, const char* path_variable,
                          const std::string& library) {
  const std::string& name = command[0];
  if (name.empty()) return Refuse(kNotFound, "\"\": not found (a program's name cannot be empty).");
  const Lookup found = LookUpProgram(name, path_variable);
  if (found.error != 0) return ExecFailed(name, found.error);

  ProgramCheck check{.path = found.path, .arguments = command};
  ExecutableKind file = ReadExecutableKind(found.path);
  if (file.kind == ExecutableKind::Kind::kText) {
    // Like execvp and every shell: a text file without #! is run by /bin/sh.
    check.path = "/bin/sh";
    check.arguments[0] = found.path;
    check.arguments.insert(check.arguments.begin(), "/bin/sh");
    file = {.kind = ExecutableKind::Kind::kScript, .interpreter = "/bin/sh"};
  }
  std::string shown = found.path + ":", path = found.path;
  for (int scripts = 0; file.kind == ExecutableKind::Kind::kScript; ++scripts) {
    std::string interpreter = file.interpreter;
    if (interpreter.empty() || scripts == kMaxScripts) return ExecFailed(name, ENOEXEC);
    if (const int error = Executable(interpreter); error != 0) {
      return Refuse(
          kNotExecutable,
          fmt::format(
              "{}: its interpreter {} cannot be executed ({}). Correct the first line of the script, or install the interpreter.",
              path, interpreter, strerror(error)));
    }
    if (BaseName(interpreter) == "env") {
      const Lookup target = LookUpProgram(ProgramOfEnv(file.argument), path_variable);
      if (target.error != 0) return check;  // env reports the error itself
      interpreter = target.path;
    }
    path = interpreter;
    shown = fmt::format("{}: its interpreter {}", found.path, interpreter);
    file = ReadExecutableKind(path);
  }
  if (file.kind == ExecutableKind::Kind::kBadElf) return ExecFailed(path, ENOEXEC);
  if (file.kind == ExecutableKind::Kind::kElf && file.is_loader) {
    if (path != found.path) return check;  // a script's interpreter
    const size_t at = ProgramOfLoader(check.arguments);
    if (at >= check.arguments.size()) return check;  // the loader reports the error itself
    // The loader looks up a name without a slash among libraries.
    if (check.arguments[at].find('/') == std::string::npos) return check;
    // A program that is started through the loader gains no rights.
    shown = check.arguments[at] + ":";
    file = ReadExecutableKind(check.arguments[at]);
    if (file.kind != ExecutableKind::Kind::kElf || file.is_loader) return check;
  }
  if (file.kind == ExecutableKind::Kind::kElf) CheckElf(shown, path, file, library, &check);
  return check;
}

ProgramCheck ExecFailed(const std::string& program, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      if (program.find('/') != std::string::npos) {
        return Refuse(kNotFound, fmt::format("{}: not found ({}). Check the path.", program, strerror(error)));
      }
      return Refuse(kNotFound, fmt::format("{}: not found in PATH. Check the name, or give a path.", program));
    case EISDIR:
      return Refuse(kNotExecutable, fmt::format("{}: is a folder. Name a program.", program));
    case EACCES:
      return Refuse(kNotExecutable, fmt::format("{}: cannot be executed ({}). Check its permissions (chmod +x).",
                                                program, strerror(error)));
    case ENOEXEC:
      return Refuse(kNotExecutable, fmt::format("{}: is not a program ({}). Check that the file is complete.", program,
                                                strerror(error)));
    default:
      return Refuse(kNotExecutable, fmt::format("{}: cannot be executed ({}).", program, strerror(error)));
  }
}

}  // namespace holdfast
