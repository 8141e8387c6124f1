"""What each work is run under: nothing, Holdfast in four settings, and the peers that Debian ships."""

import dataclasses
import glob
import os
import subprocess


@dataclasses.dataclass
class Configuration:
    name: str
    explains: str
    environment: dict  # {dir} = the run's own folder
    prefix: list = dataclasses.field(default_factory=list)
    ours: bool = False
    # About how many times longer than bare the worst program takes: such runs are repeated less often.
    slow: int = 1

    def environment_in(self, folder):
        return {key: value.replace("{dir}", folder) for key, value in self.environment.items()}

    def prefix_in(self, folder):
        return [part.replace("{dir}", folder) for part in self.prefix]


def least_locks(build):
    """The floor of contended locks: not a profiler, so not among the columns of programs."""
    return Configuration("least", "the least that counts a contended mutex's waits for both sides, and nothing else (tests/bench/least_locks.c)",
                         {"LD_PRELOAD": os.path.join(build, "tests/bench/libleast_locks.so")})


def own_profiler(environment, name):
    """What an allocator that is linked into a program brings with it."""
    return Configuration(name, "the allocator's own profiler: jemalloc's prof, gperftools' TCMALLOC_SAMPLE_PARAMETER or HEAPPROFILE", environment, slow=4)


def library(pattern):
    found = sorted(glob.glob("/usr/lib/*-linux-gnu/" + pattern) + glob.glob("/usr/lib64/" + pattern))
    return found[0] if found else None


def jemalloc_has_prof(path):
    said = subprocess.run(["/bin/true"], env={"LD_PRELOAD": path, "MALLOC_CONF": "stats_print:true"}, capture_output=True, text=True)
    return "config.prof: true" in said.stderr + said.stdout


def all_configurations(build):
    """The configurations that can run here, and a remark for each that cannot."""
    shim = os.path.join(build, "lib/holdfast/libholdfast.so")

    def holdfast(name, explains, slow=1, **options):
        return Configuration(name, explains, {"LD_PRELOAD": shim, "HOLDFAST_OUT": "{dir}", **options}, ours=True, slow=slow)

    found = [
        Configuration("bare", "without any of them", {}),
        holdfast("idle", "Holdfast preloaded, both intervals 0", HOLDFAST_HEAP_INTERVAL="0", HOLDFAST_LOCK_INTERVAL="0"),
        holdfast("default", "Holdfast as it comes: a heap sample every 512 KiB"),
        holdfast("64KiB", "Holdfast, a heap sample every 64 KiB", HOLDFAST_HEAP_INTERVAL="64KiB"),
        holdfast("every", "Holdfast, every allocation a sample", slow=4, HOLDFAST_HEAP_INTERVAL="1"),
    ]
    remarks = []

    def peer(path, package, configuration):
        if path:
            found.append(configuration(path))
        else:
            remarks.append(f"{package} is not installed: its columns are missing (`scripts/deps bench` installs it).")

    jemalloc = library("libjemalloc.so.2")
    peer(jemalloc, "libjemalloc2", lambda path: Configuration("jemalloc", "the allocator, not profiling", {"LD_PRELOAD": path}))
    if jemalloc and jemalloc_has_prof(jemalloc):
        remarks.append("Debian's libjemalloc2 is built with `prof` (it says config.prof: true).")
        found.append(Configuration("jemalloc-prof", "jemalloc, prof:true, a sample every 512 KiB",
                                   {"LD_PRELOAD": jemalloc, "MALLOC_CONF": "prof:true,lg_prof_sample:19,prof_final:true,prof_prefix:{dir}/jeprof"}))
    elif jemalloc:
        remarks.append("This libjemalloc2 is built without `prof`: its profiler cannot be measured here.")
    tcmalloc = library("libtcmalloc.so.4")
    peer(tcmalloc, "libgoogle-perftools4", lambda path: Configuration("tcmalloc", "gperftools' allocator, not profiling", {"LD_PRELOAD": path}))
    if tcmalloc:
        found.append(Configuration("tcmalloc-sampling", "gperftools' sampler, a sample every 512 KiB (it writes nothing by itself)",
                                   {"LD_PRELOAD": tcmalloc, "TCMALLOC_SAMPLE_PARAMETER": "524288"}))
        found.append(Configuration("gperftools-heap", "gperftools' heap profiler (HEAPPROFILE)",
                                   {"LD_PRELOAD": tcmalloc, "HEAPPROFILE": "{dir}/heap"}, slow=40))
    # Not the script of that name: its time is also that of the interpreter and the compressor, processes beside the program, as our exporter is.
    recorder = next((p for where in ("/usr/lib", "/usr/lib/*-linux-gnu", "/usr/local/lib")
                     for p in glob.glob(where + "/heaptrack/libheaptrack_preload.so")), None)
    peer(recorder, "heaptrack", lambda path: Configuration("heaptrack", "what heaptrack does in the program; its raw data goes to a file", {
        "LD_PRELOAD": path, "DUMP_HEAPTRACK_OUTPUT": "{dir}/heaptrack.raw"}, slow=8))
    return found, remarks
