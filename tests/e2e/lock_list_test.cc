// `holdfast locks`: reads any comments, and prints the locks of a real program.
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "tests/support/profiled.h"
#include "tests/support/view_numbers.h"

namespace holdfast::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class LockList : public Profiled {};

TEST_F(LockList, NamesGlobalsAndBlocksHoldersAndWaiters) {
  const RunResult r = RunAs(Launch::kPreload, {"named_locks"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const RunResult table = RunTool({"locks", out()});
  ASSERT_TRUE(table.exited(0)) << table.Describe();
  std::vector<std::string> lines;
  for (size_t at = 0; at < table.out.size();) {
    const size_t end = table.out.find('\n', at);
    const std::string line = table.out.substr(at, end - at);
    if (!line.starts_with("note ") && !line.starts_with("total ")) lines.push_back(line);
    at = end + 1;
  }
  ASSERT_GE(lines.size(), 3u) << table.out;
  EXPECT_THAT(lines[0], HasSubstr("top holder"));
  EXPECT_THAT(lines[1], HasSubstr("queue_culprit"));
  EXPECT_THAT(lines[1], HasSubstr("queue_victim"));
  EXPECT_THAT(lines[1], HasSubstr("global_queue_mutex (named_locks)"));
  EXPECT_THAT(lines[2], HasSubstr("table_culprit"));
  EXPECT_THAT(lines[2], HasSubstr("table_victim"));
  EXPECT_THAT(lines[2],
              ContainsRegex("48 into a block of (88|96)B from make_table"));  // arm64's mutex has 8 bytes more

  const RunResult csv = RunTool({"locks", "--format", "csv", out()});
  EXPECT_THAT(
      csv.out,
      HasSubstr("kind,contentions,delay_ns,mean_ns,p50_ns,p90_ns,p99_ns,longest_ns,held_ns,held_p50_ns,held_p90_ns,"
                "held_p99_ns,held_longest_ns,top_holder,top_waiter,name"));
  EXPECT_THAT(csv.out, HasSubstr("\nmutex,3,"));
  EXPECT_THAT(csv.out, HasSubstr("\nmutex,2,"));
}

// One line for the mutexes of all connections and one for the array, however many there are; nothing is left out of the totals.
TEST_F(LockList, ALockInEachConnectionIsOneLine) {
  const RunResult r = RunAs(Launch::kRun, {"locks_of_connections"}, {{"heap-interval", "1"}, {"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  int64_t of_rows = 0, of_locks = 0;
  std::map<std::string, std::string> locks;
  for (const auto& row : ParseCsv(RunTool({"locks", "--format", "csv", "-n", "0", out()}).out)) {
    if (row.at("kind") != "mutex") continue;
    of_rows += NumberIn(row, "delay_ns");
    of_locks += NumberIn(row, "locks");
    locks[row.at("name").substr(0, row.at("name").find(", the hottest"))] = row.at("contentions");
  }
  EXPECT_THAT(locks, UnorderedElementsAre(
                         Pair(ContainsRegex("200 locks: 104 into blocks of (144|152)B from make_connection"), "200"),
                         Pair(AnyOf("100 locks: in blocks of 4.69KiB from make_shards",
                                    "100 locks: in blocks of 5.47KiB from make_shards"),
                              "100"),
                         Pair("80 locks: static_shards (locks_of_connections)", "80")));
  EXPECT_EQ(of_locks, 380);
  int64_t each = 0;
  for (const auto& row : ParseCsv(RunTool({"locks", "--each", "--format", "csv", "-n", "0", out()}).out))
    each += row.at("kind") == "mutex" ? NumberIn(row, "delay_ns") : 0;
  EXPECT_EQ(each, of_rows);
  int64_t waited = 0;
  const Decoded block = Newest(out(), "block").at(0);
  for (const DecodedSample& sample : block.samples)
    waited += sample.labels.at("wait") == "mutex" ? sample.values.at("delay") : 0;
  EXPECT_EQ(waited, of_rows);
}

// The same percentiles as by the program's own clock: in the same bucket or, near its edge, in the next. Each rank is one of the
// shorter of its group, as a busy machine makes some longer.
TEST_F(LockList, SaysHowLongWaitsAndHoldsWere) {
  for (const char* interval : {"1ns", "100us"}) {
    const std::string folder = out() + "/" + interval;
    const RunResult r = RunAndSettle(CommandFor(Launch::kRun, {"known_lengths", "85", "1", "13", "20", "2", "200"},
                                                {{"lock-interval", interval}, {"out", folder}}));
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    const RunResult table = RunTool({"locks", "--format", "csv", folder});
    ASSERT_TRUE(table.exited(0)) << table.Describe();
    std::istringstream csv(table.out);
    std::string titles, row;
    std::getline(csv, titles);
    std::getline(csv, row);
    std::map<std::string, double> measured;
    std::istringstream names(titles), values(row);
    for (std::string name, value; std::getline(names, name, ',') && std::getline(values, value, ',');) {
      measured[name] = std::atof(value.c_str());
    }
    EXPECT_EQ(measured["contentions"], 100) << table.out;
    std::istringstream known(r.out);
    for (std::string word, what; known >> word;) {
      if (word != "lengths") continue;
      known >> what;
      for (const std::string column : {"p50_ns", "p90_ns", "p99_ns", "longest_ns"}) {
        double ns = 0;
        known >> ns;
        const double found = measured[(what == "waits" ? "" : "held_") + column];
        EXPECT_NEAR(found / ns, 1, column == "longest_ns" ? 0.02 : 0.14)
            << interval << what << column << r.out << table.out;
      }
    }
    // The files say so, and each call site of it.
    const Decoded block = Newest(folder, "block").at(0), mutex = Newest(folder, "mutex").at(0);
    EXPECT_THAT(block.Comment("waited for locks").value_or(""), HasSubstr("longest 2"));
    EXPECT_THAT(mutex.Comment("held").value_or(""), HasSubstr("longest 2"));
    double waits = 0, holds = 0;
    for (const std::string& record : block.records) {
      if (!record.starts_with("lock site ")) continue;
      std::istringstream counts(record.substr(record.find("longest_ns ")));
      double& sum = record.find(" wait_times: ") != std::string::npos ? waits : holds;
      for (std::string count; counts >> count;) {
        if (const size_t colon = count.find(':'); colon != std::string::npos) sum += std::atof(&count[colon + 1]);
      }
    }
    EXPECT_NEAR(waits, 100, 1) << "waits of milliseconds are all sampled: 1 − exp(−10)";
    EXPECT_NEAR(holds, 100, 1);
  }
}

TEST_F(LockList, OtherToolsPrintAtMostTwentyCommentsAndPassOverTheRecords) {
  const RunResult r = RunAs(Launch::kPreload, {"known_lengths", "20", "1"});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  for (const char* kind : {"mutex", "block", "heap"}) {
    for (const Decoded& file : Newest(out(), kind)) {
      EXPECT_EQ(file.error, "");
      EXPECT_LE(file.comments.size(), 20u) << file.Summary();
      EXPECT_EQ(file.records.empty(), false) << kind;
      const RunResult top = RunGoPprof({"-top", file.path});
      ASSERT_TRUE(top.exited(0)) << top.Describe();
      const std::string above = top.out.substr(0, top.out.find("\nType: "));
      EXPECT_LE(std::count(above.begin(), above.end(), '\n'), 20 + 1) << above;  // and "File:", "Build ID:"
      EXPECT_EQ(above.find("\nlock "), std::string::npos) << above;
      // What goes through it keeps its samples and comments, and loses the records.
      const std::string through = folder() + "/through." + kind + ".pb.gz";
      ASSERT_TRUE(RunGoPprof({"-proto", "-output", through, file.path}).exited(0));
      const Decoded again = Decode(through);
      EXPECT_EQ(again.Total(), file.Total());
      EXPECT_EQ(again.Comment("process"), file.Comment("process"));
      EXPECT_TRUE(again.records.empty());
    }
  }
}

TEST_F(LockList, EventsComeLast) {
  const RunResult r = RunAs(Launch::kPreload, {"condition_parts"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string table = RunTool({"locks", out()}).out;
  EXPECT_LT(table.find("\nmutex "), table.find("\ncondition ")) << table;
  EXPECT_NE(table.find("\ncondition "), std::string::npos) << table;
}

TEST_F(LockList, EachSideNamesTheOther) {
  const RunResult r = RunAs(Launch::kPreload, {"named_locks"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  for (const char* kind : {"mutex", "block"}) {
    const std::vector<Decoded> newest = Newest(out(), kind);
    ASSERT_EQ(newest.size(), 1u);
    const RunResult waiters = RunTool({"locks", "--holder", "^queue_culprit$", newest[0].path});
    EXPECT_THAT(waiters.out, HasSubstr("queue_victim")) << waiters.Describe();
    EXPECT_THAT(waiters.out, Not(HasSubstr("table_victim")));
    const RunResult holders = RunTool({"locks", "--waiter", "^table_victim$", newest[0].path});
    EXPECT_THAT(holders.out, HasSubstr("table_culprit")) << holders.Describe();
    EXPECT_THAT(holders.out, Not(HasSubstr("queue_culprit")));
    const RunResult nobody = RunTool({"locks", "--holder", "^no_such_function$", newest[0].path});
    EXPECT_TRUE(nobody.exited(3)) << nobody.Describe();
    EXPECT_THAT(nobody.err, HasSubstr("no holder of a lock matches"));
  }
}

TEST_F(LockList, SamplesAreKeptApartByLockOnlyIfAskedFor) {
  for (const char* label : {"no", "yes"}) {
    const std::string folder = out() + "/" + label;
    const RunResult r = RunAndSettle(
        CommandFor(Launch::kRun, {"named_locks"}, {{"lock-interval", "1ns"}, {"lock-label", label}, {"out", folder}}));
    ASSERT_TRUE(r.exited(0)) << r.Describe();
    for (const char* kind : {"mutex", "block"}) {
      std::map<std::string, std::string> addresses;  // by function
      const std::vector<Decoded> newest = Newest(folder, kind);
      ASSERT_EQ(newest.size(), 1u);
      for (const DecodedSample& sample : newest[0].samples) {
        const auto found = sample.labels.find("lock_address");
        for (const char* function : {"queue_victim", "queue_culprit", "table_victim", "table_culprit"}) {
          if (sample.LeafIs(function)) addresses[function] = found == sample.labels.end() ? "" : found->second;
        }
      }
      ASSERT_EQ(addresses.size(), 2u) << kind;
      const std::string first = addresses.begin()->second, second = addresses.rbegin()->second;
      if (label == std::string("no")) {
        EXPECT_EQ(first + second, "");
      } else {
        EXPECT_EQ(first.substr(0, 2), "0x");
        EXPECT_NE(first, second);
      }
    }
  }
}

// A field may be in quotes, as it holds a comma.
std::vector<std::string> CsvFields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

const char* const kMembers[] = {"bank::lone_mutex (",
                                "bank::server.name_mutex_ (",
                                "bank::server.accounts_mutex_ (",
                                "bank::server.accounts_[3].mutex (",
                                "bank::server.grid_[1][2].mutex (",
                                "bank::server.audit_.log (",
                                "bank::Server::defaults_.mutex (",
                                "bank::Fallback::fallback.mutex ("};

TEST_F(LockList, NamesMembersByTheDebugInformation) {
  const RunResult r = RunAs(Launch::kPreload, {"lock_members"}, {{"lock-interval", "1ns"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string table = RunTool({"locks", "--wide", out()}).out;
  for (const char* member : kMembers) EXPECT_THAT(table, HasSubstr(member));
  EXPECT_THAT(table, Not(HasSubstr("_M_mutex")));
}

TEST_F(LockList, NamesMembersOfBlocksByTheClassThatAFunctionNames) {
  const RunResult r = RunAs(Launch::kPreload, {"block_members"}, {{"lock-interval", "1ns"}, {"heap-interval", "1"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const std::string table = RunTool({"locks", "--wide", "--each", out()}).out;
  EXPECT_THAT(table, HasSubstr("bank::Vault::safes_[2].mutex (block_members) in a block from "));
  const std::string session = "bank::Session::state_mutex_ (block_members) in a block from ";
  const size_t first = table.find(session);
  ASSERT_NE(first, std::string::npos) << table;
  EXPECT_NE(table.find(session, first + 1), std::string::npos)
      << "made alone, and with a shared pointer's counts: " << table;
  EXPECT_THAT(table, Not(HasSubstr("Unrelated")));
}

TEST_F(LockList, NamesMembersOfStrippedProgramsOnceTheyAreSymbolized) {
  const std::string program = folder() + "/lock_members", debug = folder() + "/debug";
  mkdir(debug.c_str(), 0755);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"objcopy", "--only-keep-debug", ProgramPath("lock_members"),
                                 debug + "/other-name.debug"},
        std::vector<std::string>{"objcopy", "--strip-all", ProgramPath("lock_members"), program}}) {
    const RunResult done = Execute({.argv = command});
    if (!done.exited(0)) GTEST_SKIP() << "needs binutils";
  }
  // From run to run the same, though the program lies elsewhere each time.
  std::vector<std::string> names[2];
  std::string profile;
  for (auto& of_run : names) {
    const std::string to = out() + "/" + std::to_string(&of_run - names);
    ASSERT_TRUE(RunAs(Launch::kRun, {program}, {{"lock-interval", "1ns"}, {"out", to}}).exited(0));
    profile = Newest(to, "mutex").at(0).path;
    const std::string csv = RunTool({"locks", "--each", "--format", "csv", profile}).out;
    std::istringstream lines(csv);
    const auto fields = [&] {
      std::vector<std::string> found;
      std::string line, field;
      std::getline(lines, line);
      for (std::istringstream words(line); std::getline(words, field, ',');) found.push_back(field);
      return found;
    };
    const std::vector<std::string> titles = fields();
    const auto name = std::find(titles.begin(), titles.end(), "name") - titles.begin();
    for (std::vector<std::string> row = fields(); row.size() > static_cast<size_t>(name); row = fields()) {
      of_run.push_back(row[static_cast<size_t>(name)]);
      EXPECT_THAT(of_run.back(), HasSubstr("lock_members!0x"));
    }
    std::sort(of_run.begin(), of_run.end());
  }
  EXPECT_EQ(names[0].size(), std::size(kMembers)) << RunTool({"locks", profile}).out;
  EXPECT_EQ(names[0], names[1]);
  const std::string symbolized = folder() + "/symbolized.pb.gz";
  const RunResult done = RunTool({"symbolize", "--debug-dir", debug, "-o", symbolized, profile});
  ASSERT_TRUE(done.exited(0)) << done.Describe();
  const std::string table = RunTool({"locks", "--wide", symbolized}).out;
  for (const char* member : kMembers) EXPECT_THAT(table, HasSubstr(member));
}

TEST_F(LockList, LocksOfOneArrayAreOneLineUnlessEachIsWanted) {
  const RunResult r = RunAs(Launch::kPreload, {"lock_per_session"}, {{"lock-interval", "1ns"}, {"heap-interval", "0"}});
  ASSERT_TRUE(r.exited(0)) << r.Describe();
  const auto column = [this](const std::vector<std::string>& options, const std::string& title) {
    std::vector<std::string> arguments = {"locks", "--format", "csv", out()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    std::istringstream csv(RunTool(arguments).out);
    std::vector<std::string> found;
    size_t place = 0;
    for (std::string line; std::getline(csv, line);) {
      const std::vector<std::string> fields = CsvFields(line);
      if (found.empty()) place = static_cast<size_t>(std::find(fields.begin(), fields.end(), title) - fields.begin());
      found.push_back(place < fields.size() ? fields[place] : "");
    }
    found.erase(found.begin());
    return found;
  };
  const auto sum = [](const std::vector<std::string>& numbers) {
    int64_t all = 0;
    for (const std::string& number : numbers) all += std::stoll(number);
    return all;
  };
  EXPECT_EQ(column({"--each"}, "name").size(), 4u);
  EXPECT_EQ(column({}, "locks"), std::vector<std::string>{"4"});
  for (const char* total : {"contentions", "delay_ns", "held_ns"})
    EXPECT_EQ(column({}, total).at(0), std::to_string(sum(column({"--each"}, total)))) << total;
  const RunResult table = RunTool({"locks", "--wide", out()});
  EXPECT_THAT(table.out, HasSubstr("4 locks: "));
  EXPECT_THAT(table.out, HasSubstr(", the hottest "));
  EXPECT_THAT(table.out, HasSubstr("uncontended acquisitions are not counted"));
}

TEST_F(LockList, SaysThatNoThreadWaited) {
  RunAs(Launch::kPreload, {"edge_sizes"}, {{"heap-interval", "1"}});
  const RunResult none = RunTool({"locks", out()});
  EXPECT_TRUE(none.exited(0)) << none.Describe();
  EXPECT_THAT(none.out, HasSubstr("no thread waited for a lock"));
}

TEST_F(LockList, SaysThatThreadsWaitedInOpenMP) {
  if (access(ProgramPath("openmp_waits").c_str(), X_OK) != 0) GTEST_SKIP() << "needs OpenMP";
  Command command = CommandFor(Launch::kPreload, {"openmp_waits"}, {{"heap-interval", "1"}});
  command.env["OMP_WAIT_POLICY"] = "passive";
  ASSERT_TRUE(RunAndSettle(command).exited(0));
  const RunResult locks = RunTool({"locks", out()});
  EXPECT_TRUE(locks.exited(0)) << locks.Describe();
  EXPECT_THAT(locks.out, HasSubstr("2 in OpenMP"));
}

TEST_F(LockList, SaysIfOtherWaitsWereSoughtInPartOfTheThreads) {
  if (access(ProgramPath("openmp_waits").c_str(), X_OK) != 0) GTEST_SKIP() << "needs OpenMP";
  Command command = CommandFor(Launch::kPreload, {"openmp_waits", "80"}, {{"heap-interval", "1"}});
  command.env["OMP_WAIT_POLICY"] = "passive";
  ASSERT_TRUE(RunAndSettle(command).exited(0));
  EXPECT_THAT(RunTool({"locks", out()}).out, HasSubstr("63 in OpenMP (of the 64 threads that were looked at; 80 run)"));
}

TEST_F(LockList, SaysWhatIsWrong) {
  RunAs(Launch::kPreload, {"edge_sizes"}, {{"heap-interval", "1"}});
  const RunResult heap = RunTool({"locks", NewestHeap().at(0).path});
  EXPECT_TRUE(heap.exited(3)) << heap.Describe();
  EXPECT_THAT(heap.err, HasSubstr("contains no locks. Give a mutex or block profile written by holdfast."));
  const RunResult both = RunTool({"locks", "--holder", "a", "--waiter", "b", out()});
  EXPECT_TRUE(both.exited(2)) << both.Describe();
  const RunResult bad = RunTool({"locks", "--holder", "(", out()});
  EXPECT_TRUE(bad.exited(2)) << bad.Describe();
  EXPECT_THAT(bad.err, HasSubstr("--holder"));
}

}  // namespace
}  // namespace holdfast::testing
