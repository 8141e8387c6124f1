// Owners of samples, plumbing, and short names: the golden lists, and profiles made for these tests.
#include "report/analysis/profiles/plumbing.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "report/analysis/owners.h"
#include "report/analysis/profiles/short_name.h"
#include "report/show/top.h"
#include "tests/unit/view_fixture.h"

namespace holdfast::testing {
namespace {

std::vector<std::vector<std::string>> Rows(const std::string& file) {
  std::vector<std::vector<std::string>> rows;
  std::ifstream lines(HOLDFAST_TESTS "/golden/" + file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#") || line.empty()) continue;
    std::vector<std::string> row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
    rows.push_back(row);
  }
  return rows;
}

TEST(Plumbing, IsWhatTheGoldenListSays) {
  const auto rows = Rows("plumbing.txt");
  ASSERT_GT(rows.size(), 40u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 4u) << row[0];
    EXPECT_EQ(IsPlumbing(row[0], row[2], row[1]) ? "plumbing" : "user", row[3]) << row[0] << " " << row[1] << row[2];
  }
}

TEST(ShortName, IsWhatTheGoldenListSays) {
  const auto rows = Rows("short_names.txt");
  ASSERT_GT(rows.size(), 60u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 2u) << row[0];
    EXPECT_EQ(ShortName(row[0]), row[1]);
  }
}

TEST(ShortName, IsShortAlready) {
  for (const auto& row : Rows("short_names.txt")) EXPECT_EQ(ShortName(row[1]), row[1]);
}

TEST(ShortName, ShownTogetherNamesKeepWhatDistinguishesThem) {
  const auto shown = [](std::vector<std::string> names) { return ShownNames(names); };
  using Names = std::vector<std::string>;
  EXPECT_EQ(shown({"app::f(int)", "app::f(char)", "app::g(int)"}), (Names{"app::f(int)", "app::f(char)", "app::g"}));
  EXPECT_EQ(shown({"void app::visit<int>(int)", "void app::visit<char>(char)"}),
            (Names{"app::visit<int>(int)", "app::visit<char>(char)"}));
  const std::string list = "app::AVeryLongNamespaceForRequests::TheRequestOfTheUserWhoAsked const&, ";
  EXPECT_EQ(shown({"app::h(" + list + "int)", "app::h(" + list + "char)"}),
            (Names{"app::h(" + list + "int)", "app::h(" + list + "char)"}));
  EXPECT_EQ(shown({"<T as core::fmt::Debug>::fmt", "<U as core::fmt::Debug>::fmt"}),
            (Names{"<T as Debug>::fmt", "<U as Debug>::fmt"}));
  EXPECT_EQ(shown({"app::f(int) [clone .cold]", "app::f(int)"}), (Names{"app::f(int) [clone .cold]", "app::f(int)"}));
  EXPECT_EQ(shown({"app::f(int)", "app::f(int)"}), (Names{"app::f", "app::f"})) << "one function of two objects";
}

TEST(ShortName, TakesAnyBytes) {
  for (const char* name :
       {"", "<", ">", "a<b", "f(", "operator<", "operator()()", "{lambda(", "a<b<c<d>", "::", "é<ü>"}) {
    EXPECT_LE(ShortName(name).size(), std::string(name).size() + 8) << name;
  }
  EXPECT_EQ(ShortName(std::string(200, '<')), std::string(200, '<'));
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "a<";
  deep += std::string(500, '>');
  EXPECT_FALSE(ShortName(deep).empty());
}

TEST(ForwardsByName, DependsOnTheEndOfTheName) {
  for (const char* name : {"zmalloc", "zmalloc_usable", "ztrymalloc_usable_internal", "g_malloc0_n", "xcalloc",
                           "CRYPTO_zalloc", "PyMem_RawMalloc", "sqlite3Malloc", "av_mallocz", "xstrdup", "palloc",
                           "_xrealloc", "app::Pool::malloc(unsigned long)", "ngx_palloc_large", "palloc_extended"}) {
    EXPECT_EQ(ForwardsByName(name), 2) << name;
  }
  for (const char* name : {"ngx_alloc", "MemoryContextAlloc", "MemoryContextAllocZero", "MemoryContextAllocExtended",
                           "app::Arena<int>::allocate(unsigned long)"}) {
    EXPECT_EQ(ForwardsByName(name), 1) << name;
  }
  for (const char* name : {"hsetCommand", "malloc_stats_print", "allocBlockTable", "AllocSetReset", "alloclarge",
                           "handle_realloc_request", "allocate_session", "", "allocator"}) {
    EXPECT_EQ(ForwardsByName(name), 0) << name;
  }
}

