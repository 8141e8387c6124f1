#include "report/builder/describe_scan.h"

#include "report/builder/profile_builder.h"
#include "report/profile/process_comments.h"
#include "report/profile/typed_records.h"

namespace holdfast {

void DescribeScan(const ProcessIdentity& process, int64_t wall_ns, Profile* profile) {
  record::Process& described = *profile->mutable_process();
  described.id = ProcessId(process);
  described.program = process.program;
  described.executable = process.executable;
  described.command = process.command_line;
  described.pid = process.pid;
  described.version = HoldfastVersion();
  described.started_ns = process.start_wall_ns;
  profile->time_nanos = wall_ns;
  AddProcessComments(profile);
}

}  // namespace holdfast
