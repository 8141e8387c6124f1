#include "report/analysis/profiles/plumbing.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fmt/format.h"
#include "report/analysis/profiles/frame_origin.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/base_name.h"
#include "report/base/holdfast_library.h"
#include "report/base/libc_names.h"
#include "report/profile/profile_kind.h"

namespace holdfast {
namespace {

constexpr std::array<std::string_view, 9> kObjects = {
    "libabsl_", "libboost_", "libfolly", "libglib-2.0", "libgobject-2.0", "libtbb", "libstdc++", "libc++", "libstd-"};

// Parts of the path of a source file.
constexpr std::array<std::string_view, 9> kFiles = {"/include/c++/",  "/c++/v1/",        "/rustc/",
                                                    "/library/std/",  "/library/core/",  "/library/alloc/",
                                                    "/include/absl/", "/include/boost/", "/include/folly/"};

// Outermost namespaces and crates. IsRustsPath tells Rust's core and alloc from C++ namespaces.
constexpr std::array<std::string_view, 21> kPackages = {"std",
                                                        "__gnu_cxx",
                                                        "__cxxabiv1",
                                                        "absl",
                                                        "boost",
                                                        "folly",
                                                        "tbb",
                                                        "parking_lot",
                                                        "lock_api",
                                                        "hashbrown",
                                                        "parking_lot_core",
                                                        "once_cell",
                                                        "__rustc",
                                                        "tokio",
                                                        "mio",
                                                        "rayon",
                                                        "futures_executor",
                                                        "rayon_core",
                                                        "smallvec",
                                                        "futures_util",
                                                        "crossbeam_epoch"};

// Prefixes of names, or whole names.
constexpr std::array<std::string_view, 39> kNames = {"pthread_",
                                                     "__pthread_",
                                                     "__gthread_",
                                                     "__gthrw_",
                                                     "mtx_",
                                                     "cnd_",
                                                     "sem_",
                                                     "g_mutex_",
                                                     "g_rec_mutex_",
                                                     "g_rw_lock_",
                                                     "g_cond_",
                                                     "g_malloc",
                                                     "g_realloc",
                                                     "g_try_",
                                                     "g_slice_",
                                                     "PyThread_",
                                                     "PyMem_",
                                                     "_PyMem_",
                                                     "PyObject_Malloc",
                                                     "PyObject_Calloc",
                                                     "PyObject_Realloc",
                                                     "_PyObject_Malloc",
                                                     "_PyObject_GC_",
                                                     "PyType_GenericAlloc",
                                                     "take_gil",
                                                     "drop_gil",
                                                     "uv_mutex_",
                                                     "uv_rwlock_",
                                                     "uv_cond_",
                                                     "inline_mysql_mutex_",
                                                     "inline_mysql_rwlock_",
                                                     "inline_mysql_cond_",
                                                     "__rust_",
                                                     "__rg_",
                                                     "__rdl_",
                                                     "operator_new_",   // libc++
                                                     "holdfast_alloc",  // include/holdfast.h, inline
                                                     "holdfast_free",
                                                     "holdfast_lock_"};

template <typename List>
bool AnyStarts(const List& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view start) {
    return !text.empty() && text[0] == start[0] && text.starts_with(start);
  });
}

// Returns the last part of a qualified name: "push_back" of "void std::vector<int>::push_back(int&&) const", "f" of
// "f(int) [clone .part.0]".
std::string_view LastName(std::string_view function) {
  int depth = 0;
  size_t begin = 0, end = function.size();
  for (size_t i = 0; i < function.size(); ++i) {
    const char c = function[i];
    if (c == '<') ++depth;
    if (c == '>' && depth > 0) --depth;
    if (depth > 0) continue;
    if (c == ' ' || c == ':' || c == '>') begin = i + 1;
    if (c == '(' || c == '[') {
      end = i;
      break;
    }
  }
  std::string_view name = function.substr(begin, end - begin);
  return name.substr(0, std::min(name.find_first_of("<.@"), name.size()));
}

bool EndsWithAnyCase(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         std::equal(end.begin(), end.end(), text.end() - static_cast<ptrdiff_t>(end.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

// Removes words about the manner of allocation from the end of a name: zmalloc_usable, g_malloc0_n, PyMem_RawMalloc,
// MemoryContextAllocZero.
std::string_view WithoutManner(std::string_view name) {
  constexpr std::array<std::string_view, 28> kManners = {
      "usable",   "internal", "impl",   "array",   "aligned", "align", "zero",  "zeroed",  "debug", "default",
      "extended", "huge",     "ex",     "large",   "small",   "block", "sized", "nothrow", "fast",  "safe",
      "try",      "nofail",   "or_die", "or_fail", "fatal",   "hook",  "n",     "z"};
  while (true) {
    const size_t before = name.size();
    while (!name.empty() && (std::isdigit(static_cast<unsigned char>(name.back())) || name.back() == '_')) {
      name.remove_suffix(1);
    }
    for (const std::string_view manner : kManners) {
      if (name.size() <= manner.size() || !EndsWithAnyCase(name, manner)) continue;
      const size_t begin = name.size() - manner.size();
      const bool own_word = name[begin - 1] == '_' || (std::isupper(static_cast<unsigned char>(name[begin])) != 0 &&
                                                       std::islower(static_cast<unsigned char>(name[begin - 1])) != 0);
      const bool one_letter = manner.size() == 1 && name.substr(0, begin).ends_with("alloc");
      if (own_word || one_letter) name.remove_suffix(manner.size());
    }
    if (name.size() == before) return name;
  }
}

// Code that belongs to no file and no perf map.
constexpr std::string_view kJitCode = "[unknown]!0x";

// "app::Widget::operator new(unsigned long)", "app::Widget::operator delete[]".
bool IsOperatorNew(std::string_view function) {
  for (const std::string_view name : {"::operator new", "::operator delete"}) {
    const size_t at = function.find(name);
    if (at == std::string_view::npos) continue;
    std::string_view rest = function.substr(at + name.size());
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    if (rest.starts_with("[]")) rest.remove_prefix(2);
    const size_t close = rest.starts_with('(') ? rest.find(')') : std::string_view::npos;
    // A name that continues after the parameters is another function's: operator new(unsigned long)::{lambda()#1}.
    if (rest.empty() || (close != std::string_view::npos && !rest.substr(close + 1).starts_with("::"))) return true;
  }
  return false;
}

// Returns the words of a name and of its class in small letters: "app::PGSemaphoreLock(int)" is pgsemaphore, lock.
std::vector<std::string> WordsOf(std::string_view function) {
  std::vector<std::string> words;
  std::string word;
  int depth = 0;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, ""));
  };
  const std::string name = NameWithoutParameters(function);
  char before = 0;
  for (const char c : name) {
    if (c == '<' || c == '{') ++depth;
    if ((c == '>' || c == '}') && depth > 0) --depth;
    if (depth > 0) continue;
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalpha(byte) == 0) {
      end_word();
    } else {
      if (std::isupper(byte) != 0 && std::islower(static_cast<unsigned char>(before)) != 0) end_word();
      word += static_cast<char>(std::tolower(byte));
    }
    before = c;
  }
  end_word();
  return words;
}