std::string OwnerOfFirst(const std::vector<Stack>& stacks, const std::vector<std::string>& patterns = {}) {
  const Profile p = testing::WithRecords(StackProfile(stacks));
  auto plumbing = Plumbing::Make(p, patterns);
  EXPECT_TRUE(plumbing.ok());
  return plumbing->OwnerName(p.FramesOf(p.samples[0]));
}

TEST(Plumbing, NamesTheFirstThatIsTheUsers) {
  EXPECT_EQ(OwnerOfFirst({{"main;hsetCommand;hashTypeSet;zmalloc;zmalloc_usable", 10}}), "hashTypeSet");
  EXPECT_EQ(
      OwnerOfFirst(
          {{"main;app::Load(int);std::vector<int, std::allocator<int> >::push_back(int&&);operator new(unsigned long)",
            10}}),
      "app::Load(int)");
  EXPECT_EQ(OwnerOfFirst({{"main;serve;__gthread_mutex_unlock(pthread_mutex_t*)", 10}}), "serve");
  EXPECT_EQ(OwnerOfFirst({{"_start;libc.so.6!__libc_start_main", 10}}), "__libc_start_main");
  EXPECT_EQ(OwnerOfFirst({{"main;pool_get;grow", 10}}, {"^(pool_get|grow)$"}), "main");
}

TEST(Plumbing, AnAllocatorOnlyForwardsWhereNothingElseIsBelowIt) {
  EXPECT_EQ(OwnerOfFirst({{"main;load;xmalloc", 10}, {"main;xmalloc;fill;strings", 10}}), "xmalloc");
  // Its only caller's own function, and not one: several share it.
  EXPECT_EQ(OwnerOfFirst({{"main;session_alloc", 10}, {"main;session_alloc", 10}}), "session_alloc");
  EXPECT_EQ(OwnerOfFirst({{"main;a;pool_alloc", 10}, {"main;b;pool_alloc", 10}}), "a");
  // The only caller is an allocator by its name, so the outer one is the owner.
  EXPECT_EQ(OwnerOfFirst({{"main;read;LocalBufferAlloc;MemoryContextAlloc;app!app!0x5c78fb", 10}, {"main;load", 10}}),
            "LocalBufferAlloc");
  EXPECT_EQ(OwnerOfFirst({{"main;read;frame_alloc;node_alloc", 10}, {"main;load;node_alloc", 10}}), "frame_alloc");
}

// A lambda of a std::thread that ends with `jmp serve` is not on the stack, and neither is serve, if it ends with
// `jmp pthread_mutex_unlock`.
TEST(Plumbing, AThreadsFunctionThatLeftTheStackIsNotItsLibrary) {
  EXPECT_EQ(OwnerOfFirst({{"libc.so.6!clone3;libc.so.6!start_thread;libstdc++.so.6!libstdc++.so.6!0xd44a2", 10}}),
            "[thread function]");
  EXPECT_EQ(OwnerOfFirst({{"libc.so.6!clone3;libc.so.6!start_thread", 10}}), "[thread function]");
  EXPECT_EQ(OwnerOfFirst({{"libc.so.6!clone3", 10}}), "clone3");
  EXPECT_NE(OwnerOfFirst({{"libstdc++.so.6!libstdc++.so.6!0xd44a2", 10}}), "[thread function]")
      << "a walk that broke off";
  EXPECT_EQ(OwnerOfFirst({{"libc.so.6!clone3;libc.so.6!start_thread;libc.so.6!__nptl_free_tcb", 10}}),
            "__nptl_free_tcb");
}

// Three callers, and more than nine tenths of all stacks: the name need not say so.
TEST(Plumbing, AWrapperOfNearlyAllStacksIsNeverTheAnswer) {
  const auto owner = [](const char* name) {
    const std::string funnel = std::string(";") + name;
    return OwnerOfFirst({{"main;serve;open" + funnel, 10},
                         {"main;serve;query" + funnel, 10},
                         {"main;serve;close" + funnel, 10},
                         {"main;serve;close;log" + funnel, 10}});
  };
  for (const char* name :
       {"my_malloc", "init_alloc_root", "palloc", "MemoryContextAlloc", "ngx_alloc", "zmalloc", "psi_mutex_lock",
        "PGSemaphoreLock", "LWLockAcquire", "get_chunk", "app::Store::take(int)"}) {
    EXPECT_EQ(owner(name), "open") << name;
  }
  // One after the other.
  EXPECT_EQ(owner("get_object;get_chunk"), "open");
  EXPECT_EQ(owner("alloc_root;my_malloc"), "open");
}

