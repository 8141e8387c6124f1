#include "report/profiles/plumbing.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/profiles/frame_origin.h"

namespace holdfast {
namespace {

constexpr std::array<std::string_view, 13> kObjects = {
    "libabsl_",    "libboost_", "libfolly",  "libglib-2.0", "libgobject-2.0", "libjemalloc", "libtcmalloc",
    "libmimalloc", "libtbb",    "libstdc++", "libc++",      "libholdfast",    "libstd-"};

// As parts of the path of a source file.
constexpr std::array<std::string_view, 9> kFiles = {"/include/c++/",  "/c++/v1/",        "/rustc/",
                                                    "/library/std/",  "/library/core/",  "/library/alloc/",
                                                    "/include/absl/", "/include/boost/", "/include/folly/"};

// Outermost namespaces and crates.
constexpr std::array<std::string_view, 15> kPackages = {
    "std", "__gnu_cxx",   "__cxxabiv1",       "core",     "alloc",     "absl",      "boost",  "folly",
    "tbb", "parking_lot", "parking_lot_core", "lock_api", "hashbrown", "once_cell", "__rustc"};

// How names begin, as a whole or from there on.
constexpr std::array<std::string_view, 38> kNames = {"pthread_",
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
                                                     "holdfast_alloc",  // include/holdfast.h, inline
                                                     "holdfast_free",
                                                     "holdfast_lock_"};

template <typename List>
bool AnyStarts(const List& list, std::string_view text) {
  return std::any_of(list.begin(), list.end(), [&](std::string_view start) { return text.starts_with(start); });
}

// "push_back" of "void std::vector<int>::push_back(int&&) const", "f" of "f(int) [clone .part.0]".
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

// Takes the words that say how it is done off the end of a name: zmalloc_usable, g_malloc0_n, PyMem_RawMalloc.
std::string_view WithoutManner(std::string_view name) {
  constexpr std::array<std::string_view, 20> kManners = {
      "usable", "internal", "impl", "array",  "aligned", "align",   "zero",  "zeroed", "debug", "default",
      "fast",   "safe",     "try",  "nofail", "or_die",  "or_fail", "fatal", "hook",   "n",     "z"};
  while (true) {
    const size_t before = name.size();
    while (!name.empty() && (std::isdigit(static_cast<unsigned char>(name.back())) || name.back() == '_')) {
      name.remove_suffix(1);
    }
    for (const std::string_view manner : kManners) {
      const bool own_word = name.size() > manner.size() && name[name.size() - manner.size() - 1] == '_';
      const bool one_letter =
          manner.size() == 1 && name.size() > 5 && name.substr(0, name.size() - 1).ends_with("alloc");
      if (name.ends_with(manner) && (own_word || one_letter)) name.remove_suffix(manner.size());
    }
    if (name.size() == before) return name;
  }
}

bool EndsWithAnyCase(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         std::equal(end.begin(), end.end(), text.end() - static_cast<ptrdiff_t>(end.size()),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

// Of Rust: "<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop" is alloc's, "<[T] as alloc::slice::Concat>::concat" too,
// "<app::Tree as core::ops::drop::Drop>::drop" the program's.
std::string PackageOfImplementation(std::string_view function) {
  if (!function.starts_with('<')) return PackageOf(function, "", "");
  std::string_view type = function.substr(1);
  while (AnyStarts(std::array<std::string_view, 3>{"&", "mut ", "dyn "}, type)) {
    type.remove_prefix(type.starts_with('&') ? 1 : 4);
  }
  const size_t as = function.find(" as ");
  std::string package = PackageOf(type.substr(0, type.find(" as ")), "", "");
  return package == "?" && as != std::string_view::npos ? PackageOf(function.substr(as + 4), "", "") : package;
}

}  // namespace

bool IsPlumbing(std::string_view function, std::string_view file, std::string_view object) {
  if (IsSystemFrame(function, object) || AnyStarts(kObjects, BaseName(object))) return true;
  if (std::any_of(kFiles.begin(), kFiles.end(),
                  [&](std::string_view part) { return file.find(part) != std::string_view::npos; })) {
    return true;
  }
  if (AnyStarts(kNames, function)) return true;
  if (function.find("::") == std::string_view::npos) return false;
  const std::string package = PackageOfImplementation(function);
  return std::find(kPackages.begin(), kPackages.end(), package) != kPackages.end();
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

absl::StatusOr<Plumbing> Plumbing::Make(const Profile& profile, const std::vector<std::string>& patterns) {
  Plumbing made(profile);
  for (const std::string& text : patterns) {
    auto pattern = Pattern::Compile("--plumbing", text);
    if (!pattern.ok()) return pattern.status();
    if (!pattern->empty()) made.patterns_.push_back(*std::move(pattern));
  }
  made.by_function_.assign(profile.functions.size(), -1);
  made.by_object_.assign(profile.mappings.size() + 1, -1);
  made.forwards_.assign(profile.functions.size(), 0);
  made.FindForwarders();
  return made;
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

bool Plumbing::Holds(uint32_t function, uint32_t mapping) {
  if (HoldsObject(mapping)) return true;
  if (function == Profile::kNone) return false;
  if (forwards_[function] != 0) return true;
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

// Which allocators only forward: of those whose names say so, the ones that nothing refutes.
void Plumbing::FindForwarders() {
  bool any = false;
  for (size_t i = 0; i < forwards_.size(); ++i) {
    forwards_[i] = static_cast<uint8_t>(ForwardsByName(profile_.strings[profile_.functions[i].name]));
    any = any || forwards_[i] != 0;
  }
  // One that drops out was below others.
  while (any && DropDoubtful()) {
  }
}

bool Plumbing::DropDoubtful() {
  constexpr uint32_t kSeveral = Profile::kNone - 1;
  std::vector<bool> refuted(forwards_.size());
  std::vector<uint32_t> caller(forwards_.size(), Profile::kNone);
  for (const Profile::Sample& sample : profile_.samples) {
    bool straight = true;  // from here to the leaf there is nothing but plumbing
    uint32_t inner = Profile::kNone;
    for (const uint32_t frame : profile_.FramesOf(sample)) {
      const Profile::Location& location = profile_.locations[frame];
      for (const Profile::Line& line : profile_.LinesOf(location)) {
        if (line.function == Profile::kNone) continue;
        if (inner != Profile::kNone && forwards_[inner] != 0 && line.function != inner) {
          caller[inner] = caller[inner] == Profile::kNone || caller[inner] == line.function ? line.function : kSeveral;
        }
        if (!straight && forwards_[line.function] != 0) refuted[line.function] = true;
        straight = straight && Holds(line.function, location.mapping);
        inner = line.function;
      }
      if (location.lines == 0) straight = straight && HoldsObject(location.mapping);
    }
  }
  bool dropped = false;
  for (size_t i = 0; i < forwards_.size(); ++i) {
    if (forwards_[i] == 0 || (!refuted[i] && (forwards_[i] == 2 || caller[i] == kSeveral))) continue;
    forwards_[i] = 0;
    dropped = true;
  }
  return dropped;
}

std::optional<Plumbing::Place> Plumbing::OwnerOf(std::span<const uint32_t> frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const Profile::Location& location = profile_.locations[frames[i]];
    const auto lines = profile_.LinesOf(location);
    if (lines.empty() && location.mapping != Profile::kNone && !HoldsObject(location.mapping)) return Place{i, 0};
    for (size_t line = 0; line < lines.size(); ++line) {
      if (!Holds(lines[line].function, location.mapping)) return Place{i, line};
    }
  }
  return std::nullopt;
}

std::string_view Plumbing::NameOf(uint32_t location, size_t line) const {
  const auto lines = profile_.LinesOf(profile_.locations[location]);
  if (line >= lines.size() || lines[line].function == Profile::kNone) return {};
  return profile_.strings[profile_.functions[lines[line].function].name];
}

std::string Plumbing::OwnerName(std::span<const uint32_t> frames) {
  if (frames.empty()) return "?";
  const std::optional<Place> owner = OwnerOf(frames);
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

}  // namespace holdfast
