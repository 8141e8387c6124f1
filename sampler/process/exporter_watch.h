// The exporter as the target sees it: started when nobody serves its output folder, and again when it was killed. The calling
// thread is muted.
#ifndef HOLDFAST_SAMPLER_PROCESS_EXPORTER_WATCH_H_
#define HOLDFAST_SAMPLER_PROCESS_EXPORTER_WATCH_H_

#include "sampler/tables/shared_table.h"

namespace holdfast {

// Looks whether somebody serves our output folder, and starts an exporter if not. False: nobody does.
bool StartExporter();
// Waits until no thread is starting an exporter.
void AwaitNoStart();
// Whether an exporter holds the lock of our output folder, or is about to take it. `waited_ns`: how long the caller has waited.
bool ExporterIsAlive(int64_t waited_ns);
// A table of its own has been made, whose exporter is to be watched from now on.
void BeginBeat();
// With HOLDFAST_VERBOSE: one line where profiles cannot be written.
void TellUnwritable();
// After a sample, by every thread: looks (a load, at times the clock) whether the exporter's beat stands still, and starts
// another exporter where there is none any more. It may have been killed long before this process ends, and if that is by
// SIGKILL nobody would write what is in the table.
void TendExporter(SharedTable* recorded);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_EXPORTER_WATCH_H_