// Each stack has a main of its own, into which another function is inlined. The wrapper is in `with` of 400 stacks.
std::string OwnerAmongMany(int with) {
  std::vector<Stack> stacks;
  for (int i = 0; i < 400; ++i)
    stacks.push_back({"main;caller" + std::to_string(i % 7) + (i < with ? ";get_object" : ";other"), 10});
  Profile p = testing::WithRecords(StackProfile(stacks));
  for (size_t i = 0; i < p.samples.size(); ++i) {
    std::vector<uint32_t> frames(p.FramesOf(p.samples[i]).begin(), p.FramesOf(p.samples[i]).end());
    Profile::Location main = p.locations[frames.back()];
    const uint32_t function = p.LinesOf(main)[0].function, inlined = static_cast<uint32_t>(p.functions.size());
    p.functions.push_back({.name = p.strings.Intern("inlined" + std::to_string(i))});
    const Profile::Line lines[] = {{.function = inlined, .line = 1}, {.function = function, .line = 2}};
    p.SetLines(&main, lines);
    frames.back() = static_cast<uint32_t>(p.locations.size());
    p.locations.push_back(main);
    p.SetFrames(i, frames);
  }
  auto plumbing = Plumbing::Make(p, {});
  EXPECT_TRUE(plumbing.ok());
  return plumbing->OwnerName(p.FramesOf(p.samples[0]));
}

TEST(Plumbing, AWrapperIsFoundInMoreThanNineTenthsOfManyStacks) {
  EXPECT_EQ(OwnerAmongMany(361), "caller0");
  EXPECT_EQ(OwnerAmongMany(360), "get_object");
}

std::string OwnerOfMapping(const std::vector<Stack>& stacks) {
  Profile p = StackProfile(stacks);
  p.mutable_process()->kind = "map";
  auto plumbing = Plumbing::Make(p, {});
  EXPECT_TRUE(plumbing.ok());
  return plumbing->OwnerName(p.FramesOf(p.samples[0]));
}

// Of a server with the symbols that it exports: its allocator is static.
TEST(Plumbing, CodeWithoutANameBelowAnAllocatorIsPassedOver) {
  const std::string alloc = ";MemoryContextAlloc;app!app!0x5c785f";
  EXPECT_EQ(OwnerOfFirst(
                {{"main;serve;plan" + alloc, 10}, {"main;serve;parse" + alloc, 10}, {"main;serve;copy" + alloc, 10}}),
            "plan");
  // A static function of the allocator has several calls of malloc, and each stack shows another address of it.
  EXPECT_EQ(OwnerOfFirst({{"main;serve;plan;palloc;app!app!0x5c78fb", 10},
                          {"main;serve;parse;palloc;app!app!0x5c785f", 10},
                          {"main;serve;copy;palloc;app!app!0x5c785f", 10}}),
            "plan");
  // Without names there is nothing better to say.
  const std::string one = ";app!app!0x9";
  EXPECT_EQ(
      OwnerOfFirst({{"main;app!app!0x1" + one, 10}, {"main;app!app!0x2" + one, 10}, {"main;app!app!0x3" + one, 10}}),
      "app!0x9");
}