template <typename List>
bool EndsWithAny(std::string_view word, const List& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return word.ends_with(end); });
}

// Returns the word that indicates a pool: one that has no other meaning, or a word for a piece of memory beside a verb
// for getting it. Returns "" if there is none, or if the pool holds something other than memory.
std::string_view PoolWordOf(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 12> kPools = {"pool",     "pools",      "slab",    "slabs",
                                                       "arena",    "arenas",     "mmap",    "bump",
                                                       "freelist", "superblock", "obstack", "allocator"};
  constexpr std::array<std::string_view, 13> kPieces = {"chunk",  "chunks", "page",   "pages",  "block",
                                                        "blocks", "region", "zone",   "extent", "memory",
                                                        "mem",    "heap",   "segment"};
  constexpr std::array<std::string_view, 14> kVerbs = {"get",     "new",  "take",    "grab",   "obtain",
                                                       "reserve", "grow", "request", "refill", "acquire",
                                                       "carve",   "more", "extend",  "expand"};
  constexpr std::array<std::string_view, 9> kOthers = {"thread",  "threads", "worker", "connection", "conn",
                                                       "session", "task",    "job",    "process"};
  const auto is_in = [](const auto& list) {
    return [&list](const std::string& word) { return std::find(list.begin(), list.end(), word) != list.end(); };
  };
  if (std::any_of(words.begin(), words.end(), is_in(kOthers))) return {};
  if (const auto pool = std::find_if(words.begin(), words.end(),
                                     [&](const std::string& word) {
                                       return is_in(kPools)(word) || word.ends_with("pool") ||
                                              word.ends_with("arena") || word.ends_with("slab");
                                     });
      pool != words.end())
    return *pool;
  const auto piece = std::find_if(words.begin(), words.end(), is_in(kPieces));
  return piece != words.end() && std::any_of(words.begin(), words.end(), is_in(kVerbs)) ? std::string_view(*piece)
                                                                                        : std::string_view();
}

bool IsPackage(std::string_view path) {
  const std::string package = PackageOf(path, "", "");
  return IsRustsPath(path) || std::find(kPackages.begin(), kPackages.end(), package) != kPackages.end();
}

// For Rust names: "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop" and "<[T] as alloc::slice::Concat>::concat"
// belong to alloc, "<app::Tree as core::ops::drop::Drop>::drop" to the program.
bool IsOfPackage(std::string_view function) {
  if (!function.starts_with('<')) {
    const std::string package = PackageOf(function, "", "");
    return std::find(kPackages.begin(), kPackages.end(), package) != kPackages.end();
  }
  std::string_view type = function.substr(1);
  while (AnyStarts(std::array<std::string_view, 3>{"&", "mut ", "dyn "}, type)) {
    type.remove_prefix(type.starts_with('&') ? 1 : 4);
  }
  const size_t as = function.find(" as ");
  const std::string_view implemented = type.substr(0, type.find(" as "));
  const bool is_unnamed = PackageOf(implemented, "", "") == "?" && as != std::string_view::npos;
  return IsPackage(is_unnamed ? function.substr(as + 4) : implemented);
}

}  // namespace

bool IsPlumbing(std::string_view function, std::string_view file, std::string_view object) {
  if (IsSystemFrame(function, object) || AnyStarts(kObjects, BaseName(object)) || !AllocatorOfFile(object).empty() ||
      IsHoldfastLibrary(object))
    return true;
  if (function.starts_with(kJitCode) || IsOperatorNew(function)) return true;
  if (std::any_of(kFiles.begin(), kFiles.end(),
                  [&](std::string_view part) { return file.find(part) != std::string_view::npos; })) {
    return true;
  }
  if (AnyStarts(kNames, function)) return true;
  if (function.find("::") == std::string_view::npos) return false;
  return IsOfPackage(function);
}

bool IsNameless(std::string_view name) {
  const size_t mark = name.rfind("!0x");
  return name.empty() || (mark != std::string_view::npos &&
                          name.find_first_not_of("0123456789abcdef", mark + 3) == std::string_view::npos);
}

