// The records of a series as report/page/metadata.cc sends them. scripts/generate-records makes this file from
// proto/holdfast.proto. A field that is 0, false or empty is absent.

export interface Records {
  process?: Process;
  sampling?: Sampling;
  total?: Total[];
  loss?: Loss[];
  unseen_frees?: UnseenFrees[];
  counters?: Counters;
  peak?: Peak;
  pages?: Pages;
  locks?: Locks;
  missing_names?: MissingNames[];
  merged?: Merged;
  allocator?: Allocator;
  thread_times?: ThreadTimes;
}

export interface Process {
  kind?: string; // of the profile: heap, mutex, block, map, threads, exceptions, cpu, wall, peak, lifetimes, resident
  id?: string; // host/pid-namespace/pid/start-ticks/image: unique for each process and each program that it executes
  program?: string; // as it was started
  executable?: string; // the path of the file that the kernel mapped
  command?: string; // with its arguments
  pid?: number;
  parent_pid?: number; // of a forked child that has not executed another program
  version?: string; // of Holdfast: "holdfast 1.0.0"
  started_ns?: number; // since 1970
  elapsed_ns?: number; // from the start to the snapshot
  profiled?: string[]; // the recorded kinds; one of these without a file had nothing to record
  unseen_waits?: string; // waits that no profile shows, in words
  moment?: number;
  resident_bytes?: number; // of the whole process, as the kernel counts; 0: it had ended
  unchanged_snapshots?: number; // snapshots since the previous file that were not written because nothing had changed
  object?: ObjectName[]; // in a sum: the names of the main programs
  attached?: boolean; // recording began with holdfast attach: what was allocated before is in no profile
}

export interface ObjectName {
  file?: string; // redis-check-rdb
  called?: string; // redis-server
}

export interface Sampling {
  interval?: Interval[]; // oldest first; in a sum of files with different intervals: all of them
  interval_in_part?: boolean; // true in such a sum
  ages_known?: string; // lifetimes: which blocks have ages, in words
  aged_one_in?: number; // one small block in N, chosen at random, has an age; 0: every block
  aged_up_to_bytes?: number; // the size of the largest small block
}

export interface Interval {
  since_ns?: number; // since 1970; 0: from the start, or not known
  mean?: number; // 1: every one; 0: off
  unit?: string; // bytes or ns
}

export interface Total {
  type?: string;
  value?: number;
  half_width?: number; // negative: not known
}

export interface Allocator {
  outcome?: string; // in words
  is_seen?: boolean; // its functions are redirected at their entry
  incomplete?: string; // why not all of it is seen, in words
  not_seen?: string; // what else is not seen, in words: allocators of libraries, mappings; also in `outcome`
}

export interface Loss {
  cause?: string;
  count?: number;
}

export interface UnseenFrees {
  module?: string;
  bytes?: number;
  blocks?: number;
}

export interface Counters {
  alloc_calls?: number;
  alloc_bytes?: number;
  free_calls?: number;
  free_bytes?: number;
  calls_are_sampled?: boolean; // alloc_calls, free_calls and free_bytes count samples only
  own_time_ns?: number;
  own_table_bytes?: number;
  own_table_steps?: number; // system calls that let the table grow
  own_memory_probes?: number; // system calls that asked whether a page can be read
}

export interface Peak {
  bytes?: number;
  time_ns?: number; // since 1970
  missing_bytes?: number; // at most this much more, where every allocation is recorded
  stacks_bytes?: number; // peak profiles: what was in use when the stacks were taken
  stacks_time_ns?: number;
}

export interface Pages {
  swapped_bytes?: number;
  huge_known?: boolean;
  huge_bytes?: number; // resident on huge pages
}

export interface Locks {
  contentions?: number; // exact, of all locks
  delay_ns?: number;
  gap_ns?: number; // mutex: waits while nobody held the lock
  samples?: number;
  kind?: LockKind[]; // the same for each kind
}

export interface LockKind {
  kind?: string;
  contentions?: number;
  acquired?: number; // block: the others gave up
  delay_ns?: number;
  gap_ns?: number; // mutex: waits while nobody held the lock
}

export interface MissingNames {
  what?: number;
  path?: string;
  why?: string;
  not_in_time?: boolean; // the exporter ran out of time; holdfast symbolize adds the names
  is_debug_file?: boolean; // `why` begins with the path of a debug file that could not be read
}

export interface Merged {
  how?: number;
  files?: number;
  processes?: number; // --merge-children: the number of processes
  from?: string[];
}

export interface ThreadTimes {
  thread?: ThreadTime[]; // the longest lifetimes first; at most 1024: the shorter ones are sums
  looks?: number; // at all threads, since the start
  unseen_cpu_ns?: number; // CPU time of threads after their last look, and of threads between two looks
  lane_start_ns?: number; // since 1970
  lane_step_ns?: number;
  unknown?: string; // why system calls cannot be read
  most_unlisted?: number; // threads at one time that nobody looked at, because no descriptors were left
  lacks_locks?: boolean; // waits for locks were not recorded all the time; those that were not are system calls
}

export interface ThreadTime {
  name?: string;
  tid?: number; // 0: a sum
  threads?: number;
  began_ns?: number; // since 1970, of the first thread
  lived_ns?: number;
  cpu_ns?: number;
  runnable_ns?: number;
  lock_ns?: number;
  io_ns?: number;
  sleep_ns?: number;
  call_ns?: number; // other system calls
  stopped_ns?: number;
  unknown_ns?: number;
  lane?: number[]; // the main state of each step: 0 none, 1 cpu, 2 runnable, 3 lock, 4 io, 5 sleep, 6 call, 7 stopped, 8 unknown
}