// What a program maps itself it hands out in parts: one stack for many of its callers.
TEST(Plumbing, APoolIsNeverTheAnswerForMappings) {
  const Stack log = {"main;log_event;slab_alloc(unsigned long);Slab::get(unsigned long)", 1 << 20};
  EXPECT_EQ(OwnerOfMapping({{"main;index_document;slab_alloc(unsigned long);Slab::get(unsigned long)", 1 << 20}, log}),
            "index_document");
  EXPECT_EQ(OwnerOfMapping({{"main;index_more;pool_chunk()", 1 << 20}, {"main;pool_chunk()", 1 << 20}}), "index_more");
  EXPECT_EQ(
      OwnerOfMapping({{"main;a;index;slab_alloc;get_pages", 1 << 20}, {"main;b;index;slab_alloc;get_pages", 1 << 20}}),
      "index")
      << "two callers, above a pool that is known by its name";
  // By shape alone.
  EXPECT_EQ(OwnerOfMapping({{"main;index;give;fresh", 1 << 20}, {"main;log;give;fresh", 1 << 20}}), "index");
  EXPECT_EQ(OwnerOfMapping({{"main;index;fresh", 1 << 20}, {"main;log;fresh", 1 << 20}}), "index");
  EXPECT_EQ(OwnerOfMapping({{"main;run;load;fresh", 1 << 20}}), "fresh") << "nothing tells them apart";
  EXPECT_EQ(OwnerOfMapping({{"main;index;fresh", 1 << 20}, {"main;log;fresh", 1 << 20}, {"main;load", 1 << 20}}),
            "fresh")
      << "load maps for itself, too";
  EXPECT_EQ(OwnerOfMapping({{"main;index;fresh", 1 << 20}, {"main;log;fresh", 1 << 20}, {"[glibc heap]", 1 << 20}}),
            "index");
  // It calls something else, too.
  EXPECT_EQ(OwnerOfMapping({{"main;index;pool_get", 1 << 20}, {"main;index;pool_get;read_all", 1 << 20}}), "pool_get");
  // The only function of a small program remains the answer.
  EXPECT_EQ(OwnerOfMapping({{"main;pool_get", 1 << 20}}), "pool_get");
}

// Its blocks are large, and of one size or of powers of two.
TEST(Plumbing, AnArenaOnMallocIsNotTheAnswerEither) {
  EXPECT_EQ(OwnerOfFirst({{"main;parse;Arena::push(int);Arena::more()", 65536}}), "parse");
  EXPECT_EQ(OwnerOfFirst({{"main;parse;new_chunk", 4080}}), "parse");
  EXPECT_EQ(OwnerOfFirst({{"main;open;init_alloc_root", 24576}}), "open");
  EXPECT_EQ(OwnerOfFirst({{"main;parse;AllocSetContextCreate", 8192}, {"main;parse;AllocSetContextCreate", 16384}}),
            "parse");
  // These may be anything.
  EXPECT_EQ(OwnerOfFirst({{"main;parse;Pool::add(int)", 48}}), "Pool::add(int)");
  EXPECT_EQ(OwnerOfFirst({{"main;serve;ThreadPool::start()", 65536}}), "ThreadPool::start()");
  EXPECT_EQ(OwnerOfFirst({{"main;serve;read_page", 65536}}), "read_page");
  EXPECT_EQ(OwnerOfFirst({{"main;parse;Arena::more()", 5000}, {"main;parse;Arena::more()", 7000}}), "Arena::more()");
  EXPECT_EQ(OwnerOfFirst({{"main;a;remember", 65536}, {"main;b;remember", 65536}}), "remember");
}

TEST(Plumbing, LockingFunctionsArePlumbingByName) {
  for (const char* name : {"psi_mutex_lock", "PGSemaphoreLock(PGSemaphoreData*)", "TTASEventMutex<P>::enter()",
                           "app::RwLock::rdlock()", "lf_rwlock_wrlock", "rw_pr_wrlock"}) {
    EXPECT_EQ(OwnerOfFirst({{std::string("main;flush;") + name, 10}}), "flush") << name;
  }
  for (const char* name : {"flush_locked_pages", "Block", "app::Table::Lock()", "unlock_account"})
    EXPECT_EQ(OwnerOfFirst({{std::string("main;flush;") + name, 10}}), name);
}

TEST(Plumbing, TheOnlyFunctionOfASmallProgramRemainsTheAnswer) {
  EXPECT_EQ(OwnerOfFirst({{"main;work", 10}, {"main;work", 20}, {"main;work", 30}}), "work");
  EXPECT_EQ(OwnerOfFirst({{"main;run;work", 10}, {"main;run;work", 20}}), "work");
  // Threads of a pool: what they start with is no caller.
  EXPECT_EQ(OwnerOfFirst({{"reader;push", 10}, {"writer;push", 10}, {"timer;push", 10}, {"main;push", 10}}), "push");
  EXPECT_EQ(OwnerOfFirst({{"main;init_table", 10}, {"main;a;init_table", 10}, {"main;b;init_table", 10}}),
            "init_table");
  // Two callers, and a part of the stacks.
  EXPECT_EQ(OwnerOfFirst({{"main;a;insert", 10}, {"main;b;insert", 10}}), "insert");
  EXPECT_EQ(OwnerOfFirst({{"main;a;insert", 10}, {"main;b;insert", 10}, {"main;c;insert", 10}, {"main;d;load", 10}}),
            "insert");
  // It calls something else, too.
  EXPECT_EQ(OwnerOfFirst({{"main;s;a;insert", 10}, {"main;s;b;insert", 10}, {"main;s;c;insert;grow", 10}}), "insert");
  EXPECT_EQ(OwnerOfFirst({{"main;alloc_session", 10}, {"main;accept;alloc_session", 10}}), "alloc_session");
}

