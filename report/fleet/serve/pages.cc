#include "report/fleet/serve/pages.h"

#include <time.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/base/value_units.h"
#include "report/fleet/live/live_process.h"
#include "report/observe/observe.h"
#include "report/observe/table/in_use_bytes.h"

namespace holdfast {
namespace {

struct Entry {
  const char *name, *about;
  int kind;  // the kind for the number of samples; -1 = none
};

// Sorted by name, as in Go.
constexpr Entry kEntries[] = {
    {"allocs", "A sampling of all past memory allocations", 0},
    {"block", "Stack traces that led to blocking on synchronization primitives", 2},
    {"cmdline", "The command line of the program", -1},
    {"cpu", "CPU time since the start of the program, where it is asked for: holdfast set PID cpu=100", 6},
    {"exceptions", "Stack traces that threw exceptions", 5},
    {"heap", "A sampling of memory allocations of live blocks", 0},
    {"map", "Stack traces that mapped memory", 3},
    {"mutex", "Stack traces of holders of contended mutexes", 1},
    {"profile", "CPU profile. The duration can be set by the parameter seconds, 30 without it", 6},
    {"resident", "What of live blocks and mappings is resident; where it is asked for: holdfast set PID resident=on",
     kProfileKinds},
    {"symbol",
     "Maps addresses to function names. Addresses are in the query of a GET or the body of a POST, separated by '+'",
     -1},
    {"threads", "Stack traces that created threads", 4},
    {"wall",
     "Where the time of each thread goes, since the first request; where it is asked for: holdfast set PID wall=on",
     -1},
};

// The colours are those of the report: report/page/web/src/styles/base.css.
constexpr char kStyle[] = R"(
:root{color-scheme:light dark;--paper:#fbfaf8;--line:#e2ded7;--ink:#211f1b;--soft:#625d54;--accent:#a8520a;--warn:#a32a14}
@media (prefers-color-scheme:dark){:root{--paper:#1a1b1f;--line:#36383f;--ink:#e9e7e3;--soft:#a9abb3;--accent:#f0a95b;--warn:#ff9d86}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,"Segoe UI","Noto Sans",sans-serif;font-variant-numeric:tabular-nums}
header{display:flex;gap:9px;align-items:center;padding:10px 16px;border-bottom:1px solid var(--line)}
header svg{flex:none;fill:var(--accent)}
h1{margin:0;font-size:15px}
h2{margin:1.5em 0 .5em;font-size:14px}
main{max-width:72rem;padding:8px 16px}
table{width:100%;border-collapse:collapse}
td,th{padding:6px 16px 6px 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{color:var(--soft);font-size:12px;font-weight:600}
.count{text-align:right;white-space:nowrap}
.deadlock{color:var(--warn)}
th a{color:inherit}
.wide{width:50%;overflow-wrap:anywhere;color:var(--soft)}
code{font:12px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
a{color:var(--accent)}
a.program{font-weight:650}
:focus-visible{outline:2px solid #0b57d0;outline-offset:1px}
@media (max-width:600px){.wide,.roomy{display:none}td,th{padding-right:10px}}
)";

std::string HtmlEscaped(std::string_view text) { return MarkupEscaped(RepairUtf8(text)); }

std::string Page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<header><svg width=\"20\" height=\"20\" viewBox=\"0 0 20 "
      "20\" aria-hidden=\"true\"><rect x=\"1\" y=\"2\" width=\"18\" height=\"4.4\" rx=\"1\"/><rect x=\"1\" y=\"7.8\" "
      "width=\"12\" height=\"4.4\" rx=\"1\"/><rect x=\"1\" y=\"13.6\" width=\"7\" height=\"4.4\" rx=\"1\"/></svg>"
      "<h1>{0}</h1></header>\n<main>\n{2}</main>\n</body>\n</html>\n",
      HtmlEscaped(title), kStyle, body);
}

// Returns the command line as typed, shortened if it is long.
std::string CommandLineShown(const ProcessTable& process) {
  constexpr size_t kMax = 300;
  std::string text = process.pid.has_value() ? ReadWhole(fmt::format("/proc/{}/cmdline", *process.pid), 4096) : "";
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  if (text.size() > kMax) text = text.substr(0, kMax) + " …";
  return HtmlEscaped(text);
}

int64_t AgeNs(const ProcessTable& process) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec - process.table.owner().start_monotonic_ns;
}

// A line of the list.
struct Listed {
  const ProcessTable* process;
  int64_t pid = 0, age_ns = 0, in_use = -1;  // in_use: -1 if the table cannot be read
  size_t waits = 0, deadlocks = 0;
};

Listed ListedOf(const ProcessTable& process) {
  Listed listed = {.process = &process, .pid = PidOf(process), .age_ns = AgeNs(process)};
  absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) return listed;
  listed.in_use = InUseBytesOf(*snapshot);
  listed.waits = snapshot->ongoing.size();
  if (listed.waits > 0)
    listed.deadlocks = Observe(process.table, *std::move(snapshot), {.waits = true}).waits.deadlocks.size();
  return listed;
}

// Those with most first, as `holdfast ls` sorts them.
void SortList(std::string_view by, std::vector<Listed>* list) {
  std::stable_sort(list->begin(), list->end(), [&](const Listed& a, const Listed& b) {
    if (by == "pid") return a.pid < b.pid;
    if (by == "program") return a.process->table.program() < b.process->table.program();
    if (by == "waits") return std::pair(a.deadlocks, a.waits) > std::pair(b.deadlocks, b.waits);
    if (by == "age") return a.age_ns > b.age_ns;
    return a.in_use > b.in_use;
  });
}

// Reads the list again every two seconds while somebody looks, and keeps the focus. It never runs what the server did not write.
constexpr std::string_view kListScript = R"(setInterval(async () => {
  if (document.visibilityState !== "visible") return;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    const main = document.querySelector("main");
    if (!answer.ok || next === null || main.innerHTML === next.innerHTML) return;
    const focused = document.activeElement?.getAttribute("href");
    main.replaceChildren(...next.childNodes);
    if (focused) main.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  } catch {
    // The server has gone: what was seen last stays.
  }
}, 2000);
)";

}  // namespace