int ForwardsByName(std::string_view function) {
  constexpr std::array<std::string_view, 9> kSure = {"malloc", "calloc",  "realloc", "zalloc", "memalign",
                                                     "strdup", "strndup", "memdup",  "palloc"};
  const std::string_view name = WithoutManner(LastName(function));
  if (std::any_of(kSure.begin(), kSure.end(), [&](std::string_view end) { return EndsWithAnyCase(name, end); })) {
    return 2;
  }
  return EndsWithAnyCase(name, "alloc") || EndsWithAnyCase(name, "allocate") ? 1 : 0;
}

FunnelHint FunnelHintOf(std::string_view function) {
  constexpr std::array<std::string_view, 8> kLocks = {"mutex",  "rwlock", "spinlock", "semaphore",
                                                      "lwlock", "latch",  "futex",    "cond"};
  constexpr std::array<std::string_view, 14> kActs = {"lock",    "unlock",  "trylock",   "rdlock",   "wrlock",
                                                      "acquire", "release", "enter",     "exit",     "wait",
                                                      "signal",  "post",    "broadcast", "timedlock"};
  constexpr std::array<std::string_view, 12> kWords = {"alloc",     "malloc", "calloc", "realloc",
                                                       "allocate",  "mutex",  "rwlock", "latch",
                                                       "semaphore", "lock",   "unlock", "acquire"};
  switch (ForwardsByName(function)) {
    case 2:
      return FunnelHint::kSure;
    case 1:
      return FunnelHint::kAlloc;
    default:
      break;
  }
  const std::vector<std::string> words = WordsOf(function);
  if (words.empty()) return FunnelHint::kNone;
  constexpr std::array<std::string_view, 2> kReadersAndWriters = {"rdlock", "wrlock"};
  if (EndsWithAny(words.back(), kReadersAndWriters)) return FunnelHint::kSure;
  if (EndsWithAny(words.back(), kActs) && std::any_of(words.begin(), words.end() - 1, [&](const std::string& word) {
        return EndsWithAny(word, kLocks) || (word == "lock" && words.back() != "wait");
      }))
    return FunnelHint::kSure;
  const bool has_word =
      std::any_of(words.begin(), words.end(), [&](const std::string& word) { return EndsWithAny(word, kWords); });
  return has_word ? FunnelHint::kWord : !PoolWordOf(words).empty() ? FunnelHint::kPool : FunnelHint::kNone;
}

namespace {

// Whether a function in a perf map belongs to the runtime: node's and Python's own modules, packages of the JDK.
bool IsOfRuntime(std::string_view function) {
  if (function.starts_with("JS:") || function.starts_with("LazyCompile:") || function.starts_with("Function:"))
    return function.find(" node:") != std::string_view::npos;
  if (function.starts_with("py::")) {
    return function.find(":<frozen ") != std::string_view::npos ||
           (function.find("/lib/python") != std::string_view::npos &&
            function.find("-packages/") == std::string_view::npos);
  }
  // "long jdk.internal.misc.Unsafe.allocateMemory0(long)"
  constexpr std::array<std::string_view, 5> kPackages = {"java.", "javax.", "jdk.", "sun.", "com.sun."};
  const size_t type = function.find(' ');
  return type != std::string_view::npos && function.ends_with(')') && AnyStarts(kPackages, function.substr(type + 1));
}

}  // namespace

bool IsInterpreter(std::string_view function, std::string_view object) {
  constexpr std::array<std::string_view, 13> kInterpreters = {
      "libpython", "python2",    "python3",   "libjvm.so", "libruby", "libperl.so", "libnode.so",
      "libmono",   "libcoreclr", "libclrjit", "libmozjs",  "liblua",  "libphp"};
  constexpr std::array<std::string_view, 6> kPrograms = {"python", "node", "nodejs", "ruby", "perl", "java"};
  // Entries of perf maps that are no functions of the user.
  constexpr std::array<std::string_view, 9> kStubs = {"Builtin:",  "Builtins_",    "BytecodeHandler:",
                                                      "Stub:",     "RegExp:",      "Interpreter",
                                                      "call_stub", "StubRoutines", "v8::internal::"};
  const std::string_view name = BaseName(object);
  return AnyStarts(kInterpreters, name) || std::find(kPrograms.begin(), kPrograms.end(), name) != kPrograms.end() ||
         AnyStarts(kStubs, function) || IsOfRuntime(function);
}

namespace {

constexpr uint32_t kUnnamed = Profile::kNone - 1;  // as a caller

bool IsDistinctive(FunnelHint hint) { return hint >= FunnelHint::kWord; }

}  // namespace

// A function that may only forward. All functions of one name share the entry of the first.
struct Plumbing::Funnel {
  FunnelHint hint = FunnelHint::kNone;
  bool is_candidate = false;
  bool is_nameless = false;  // unnamed code: only its named callers count
  // The state of one round.
  bool is_refuted = false, is_containers = false;
  bool is_above_distinctive = false;  // above a funnel by its name
  bool has_other_caller = false;      // one that is no funnel with an allocator's name
  bool has_unlike_caller = false;     // one without an allocator's name
  size_t stacks = 0, from_start = 0;
  // The first few of each: callers in the middle of the program, and functions that a thread starts with.
  std::array<uint32_t, 3> callers = {Profile::kNone, Profile::kNone, Profile::kNone};
  std::array<uint32_t, 2> starts = {Profile::kNone, Profile::kNone};