TEST(Plumbing, AClassesOperatorNewAndAContainersAllocatorArePlumbing) {
  EXPECT_EQ(OwnerOfFirst({{"main;app::Load();app::Node::operator new(unsigned long)", 10}}), "app::Load()");
  EXPECT_EQ(OwnerOfFirst({{"main;app::Load();app::Node::operator delete[](void*)", 10}}), "app::Load()");
  EXPECT_EQ(OwnerOfFirst({{"main;app::Load();std::vector<int, app::Pool<int> >::push_back(int&&);"
                           "app::Pool<int>::allocate(unsigned long)",
                           10}}),
            "app::Load()");
  EXPECT_EQ(OwnerOfFirst({{"main;app::renew()", 10}}), "app::renew()");
}

// Addresses differ from run to run, and an interpreter's own functions are the same whatever the script does.
TEST(Plumbing, JitCodeAndInterpretersCountForWhatTheyRun) {
  EXPECT_EQ(OwnerOfFirst({{"main;app::Run();app![unknown]!0x7f1200001234;app![unknown]!0x7f1200005678", 10}}),
            "app::Run()");
  const char* python = "python3.11!main;python3.11!Py_RunMain;python3.11!_PyEval_EvalFrameDefault;";
  const auto below = [&](const char* rest) { return std::string(python) + rest; };
  EXPECT_EQ(OwnerOfFirst({{below("py::load:/srv/app.py;python3.11!PyList_New;python3.11!_PyObject_Malloc"), 10}}),
            "py::load:/srv/app.py");
  EXPECT_EQ(OwnerOfFirst({{below("_numpy.so!array_new;python3.11!PyList_New"), 10}}), "array_new");
  EXPECT_EQ(OwnerOfFirst({{below("python3.11!PyList_New;python3.11!_PyObject_Malloc"), 10}}), "PyList_New")
      << "nothing else is known";
}

// With a perf map the user's function is the leaf, also if the runtime allocates more for itself.
TEST(Plumbing, RuntimeFunctionsCountForTheirCallers) {
  // The owner of the first stack, beside stacks of the runtime alone.
  const auto owner = [](const std::string& object, std::string stack) {
    const std::string runtime = object + "!main;" + object;
    std::vector<Stack> stacks = {{runtime + "!Run;" + std::move(stack), 10}};
    for (const char* alone : {"!Init;", "!Load;", "!Compile;"})
      stacks.push_back({runtime + alone + object + "!Take", 10});
    return OwnerOfFirst(stacks);
  };
  EXPECT_EQ(
      owner("node", "JS:handle /srv/a.js:3:1;JS:cache /srv/a.js:2:1;JS:allocUnsafe node:buffer:414:50;node!Allocate"),
      "JS:cache /srv/a.js:2:1");
  EXPECT_EQ(owner("libjvm.so", "void A.cache(int);Interpreter;long jdk.internal.misc.Unsafe.allocateMemory0(long)"),
            "void A.cache(int)");
  EXPECT_EQ(owner("python3", "py::load:/srv/app.py;py::dumps:/usr/lib/python3.12/json/__init__.py;python3!PyList_New"),
            "py::load:/srv/app.py");
  EXPECT_EQ(owner("python3", "py::get:/usr/lib/python3/dist-packages/requests/api.py;python3!PyList_New"),
            "py::get:/usr/lib/python3/dist-packages/requests/api.py");
}

TEST(Plumbing, WorkInALibraryIsTheLibrarys) {
  const std::vector<Stack> stacks = {
      {"main;app!ffmpeg!0x2ad64;libavcodec.so.59!avcodec_send_frame;libx264.so.164!x264_encoder_encode;libx264.so.164!libx264.so.164!0x1234",
       10}};
  EXPECT_EQ(OwnerOfFirst(stacks), "x264_encoder_encode (libx264.so.164)");
  EXPECT_EQ(OwnerOfFirst({{"main;libx264.so.164!libx264.so.164!0x1234", 10}}), "libx264.so.164");
}

