// The order in which the dynamic loader of a running process searches its objects for a name: which malloc serves the
// process depends on it.
//
// The order is the loader's own list in the process's memory (r_debug in <link.h>), which is untrusted: at most a few
// thousand entries are read, by copying.
#ifndef HOLDFAST_REPORT_RUN_SEARCH_ORDER_H_
#define HOLDFAST_REPORT_RUN_SEARCH_ORDER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

// Returns a value of the process's auxiliary vector; 0: it is not there, or cannot be read.
uint64_t AuxiliaryValue(pid_t pid, uint64_t type);

// The addresses of the dynamic sections of the loader's objects, in the order of search. Objects of other namespaces (dlmopen,
// LD_AUDIT) are not among them. Empty: the list cannot be read.
std::vector<uint64_t> ListedObjects(pid_t pid);

// Returns the path that the process was started with (AT_EXECFN), which may be a link or a script. "": unreadable.
std::string StartedAs(pid_t pid);

// Sorts `objects`, files that the process has mapped, by search order; files that the list lacks keep their order after
// the others. The first one stays the first. Changes nothing if the list cannot be read, or if the loader was started as a
// program.
void SortBySearch(pid_t pid, std::vector<std::string>* objects);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SEARCH_ORDER_H_