  template <size_t N>
  static void Add(uint32_t function, std::array<uint32_t, N>* list) {
    const auto place = std::find_if(list->begin(), list->end(),
                                    [&](uint32_t known) { return known == function || known == Profile::kNone; });
    if (place != list->end()) *place = function;
  }
  template <size_t N>
  static size_t Count(const std::array<uint32_t, N>& list) {
    return static_cast<size_t>(std::find(list.begin(), list.end(), Profile::kNone) - list.begin());
  }
  void AddCaller(uint32_t function, bool is_start) {
    ++stacks;
    from_start += is_start ? 1 : 0;
    if (is_start) {
      Add(function, &starts);
    } else {
      Add(function, &callers);
    }
  }
  // `all`: the number of stacks that contain a function of the program.
  bool Stays(size_t all) const {
    if (is_refuted) return false;
    if (is_nameless && stacks > 0 && !has_other_caller) return true;  // a static function of an allocator
    switch (hint) {
      case FunnelHint::kSure:
        return true;
      case FunnelHint::kAlloc:
        return is_containers || Count(callers) + Count(starts) >= 2 || (stacks > 0 && !has_unlike_caller);
      case FunnelHint::kWord:
        return Count(callers) >= 3;
      default:
        return Count(callers) >= 3 && 10 * stacks > 9 * all && 10 * from_start <= stacks && !is_above_distinctive;
    }
  }
};

absl::StatusOr<Plumbing> Plumbing::Make(const Profile& profile, const std::vector<std::string>& patterns) {
  Plumbing made(profile);
  for (const std::string& text : patterns) {
    auto pattern = Pattern::Compile("--plumbing", text);
    if (!pattern.ok()) return pattern.status();
    if (!pattern->empty()) made.patterns_.push_back(*std::move(pattern));
  }
  made.by_function_.assign(profile.functions.size(), -1);
  made.by_object_.assign(profile.mappings.size() + 1, -1);
  made.is_funnel_.assign(profile.functions.size(), false);
  made.hints_.assign(profile.functions.size(), FunnelHint::kNone);
  made.interpreter_function_.assign(profile.functions.size(), -1);
  made.interpreter_object_.assign(profile.mappings.size() + 1, -1);
  made.NumberNames();
  made.ReadCalls();
  const Starts starts = made.FindStarts();
  made.FindFunnels(starts);
  if (IsMemoryKind(ProfileKindOf(profile))) made.FindPools(starts);
  made.FindInterpreters();
  return made;
}

absl::StatusOr<std::shared_ptr<Plumbing>> PlumbingOf(const ProfileFile& file,
                                                     const std::vector<std::string>& patterns) {
  if (file.plumbing == nullptr) {
    auto made = Plumbing::Make(*file.profile, patterns);
    if (!made.ok()) return made.status();
    file.plumbing = std::make_shared<Plumbing>(*std::move(made));
  }
  return file.plumbing;
}

std::string_view Plumbing::ObjectOf(uint32_t mapping) const {
  return mapping == Profile::kNone ? std::string_view() : profile_.strings[profile_.mappings[mapping].file];
}

bool Plumbing::HoldsObject(uint32_t mapping) {
  int8_t& answer = by_object_[mapping == Profile::kNone ? profile_.mappings.size() : mapping];
  if (answer < 0) {
    const std::string_view object = ObjectOf(mapping);
    answer = IsPlumbing("", "", object) || std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
               return !object.empty() && pattern.Matches(object);
             });
  }
  return answer != 0;
}

bool Plumbing::IsPlain(uint32_t function, uint32_t mapping) {
  if (HoldsObject(mapping)) return true;
  if (function == Profile::kNone) return false;
  int8_t& answer = by_function_[function];
  if (answer < 0) {
    const std::string_view name = profile_.strings[profile_.functions[function].name],
                           file = profile_.strings[profile_.functions[function].filename];
    answer = IsPlumbing(name, file, "") || std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
               return pattern.Matches(name) || pattern.Matches(file);
             });
  }
  return answer != 0;
}

bool Plumbing::Holds(uint32_t function, uint32_t mapping) {
  if (IsPlain(function, mapping)) return true;
  if (folds_interpreter_ && IsInterpreterAt(function, mapping)) return true;
  return function != Profile::kNone && is_funnel_[function];
}

bool Plumbing::IsInterpreterAt(uint32_t function, uint32_t mapping) {
  int8_t& object = interpreter_object_[mapping == Profile::kNone ? profile_.mappings.size() : mapping];
  if (object < 0) object = IsInterpreter("", ObjectOf(mapping));
  if (object != 0 || function == Profile::kNone) return object != 0;
  int8_t& answer = interpreter_function_[function];
  if (answer < 0) answer = IsInterpreter(profile_.strings[profile_.functions[function].name], "");
  return answer != 0;
}

void Plumbing::NumberNames() {
  absl::flat_hash_map<StringId, uint32_t> first;
  name_of_.reserve(profile_.functions.size());
  for (uint32_t i = 0; i < profile_.functions.size(); ++i)
    name_of_.push_back(first.emplace(profile_.functions[i].name, i).first->second);
}

void Plumbing::ReadCalls() {
  const size_t count = profile_.locations.size();
  first_call_.reserve(count + 1);
  first_call_.push_back(0);
  is_unnamed_.reserve(count);
  calls_.reserve(count);
  for (const Profile::Location& location : profile_.locations) {
    is_unnamed_.push_back(location.lines == 0 && !HoldsObject(location.mapping));
    for (const Profile::Line& line : profile_.LinesOf(location)) {
      if (line.function == Profile::kNone) continue;
      calls_.push_back({line.function, name_of_[line.function], IsPlain(line.function, location.mapping)});
    }
    first_call_.push_back(static_cast<uint32_t>(calls_.size()));
  }
}

