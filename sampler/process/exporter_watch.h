// The target's view of the exporter: starts one if nobody serves its output folder, and again after a kill. The calling
// thread is muted.
#ifndef HOLDFAST_SAMPLER_PROCESS_EXPORTER_WATCH_H_
#define HOLDFAST_SAMPLER_PROCESS_EXPORTER_WATCH_H_

#include "sampler/table/shared_table.h"

namespace holdfast {

// Checks whether an exporter serves our output folder, and starts one if not. False: there is none.
bool StartExporter();
// Waits until no thread is starting an exporter.
void AwaitNoStart();
// Whether an exporter holds the lock of our output folder, or is about to take it. `waited_ns`: how long the caller has waited.
bool ExporterIsAlive(int64_t waited_ns);
// Call when this process has made its own table: its exporter is watched from now on.
void BeginBeat();
// With HOLDFAST_VERBOSE: prints one line if profiles cannot be written.
void PrintUnwritable();
// Called by AfterSample (small_process.h). Checks (a load, at times the clock) whether the exporter's beat has stopped,
// and starts another exporter if there is none. The exporter may be killed long before this process ends, and if this
// process then ends by SIGKILL, nobody would write the table's contents.
void WatchExporter(SharedTable* table);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_EXPORTER_WATCH_H_
