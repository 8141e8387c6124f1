// The part of `holdfast doctor` that examines the environment of a program: kernel, container, limits, filters, and
// where tables and profiles go.
#ifndef HOLDFAST_REPORT_RUN_DOCTOR_SURROUNDINGS_H_
#define HOLDFAST_REPORT_RUN_DOCTOR_SURROUNDINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/observe/table/thread_status.h"
#include "report/run/findings.h"
#include "sampler/contract/cpu_sampling.h"

namespace holdfast {

// The name of the emulator that executes this tool on another processor, such as qemu-aarch64-static; "" if there is none or
// if it hides itself.
std::string Emulator();
// Says on stderr that what follows of a running process is the emulator's, if there is one.
void SayIfEmulated();

// What in the surroundings prevents CPU samples; kOn: nothing. Where the processor has them, they can be forced. `process` as below.
CpuState CpuHindrance(const std::string& process);
std::string NoCpuSamples(CpuState why);
// Says why a program that is started here gets no timer; "": it may.
std::string NoTimersLeft();

// Why --wall would not see the system calls of programs that are started from here; "": it would.
std::string WhyNoCallsAreSeen(const LookRights& rights);

// `process`: a pid, or "self" for what a program started from here would find.
void DescribeKernel(const std::string& process, Findings* findings);
// Reports whether an exporter can be started beside the process, or beside the program that doctor checks ("self"), and
// whether PID 1 of a container lets it write the last profile. `tables`: folders with the tables of its ancestors.
void DescribeExporter(const std::string& process, const std::vector<std::string>& tables, Findings* findings);
void DescribeLimits(const std::string& process, Findings* findings);
// Reports where a program started from here would put its table and its profiles. The variables have the values of that
// program's environment; empty means not set.
void DescribePlaces(const std::string& tables_variable, const std::string& out_variable, Findings* findings);

// Returns a variable from the environment that a process was started with, or "" if it is not set or not readable.
std::string VariableOf(const std::string& process, const std::string& name);
// Returns a soft limit by its name in /proc/PROCESS/limits, or nothing if it is unlimited.
std::optional<uint64_t> LimitOf(const std::string& process, std::string_view name);
// Returns the field `name` of /proc/PROCESS/status, or "" if there is none.
std::string StatusField(const std::string& process, const std::string& name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_DOCTOR_SURROUNDINGS_H_