// A thread starts with the outermost function that is not plumbing.
Plumbing::Starts Plumbing::FindStarts() {
  constexpr uint32_t kFurtherIn = Profile::kNone - 1;
  std::vector<uint32_t> start_at;  // per location
  start_at.reserve(profile_.locations.size());
  for (uint32_t location = 0; location < profile_.locations.size(); ++location) {
    const auto calls = CallsAt(location);
    const auto outermost = std::find_if(calls.rbegin(), calls.rend(), [](const Call& call) { return !call.is_plain; });
    if (outermost == calls.rend()) {
      start_at.push_back(kFurtherIn);
      continue;
    }
    // [glibc heap] and the like are no functions.
    const bool is_function = !profile_.strings[profile_.functions[outermost->function].name].starts_with('[');
    start_at.push_back(is_function ? outermost->name : Profile::kNone);
  }
  Starts starts;
  starts.of.reserve(profile_.samples.size());
  for (const Profile::Sample& sample : profile_.samples) {
    const auto frames = profile_.FramesOf(sample);
    size_t i = frames.size();
    while (i > 0 && start_at[frames[i - 1]] == kFurtherIn) --i;
    starts.of.push_back(i > 0 ? start_at[frames[i - 1]] : Profile::kNone);
    starts.known += starts.of.back() != Profile::kNone ? 1 : 0;
  }
  return starts;
}

// Returns the names that more than nine tenths of the stacks with a known start go through. A name that is missing in a
// tenth of all stacks is none of them, so most names are excluded early. The rest of the stacks is searched only for the
// others, from the outermost frame on: most of them are functions such as main.
std::vector<uint32_t> Plumbing::NamesInNearlyAll(const Starts& starts) const {
  struct Count {
    uint32_t last = 0;  // number of the stack that was counted
    uint32_t stacks = 0;
  };
  std::vector<Count> counts(profile_.functions.size());
  // Per location: its only name, or kExcluded if all its names are excluded.
  constexpr uint32_t kSeveral = Profile::kNone, kExcluded = Profile::kNone - 1;
  std::vector<uint32_t> names_at;
  names_at.reserve(profile_.locations.size());
  for (uint32_t location = 0; location < profile_.locations.size(); ++location) {
    const auto calls = CallsAt(location);
    names_at.push_back(calls.size() == 1 ? calls[0].name : kSeveral);
  }
  std::vector<uint8_t> is_excluded(counts.size());  // per name
  size_t open = counts.size();                      // names that are not excluded
  const auto exclude = [&](size_t counted) {
    for (uint32_t name = 0; name < counts.size(); ++name)
      is_excluded[name] = 10 * (counted - counts[name].stacks) >= starts.known;
    open = static_cast<size_t>(std::ranges::count(is_excluded, 0));
    for (uint32_t location = 0; location < names_at.size(); ++location) {
      if (std::ranges::all_of(CallsAt(location), [&](const Call& call) { return is_excluded[call.name] != 0; }))
        names_at[location] = kExcluded;
    }
  };
  uint32_t number = 0;
  size_t exclude_at = starts.known / 9 + 1;
  for (size_t i = 0; i < starts.of.size(); ++i) {
    if (starts.of[i] == Profile::kNone) continue;
    if (number == exclude_at) {
      exclude(number);
      exclude_at *= 2;
    }
    if (open == 0) return {};
    ++number;
    const auto frames = profile_.FramesOf(profile_.samples[i]);
    size_t found = 0;
    const auto count_once = [&](uint32_t name) {
      Count& count = counts[name];
      if (std::exchange(count.last, number) == number) return;
      ++count.stacks;
      ++found;
    };
    for (size_t at = frames.size(); at-- > 0 && found < open;) {
      const uint32_t name = names_at[frames[at]];
      if (name == kExcluded) continue;
      if (name != kSeveral) {
        count_once(name);
      } else {
        for (const Call& call : CallsAt(frames[at])) {
          if (is_excluded[call.name] == 0) count_once(call.name);
        }
      }
    }
  }
  std::vector<uint32_t> names;
  for (uint32_t i = 0; i < counts.size(); ++i) {
    if (10 * counts[i].stacks > 9 * starts.known) names.push_back(i);
  }
  return names;
}

// Finds which functions only forward: the candidates that nothing refutes.
void Plumbing::FindFunnels(const Starts& starts) {
  const size_t count = profile_.functions.size();
  std::vector<Funnel> funnels(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (name_of_[i] != i) continue;
    const std::string_view name = profile_.strings[profile_.functions[i].name];
    funnels[i].is_nameless = IsNameless(name);
    hints_[i] = FunnelHintOf(name);
    funnels[i].hint = funnels[i].is_nameless ? FunnelHint::kWord : hints_[i];
    funnels[i].is_candidate = IsDistinctive(funnels[i].hint);
  }
  for (const uint32_t name : NamesInNearlyAll(starts)) funnels[name].is_candidate = true;
  // A candidate that drops out may have been below others.
  while (DropDoubtful(starts, &funnels)) {
  }
  for (size_t i = 0; i < count; ++i) is_funnel_[i] = funnels[name_of_[i]].is_candidate;
}