std::string Headline(const std::vector<Stack>& stacks, bool with_branches = true) {
  const auto profile = std::make_shared<const Profile>(testing::WithRecords(StackProfile(stacks)));
  Plumbing plumbing = Plumbing::Make(*profile, {}).value();
  const FilteredStacks built = FilteredStacks::Build(profile, {3}, {}).value();
  const auto biggest = Owners(built, {}, &plumbing).BiggestOf(FlatTable(built), with_branches);
  if (!biggest.has_value()) return "nobody";
  const std::string other = biggest->other.empty() ? "" : (biggest->is_branch ? ", by " : ", for ") + biggest->other;
  return biggest->name + " " + std::to_string(biggest->value) + other;
}

// C has no standard containers: next to the allocator lies the program's own string, which everything is made of.
TEST(Owners, TheBranchIsNamedInCNotItsStrings) {
  const std::vector<Stack> redis = {
      {"main;loop;read;process;call;hset;hashSet;sdsdup;_sdsnew;zmalloc", 43},
      {"main;loop;read;process;call;hset;hashSet;dictAdd;zmalloc", 7},
      {"main;loop;read;process;call;lpush;push;listInsert;zmalloc", 40},
      {"main;loop;read;process;call;set;dbAdd;sdsdup;_sdsnew;zmalloc", 4},
      {"main;loop;read;parse;makeString;_sdsnew;zmalloc", 31},
  };
  EXPECT_EQ(Headline(redis), "hset 50, by _sdsnew");
  EXPECT_EQ(Headline(redis, false), "_sdsnew 78, for process");
}

TEST(Owners, TheInnermostFunctionIsNamedInCxxNotItsContainers) {
  EXPECT_EQ(Headline({{"main;app::Serve();app::Login();app::Sessions::Add(int);std::vector<int>::push_back(int&&)", 60},
                      {"main;app::Serve();app::Logout();std::vector<int>::push_back(int&&)", 40}}),
            "app::Sessions::Add(int) 60, for app::Login()");
}

TEST(Owners, ASharedHelperIsNamedItself) {
  std::vector<Stack> stacks;
  for (const char* user : {"a", "b", "c", "d", "e", "f"}) {
    stacks.push_back({std::string("main;serve;") + user + ";cache_insert;malloc", 15});
  }
  stacks.push_back({"main;serve;other;malloc", 10});
  EXPECT_EQ(Headline(stacks), "cache_insert 90");
}

TEST(Owners, ACommonPathIsNotABranch) {
  EXPECT_EQ(Headline({{"main;run;work;malloc", 95}, {"main;init;malloc", 5}}), "work 95");
  // Each function calls only the next one, so nothing distinguishes them.
  EXPECT_EQ(Headline({{"worker;serve;parse;malloc", 60}, {"main;load;malloc", 40}}), "parse 60, for worker");
  EXPECT_EQ(Headline({{"main;walk;walk;grow;malloc", 60}, {"main;walk;malloc", 40}}), "grow 60");
}

TEST(Plumbing, FoldingChangesNoTotal) {
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    std::vector<Stack> stacks;
    const char* names[] = {"main",       "serve",
                           "zmalloc",    "std::vector<int>::push_back(int&&)",
                           "pool_alloc", "libabsl_x.so!absl::Mutex::Unlock()"};
    for (int k = 0; k < 30; ++k) {
      std::string frames = "main";
      for (unsigned d = random() % 6; d > 0; --d) frames += std::string(";") + names[random() % 6];
      stacks.push_back({frames, static_cast<int64_t>(random() % 1000)});
    }
    const auto profile = std::make_shared<const Profile>(StackProfile(stacks));
    const size_t inuse = 3;
    const auto plain = FilteredStacks::Build(profile, {inuse}, {});
    const auto folded = FilteredStacks::Build(profile, {inuse}, {.fold_plumbing = true});
    ASSERT_TRUE(plain.ok() && folded.ok());
    EXPECT_EQ(plain->Whole(0), folded->Whole(0));
    EXPECT_EQ(plain->Selected(0), folded->Selected(0));
  }
}

}  // namespace
}  // namespace holdfast::testing