HttpResponse PageResponse(std::string page) {
  return {.content_type = "text/html; charset=utf-8",
          .fields = {{"X-Content-Type-Options", "nosniff"},
                     {"Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
                      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}},
          .body = std::move(page)};
}

std::string PprofIndexPage(std::string_view name, const SampleCounts& samples) {
  std::string body = fmt::format(
      "<p>{}</p>\n<p>Set debug=1 as a query parameter to export in text format, seconds=N for what "
      "changes meanwhile.</p>\n<table>\n<thead><tr><th>Count</th><th>Profile</th></tr></thead>\n",
      HtmlEscaped(name));
  std::string about = "<h2>Profile Descriptions</h2>\n<ul>\n";
  for (const Entry& entry : kEntries) {
    const size_t count = entry.kind < 0 ? 0 : samples[static_cast<size_t>(entry.kind)];
    fmt::format_to(std::back_inserter(body),
                   "<tr><td class=\"count\">{}</td><td><a href='{}?debug=1'>{}</a></td></tr>\n", count, entry.name,
                   entry.name);
    fmt::format_to(std::back_inserter(about), "<li><b>{}</b>: {}</li>\n", entry.name, entry.about);
  }
  return Page("/debug/pprof/", body + "</table>\n" + about + "</ul>\n");
}

HttpResponse ListScript() {
  return {.content_type = "text/javascript; charset=utf-8",
          .fields = {{"X-Content-Type-Options", "nosniff"}},
          .body = std::string(kListScript)};
}

std::string ProcessesPage(const std::vector<ProcessTable>& processes, bool live, std::string_view sorted_by) {
  std::string body = fmt::format("<script src=\"{}\" defer></script>\n", kListScriptPath);
  if (processes.empty()) {
    body += "<p>Nothing of this user is profiled. Start something by: <code>holdfast run -- PROGRAM</code></p>\n";
    return Page("holdfast", body);
  }
  struct Column {
    std::string_view key, title, style;
  };
  constexpr Column kColumns[] = {
      {"program", "Program", ""},    {"pid", "PID", "count"},       {"age", "Runs for", "count roomy"},
      {"memory", "In use", "count"}, {"waits", "Waiting", "count"}, {"", "Profiles", "roomy"},
      {"", "Command", "wide"}};
  const bool is_known = std::any_of(std::begin(kColumns), std::end(kColumns), [&](const Column& column) {
    return !column.key.empty() && column.key == sorted_by;
  });
  if (!is_known) sorted_by = "memory";
  body += "<table>\n<thead><tr>";
  const auto out = std::back_inserter(body);
  for (const Column& column : kColumns) {
    const bool is_sorted = column.key == sorted_by, is_up = column.key == "program" || column.key == "pid";
    fmt::format_to(out, "<th scope=\"col\" class=\"{}\"{}>", column.style,
                   !is_sorted ? ""
                   : is_up    ? " aria-sort=\"ascending\""
                              : " aria-sort=\"descending\"");
    if (column.key.empty()) {
      fmt::format_to(out, "{}</th>", column.title);
    } else {
      fmt::format_to(out, "<a href=\"/?sort={}\">{}{}</a></th>", column.key, column.title,
                     !is_sorted ? ""
                     : is_up    ? " ↑"
                                : " ↓");
    }
  }
  body += "</tr></thead>\n<tbody>\n";
  std::vector<Listed> list;
  for (const ProcessTable& process : processes) list.push_back(ListedOf(process));
  SortList(sorted_by, &list);
  for (const Listed& listed : list) {
    const ProcessTable& process = *listed.process;
    fmt::format_to(out, "<tr><td><a class=\"program\" href=\"/p/{0}/{1}\">{2}</a></td><td class=\"count\">{0}</td>",
                   listed.pid, live ? "" : "debug/pprof/", HtmlEscaped(process.table.program()));
    fmt::format_to(out, "<td class=\"count roomy\">{}</td><td class=\"count\">{}</td><td class=\"count\">",
                   listed.age_ns > 0 ? FormatDuration(listed.age_ns - listed.age_ns % 1'000'000'000) : "",
                   listed.in_use < 0 ? "?" : FormatSize(listed.in_use));
    if (listed.deadlocks > 0) {
      fmt::format_to(out, "<b class=\"deadlock\">{} deadlock{}</b>, ", listed.deadlocks,
                     listed.deadlocks == 1 ? "" : "s");
    }
    fmt::format_to(out, "{}</td><td class=\"roomy\"><a href=\"/p/{}/debug/pprof/\">pprof</a></td>", listed.waits,
                   listed.pid);
    fmt::format_to(out, "<td class=\"wide\"><code>{}</code></td></tr>\n", CommandLineShown(process));
  }
  return Page(
      "holdfast",
      body + "</tbody>\n</table>\n<p><a href=\"/metrics\">/metrics</a> · <a href=\"/targets\">/targets</a></p>\n");
}

}  // namespace holdfast