bool Plumbing::DropDoubtful(const Starts& starts, std::vector<Funnel>* funnels) {
  size_t open = 0;  // candidates that this round has not refuted
  for (Funnel& funnel : *funnels) {
    funnel.is_refuted = funnel.is_containers = funnel.is_above_distinctive = false;
    funnel.has_other_caller = funnel.has_unlike_caller = false;
    funnel.stacks = funnel.from_start = 0;
    funnel.starts.fill(Profile::kNone);
    funnel.callers.fill(Profile::kNone);
    open += funnel.is_candidate ? 1 : 0;
  }
  if (open == 0) return false;
  std::vector<uint8_t> has_candidate;  // per location
  has_candidate.reserve(profile_.locations.size());
  for (uint32_t location = 0; location < profile_.locations.size(); ++location) {
    const auto calls = CallsAt(location);
    has_candidate.push_back(
        std::any_of(calls.begin(), calls.end(), [&](const Call& call) { return (*funnels)[call.name].is_candidate; }));
  }
  std::vector<uint32_t> below;  // candidates from the leaf up to here
  for (size_t i = 0; i < starts.of.size(); ++i) {
    if (open == 0) break;  // all candidates drop out
    const uint32_t start = starts.of[i];
    if (start == Profile::kNone) continue;
    below.clear();
    bool is_straight = true;  // only plumbing between this frame and the leaf
    uint32_t inner = Profile::kNone;
    for (const uint32_t frame : profile_.FramesOf(profile_.samples[i])) {
      if (!is_straight && has_candidate[frame] == 0) continue;
      if (is_unnamed_[frame] != 0) is_straight = false;
      for (const Call& call : CallsAt(frame)) {
        const uint32_t function = call.name, callee = std::exchange(inner, Profile::kNone);
        Funnel& funnel = (*funnels)[function];
        if (callee != Profile::kNone) {
          const bool is_alike = funnel.hint >= FunnelHint::kAlloc;
          if (!is_alike || !funnel.is_candidate) (*funnels)[callee].has_other_caller = true;
          if (!is_alike && function != callee) (*funnels)[callee].has_unlike_caller = true;
        }
        if (call.is_plain) {
          // A container calls only functions that allocate for it; libc calls whatever it is given.
          if (is_straight && callee != Profile::kNone && !HoldsObject(profile_.locations[frame].mapping))
            (*funnels)[callee].is_containers = true;
        } else if (funnel.is_candidate && is_straight) {
          if (std::find(below.begin(), below.end(), function) == below.end()) {
            funnel.is_above_distinctive =
                funnel.is_above_distinctive || std::any_of(below.begin(), below.end(), [&](uint32_t of) {
                  return IsDistinctive((*funnels)[of].hint) && !(*funnels)[of].is_nameless;
                });
            below.push_back(function);
          }
          inner = function;
        } else {
          if (funnel.is_candidate && !std::exchange(funnel.is_refuted, true)) --open;
          if (!std::exchange(is_straight, false)) continue;
          for (const uint32_t candidate : below) {
            if (!((*funnels)[candidate].is_nameless && funnel.is_nameless))
              (*funnels)[candidate].AddCaller(function, function == start);
          }
        }
      }
    }
    if (!is_straight) continue;
    if (inner != Profile::kNone) (*funnels)[inner].has_other_caller = (*funnels)[inner].has_unlike_caller = true;
    for (const uint32_t candidate : below) (*funnels)[candidate].AddCaller(start, true);
  }
  bool dropped = false;
  for (Funnel& funnel : *funnels) {
    if (!funnel.is_candidate || funnel.Stays(starts.known)) continue;
    funnel.is_candidate = false;
    dropped = true;
  }
  return dropped;
}

// A function that owns stacks in one round.
struct Plumbing::Pool {
  // The first few callers in the middle of the program.
  std::array<uint32_t, 2> callers = {Profile::kNone, Profile::kNone};
  bool from_start = false;  // a function that a thread starts with calls it, too
  size_t stacks = 0;
  uint32_t below = Profile::kNone;  // a funnel or pool that it calls
  double bytes = 0, large = 0, of_power = 0;
  absl::flat_hash_map<int64_t, double> of_size;

  void AddBlocks(int64_t size, double of) {
    constexpr int64_t kMinLarge = 4000, kHeader = 128;  // a page; the allocator's share of it: guesses
    bytes += of;
    if (size < kMinLarge) return;
    large += of;
    of_size[size] += of;
    int64_t power = kMinLarge;
    for (power = 4096; power < size && power < (int64_t{1} << 40); power *= 2) {
    }
    if (power - size <= kHeader || size - power / 2 <= kHeader) of_power += of;
  }
  bool HandsOutParts() const {
    constexpr double kNearlyAll = 0.9, kMax = 0.75;
    if (bytes <= 0 || large < kNearlyAll * bytes) return false;
    return of_power >= kNearlyAll * bytes ||
           std::any_of(of_size.begin(), of_size.end(), [&](const auto& of) { return of.second >= kMax * bytes; });
  }
};

// The current owner of a stack. All functions are identified by name.
struct Plumbing::Owned {
  uint32_t owner = Profile::kNone, below = Profile::kNone, caller = Profile::kNone;
  bool is_start = true;  // caller: only what the thread starts with
};

std::optional<Plumbing::Owned> Plumbing::OwnedBy(std::span<const uint32_t> frames, uint32_t start) {
  Owned owned;
  for (const uint32_t frame : frames) {
    if (is_unnamed_[frame] != 0) {
      if (owned.owner == Profile::kNone) return std::nullopt;
      owned.is_start = false;  // an unnamed caller
      return owned;
    }
    for (const Call& call : CallsAt(frame)) {
      if (call.is_plain) continue;
      if (owned.owner != Profile::kNone) {
        if (call.name == owned.owner) continue;
        owned.caller = call.name;
        owned.is_start = call.name == start;
        return owned;
      }
      if (is_funnel_[call.function] || pool_states_[call.name] == PoolState::kYes) {
        owned.below = call.name;
      } else if (pool_states_[call.name] != PoolState::kMaybe) {
        owned.owner = call.name;
      }
    }
  }
  return owned.owner == Profile::kNone ? std::nullopt : std::optional(owned);
}

