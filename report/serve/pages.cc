#include "report/serve/pages.h"

#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/live/live_process.h"

namespace holdfast {
namespace {

struct Entry {
  const char *name, *about;
  int kind;  // whose samples are counted, -1 = none
};

// By name, as Go has them.
constexpr Entry kEntries[] = {
    {"allocs", "A sampling of all past memory allocations", 0},
    {"block", "Stack traces that led to blocking on synchronization primitives", 2},
    {"cmdline", "The command line of the program", -1},
    {"heap", "A sampling of memory allocations of live blocks", 0},
    {"mutex", "Stack traces of holders of contended mutexes", 1},
    {"symbol",
     "Maps addresses to function names. Addresses stand in the query of a GET or the body of a POST, separated by '+'",
     -1},
};

constexpr char kStyle[] =
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem;max-width:60rem}td,th{padding:.1rem 1rem .1rem 0;text-align:left;"
    "vertical-align:top}td.count{text-align:right}";

std::string Escaped(std::string_view text) { return MarkupEscaped(RepairUtf8(text)); }

std::string Page(std::string_view title, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n{}</body>\n</html>\n",
      Escaped(title), kStyle, body);
}

}  // namespace

HttpResponse PageResponse(std::string page) {
  return {.content_type = "text/html; charset=utf-8",
          .fields = {{"X-Content-Type-Options", "nosniff"},
                     {"Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
                      "frame-ancestors 'none'"}},
          .body = std::move(page)};
}

std::string PprofIndexPage(std::string_view name, const std::array<size_t, kProfileKinds>& samples) {
  std::string body = fmt::format(
      "<h1>/debug/pprof/</h1>\n<p>{}</p>\n<p>Set debug=1 as a query parameter to export in text format, seconds=N for what "
      "changes meanwhile.</p>\n<table>\n<thead><tr><th>Count</th><th>Profile</th></tr></thead>\n",
      Escaped(name));
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

std::string ProcessesPage(const std::vector<ProcessTable>& processes) {
  std::string body = "<h1>holdfast</h1>\n";
  if (processes.empty()) {
    body += "<p>Nothing of this user is profiled. Start something by: <code>holdfast run -- PROGRAM</code></p>\n";
    return Page("holdfast", body);
  }
  body += "<table>\n<thead><tr><th>PID</th><th>Program</th><th>Profiles</th></tr></thead>\n";
  for (const ProcessTable& process : processes) {
    const pid_t pid = PidOf(process);
    fmt::format_to(std::back_inserter(body),
                   "<tr><td class=\"count\">{}</td><td>{}</td><td><a href=\"/p/{}/debug/pprof/\">", pid,
                   Escaped(process.table.program()), pid);
    fmt::format_to(std::back_inserter(body), "/p/{}/debug/pprof/</a></td></tr>\n", pid);
  }
  return Page("holdfast",
              body + "</table>\n<p><a href=\"/metrics\">/metrics</a> · <a href=\"/targets\">/targets</a></p>\n");
}

}  // namespace holdfast
