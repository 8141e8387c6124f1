// One HTML file from profiles: loads them, fills the page's template, writes the file. The command line is in
// report/commands/add_html.cc; `holdfast run --html` comes here too.
//
// The data goes in as raw deflate in base64, so nothing in a profile can become markup; the title is the only text, and
// escaped. The newest profile of each series goes in as it is, for the page's "download", as long as all of them
// together are at most `max_embedded_bytes`.
#ifndef HOLDFAST_REPORT_HTML_HTML_REPORT_H_
#define HOLDFAST_REPORT_HTML_HTML_REPORT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/atomic_file.h"

namespace holdfast {

struct HtmlOptions {
  std::vector<std::string> files;          // profiles and folders of them; "-" is standard input
  std::vector<std::string> base;           // the same, to compare with
  std::string output = "report.html";      // "-" is standard output
  std::vector<std::string> plumbing = {};  // patterns of what else counts for its callers (plumbing.h)
  bool sources = true;                     // lines of source around those that frames name
  uint64_t max_embedded_bytes = 4 << 20;
};

// The whole file as text. What was left out is said on `err`, one line each.
absl::StatusOr<std::string> RenderHtml(const HtmlOptions& options, std::ostream& err);

// Replaces `path` in one step. Refuses to replace a file that is not an HTML report.
absl::Status WriteHtml(const std::string& path, const std::string& html, Readers readers = Readers::kUsual);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTML_HTML_REPORT_H_