// From the leaf on: each round looks at what the stacks belong to without the pools that are known by then.
void Plumbing::FindPools(const Starts& starts) {
  constexpr int kMaxRounds = 8;
  const bool is_map = ProfileKindOf(profile_) == "map";
  pool_states_.assign(profile_.functions.size(), PoolState::kNo);
  const auto may_be_pool = [&](uint32_t name) {
    return is_map || hints_[name] == FunnelHint::kPool || IsDistinctive(hints_[name]);
  };
  if (std::ranges::none_of(name_of_, may_be_pool)) return;
  std::vector<bool> is_bytes;
  for (const Profile::ValueType& type : profile_.sample_types)
    is_bytes.push_back(profile_.strings[type.unit] == "bytes");
  StringId bytes_key = 0;  // the label with the size of the blocks; 0: none
  for (StringId id = 1; id < profile_.strings.size() && bytes_key == 0; ++id)
    bytes_key = profile_.strings[id] == "bytes" ? id : 0;
  absl::flat_hash_map<uint32_t, uint32_t> maybe_by_caller;
  for (int round = 0; round < kMaxRounds; ++round) {
    absl::flat_hash_map<uint32_t, Pool> pools;
    for (size_t i = 0; i < starts.of.size(); ++i) {
      const uint32_t start = starts.of[i];
      if (start == Profile::kNone) continue;
      const Profile::Sample& sample = profile_.samples[i];
      const auto owned = OwnedBy(profile_.FramesOf(sample), start);
      if (!owned.has_value() || owned->owner == start || pool_states_[owned->owner] == PoolState::kRefuted ||
          !may_be_pool(owned->owner))
        continue;
      Pool& pool = pools[owned->owner];
      ++pool.stacks;
      pool.from_start = pool.from_start || owned->is_start;
      if (owned->below != Profile::kNone) pool.below = owned->below;
      if (!owned->is_start) Funnel::Add(owned->caller == Profile::kNone ? kUnnamed : owned->caller, &pool.callers);
      if (is_map) continue;
      double bytes = 0;
      const auto values = profile_.ValuesOf(i);
      for (size_t column = 0; column < values.size(); ++column) {
        if (is_bytes[column]) bytes += std::abs(static_cast<double>(values[column]));
      }
      for (const Profile::Label& label : profile_.LabelsOf(sample)) {
        if (label.key == bytes_key && bytes_key != 0) pool.AddBlocks(label.number, bytes);
      }
    }
    bool any = false;
    for (const auto& [function, pool] : pools) {
      const size_t callers = Funnel::Count(pool.callers);
      if (callers == 0 || !(is_map || pool.HandsOutParts())) continue;
      PoolState state = PoolState::kNo;
      const std::string_view name = profile_.strings[profile_.functions[function].name];
      const FunnelHint hint = hints_[function];
      if (IsDistinctive(hint)) {
        state = PoolState::kYes;
      } else if (hint == FunnelHint::kPool) {
        // A function above another pool must share its class or prefix. This excludes users of a pool with a
        // pool word in their own names.
        const bool is_kin =
            pool.below == Profile::kNone ||
            PoolWordOf(WordsOf(name)) == PoolWordOf(WordsOf(profile_.strings[profile_.functions[pool.below].name]));
        if (is_kin || callers > 1) state = PoolState::kYes;
      } else if (is_map && pool.below == Profile::kNone && 10 * pool.stacks > 9 * starts.known) {
        if (callers > 1) state = PoolState::kYes;
        if (callers == 1 && !pool.from_start && pool.callers[0] != kUnnamed && maybe_by_caller.empty())
          state = PoolState::kMaybe;
      }
      if (state == PoolState::kNo) continue;
      any = true;
      pool_states_[function] = state;
      if (state == PoolState::kMaybe) maybe_by_caller.emplace(pool.callers[0], function);
      const auto maybe = maybe_by_caller.find(function);
      if (maybe != maybe_by_caller.end() && pool_states_[maybe->second] == PoolState::kMaybe)
        pool_states_[maybe->second] = state;
    }
    if (!any) break;
    RefutePools();
  }
  for (size_t i = 0; i < is_funnel_.size(); ++i)
    is_funnel_[i] = is_funnel_[i] || pool_states_[name_of_[i]] == PoolState::kYes;
}

// Refutes pools that call anything else in any stack, and then the pools above those.
void Plumbing::RefutePools() {
  bool refuted = true;
  while (refuted) {
    refuted = false;
    for (const Profile::Sample& sample : profile_.samples) {
      bool is_straight = true;
      for (const uint32_t frame : profile_.FramesOf(sample)) {
        if (is_unnamed_[frame] != 0) is_straight = false;
        for (const Call& call : CallsAt(frame)) {
          if (call.is_plain || is_funnel_[call.function]) continue;
          PoolState& state = pool_states_[call.name];
          const bool is_pool = state == PoolState::kYes || state == PoolState::kMaybe;
          if (is_pool && !is_straight) {
            state = PoolState::kRefuted;
            refuted = true;
          }
          if (!is_pool) is_straight = false;
        }
      }
    }
  }
}

bool Plumbing::CallsUsers(uint32_t function) {
  if (function == Profile::kNone) return true;
  if (calls_users_.empty()) {
    calls_users_.resize(profile_.functions.size());
    std::vector<uint8_t> all_do(profile_.locations.size());  // whether all functions at a location call users
    size_t left = 0;                                         // names that are not known to call users
    for (uint32_t i = 0; i < name_of_.size(); ++i) left += name_of_[i] == i ? 1 : 0;
    for (const Profile::Sample& sample : profile_.samples) {
      if (left == 0) break;
      uint32_t owner = Profile::kNone;
      bool is_unnamed = false;
      for (const uint32_t frame : profile_.FramesOf(sample)) {
        is_unnamed = is_unnamed || is_unnamed_[frame] != 0;
        if (owner != Profile::kNone && all_do[frame] != 0) continue;
        bool all = true;
        for (const Call& call : CallsAt(frame)) {
          if (!calls_users_[call.name] && (is_unnamed || (owner != Profile::kNone && call.name != owner))) {
            calls_users_[call.name] = true;
            --left;
          }
          if (owner == Profile::kNone && !Holds(call.function, profile_.locations[frame].mapping)) owner = call.name;
          all = all && calls_users_[call.name];
        }
        all_do[frame] = all;
      }
    }
  }
  return calls_users_[name_of_[function]];
}

