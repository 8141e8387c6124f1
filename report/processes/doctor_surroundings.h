// The part of `holdfast doctor` that looks around: kernel, container, limits, filters, and where tables and profiles go.
#ifndef HOLDFAST_REPORT_PROCESSES_DOCTOR_SURROUNDINGS_H_
#define HOLDFAST_REPORT_PROCESSES_DOCTOR_SURROUNDINGS_H_

#include <string>

#include "report/processes/findings.h"

namespace holdfast {

// `process`: a pid, or "self" for what a program started from here would find.
void DescribeKernel(const std::string& process, Findings* findings);
// Whether an exporter can be started where the process is, or where doctor's program would be ("self"), and what a container's
// PID 1 makes of the last profile. `tables`: folders of the tables of its ancestors.
void DescribeExporter(const std::string& process, const std::vector<std::string>& tables, Findings* findings);
void DescribeLimits(const std::string& process, Findings* findings);
// Where a program started from here would put its table and its profiles; `variables` as in the environment of that
// program, empty = not set.
void DescribePlaces(const std::string& tables_variable, const std::string& out_variable, Findings* findings);

// The value of a variable in the environment that a process was started with; "" when it is not there or not readable.
std::string VariableOf(const std::string& process, const std::string& name);
// The field `name` of /proc/PROCESS/status; "" when there is none.
std::string StatusField(const std::string& process, const std::string& name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_DOCTOR_SURROUNDINGS_H_