// Decides whether an interpreter's functions hide the functions that it runs.
void Plumbing::FindInterpreters() {
  for (uint32_t i = 0; i < profile_.mappings.size() && !has_interpreter_; ++i)
    has_interpreter_ = IsInterpreterAt(Profile::kNone, i);
  for (uint32_t i = 0; i < profile_.functions.size() && !has_interpreter_; ++i)
    has_interpreter_ = IsInterpreterAt(i, Profile::kNone);
  if (!has_interpreter_) return;
  size_t with_users = 0;
  bool has_map = false;
  for (const Profile::Sample& sample : profile_.samples) {
    const auto frames = profile_.FramesOf(sample);
    const std::optional<Place> first = FirstOf(frames, true);
    if (!first.has_value()) continue;
    ++with_users;
    has_map = has_map || profile_.locations[frames[first->frame]].mapping == Profile::kNone;
  }
  folds_interpreter_ = has_map || (with_users > 0 && 2 * with_users >= profile_.samples.size());
}

uint32_t Plumbing::FirstLineAt(uint32_t at, bool without_interpreters) {
  const Profile::Location& location = profile_.locations[at];
  const auto counts = [&](uint32_t function) {
    return !without_interpreters || !IsInterpreterAt(function, location.mapping);
  };
  const auto lines = profile_.LinesOf(location);
  if (lines.empty() && location.mapping != Profile::kNone && !HoldsObject(location.mapping) && counts(Profile::kNone))
    return 0;
  const auto calls = CallsAt(at);
  const bool all_known = calls.size() == lines.size();
  for (uint32_t line = 0; line < lines.size(); ++line) {
    if (all_known && calls[line].is_plain) continue;
    if (!Holds(lines[line].function, location.mapping) && counts(lines[line].function)) return line;
  }
  return Profile::kNone;
}

std::optional<Plumbing::Place> Plumbing::FirstOf(std::span<const uint32_t> frames, bool without_interpreters) {
  std::vector<uint32_t>& first_line = without_interpreters ? first_line_without_interpreters_ : first_line_;
  for (auto at = static_cast<uint32_t>(first_line.size()); at < profile_.locations.size(); ++at)
    first_line.push_back(FirstLineAt(at, without_interpreters));
  for (size_t i = 0; i < frames.size(); ++i) {
    const uint32_t line = first_line[frames[i]];
    if (line != Profile::kNone) return Place{i, line};
  }
  return std::nullopt;
}

std::optional<Plumbing::Place> Plumbing::OwnerOf(std::span<const uint32_t> frames) {
  if (has_interpreter_) {
    if (const auto place = FirstOf(frames, true); place.has_value()) return place;
  }
  return FirstOf(frames, false);
}

std::string_view Plumbing::NameOf(uint32_t location, size_t line) const {
  const auto lines = profile_.LinesOf(profile_.locations[location]);
  if (line >= lines.size() || lines[line].function == Profile::kNone) return {};
  return profile_.strings[profile_.functions[lines[line].function].name];
}

// Whether only libc's and libstdc++'s thread start is on the stack: the function that the thread runs left by a tail call.
bool Plumbing::IsOnlyThreadStart(std::span<const uint32_t> frames) const {
  constexpr std::array<std::string_view, 5> kStarts = {"clone", "__clone", "clone3", "__clone3", "start_thread"};
  bool starts = false;
  for (const uint32_t frame : frames) {
    const Profile::Location& location = profile_.locations[frame];
    const std::string_view object = BaseName(ObjectOf(location.mapping));
    const auto lines = profile_.LinesOf(location);
    const std::string_view name = lines.empty() ? std::string_view() : NameOf(frame, lines.size() - 1);
    const bool is_cxx = object.starts_with("libstdc++") &&
                        (name == "execute_native_thread_routine" || (IsNameless(name) && frames.size() > 1));
    const bool is_libc = std::find(kStarts.begin(), kStarts.end(), name) != kStarts.end() ||
                         (IsNameless(name) && object.starts_with("libc.so") && frames.size() > 1);
    if (!is_cxx && !is_libc) return false;
    starts = starts || is_cxx || name == "start_thread";
  }
  return starts;
}

std::string Plumbing::OwnerName(std::span<const uint32_t> frames) {
  if (frames.empty()) return "?";
  const std::optional<Place> owner = OwnerOf(frames);
  if (!owner.has_value() && IsOnlyThreadStart(frames)) return "[thread function]";
  const Place place = owner.value_or(Place{});
  const std::string_view name = NameOf(frames[place.frame], place.line);
  if (!IsNameless(name)) return std::string(name);
  const uint32_t mapping = profile_.locations[frames[place.frame]].mapping;
  const std::string_view object = ObjectOf(mapping);
  const bool is_program = !profile_.mappings.empty() && object == ObjectOf(0);
  if (object.empty() || is_program) return name.empty() ? "?" : std::string(name);
  for (size_t i = place.frame + 1; i < frames.size(); ++i) {
    if (ObjectOf(profile_.locations[frames[i]].mapping) != object) break;
    const auto lines = profile_.LinesOf(profile_.locations[frames[i]]);
    const std::string_view entered = lines.empty() ? std::string_view() : NameOf(frames[i], lines.size() - 1);
    if (!IsNameless(entered)) return fmt::format("{} ({})", entered, BaseName(object));
  }
  return std::string(BaseName(object));
}

std::optional<std::string> Plumbing::NamedOwner(std::span<const uint32_t> frames) {
  const std::optional<Place> owner = OwnerOf(frames);
  if (!owner.has_value()) return std::nullopt;
  const std::string_view name = NameOf(frames[owner->frame], owner->line);
  return IsNameless(name) ? std::nullopt : std::optional(std::string(name));
}

}  // namespace holdfast
