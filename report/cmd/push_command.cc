#include "report/cmd/push_command.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

absl::Status WrongOption(std::string_view option, const absl::Status& why) {
  return absl::InvalidArgumentError(fmt::format("{}: {}.", option, std::string(why.message())));
}

absl::Status TakeLabels(PushCommand* command) {
  for (const std::string& text : command->labels) {
    absl::StatusOr<PushLabel> label = ParsePushLabel(text);
    if (!label.ok()) return label.status();
    command->push.labels.push_back(*std::move(label));
  }
  if (!command->service_name.empty()) {
    absl::StatusOr<PushLabel> label = ParsePushLabel("service_name=" + command->service_name);
    if (!label.ok()) return label.status();
    command->push.labels.push_back(*std::move(label));
  }
  if (command->push.labels.size() > kMaxUserLabels) {
    return absl::InvalidArgumentError(
        fmt::format("--label: {} labels given; the server accepts at most {} besides holdfast's own.",
                    command->push.labels.size(), kMaxUserLabels));
  }
  return absl::OkStatus();
}

absl::Status TakeNumbers(PushCommand* command) {
  constexpr uint64_t kShortestNs = 100'000'000;
  const absl::StatusOr<uint64_t> every = ParseTimeNs(command->every), linger = ParseTimeNs(command->linger),
                                 within = ParseTimeNs(command->within);
  if (!every.ok()) return WrongOption("--every", every.status());
  if (!linger.ok()) return WrongOption("--linger", linger.status());
  if (!within.ok()) return WrongOption("--since-start-within", within.status());
  if (*every < kShortestNs || *every > uint64_t{3600} * 1'000'000'000) {
    return absl::InvalidArgumentError(fmt::format("--every: \"{}\" is not between 100ms and 1h.", command->every));
  }
  command->push.every = std::chrono::nanoseconds(*every);
  command->push.since_start_within = std::chrono::nanoseconds(std::min(*within, uint64_t{1} << 60));
  command->push.linger = std::chrono::milliseconds(*linger / 1'000'000);
  if (command->max_disk.empty()) return absl::OkStatus();
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(command->max_disk);
  if (!bytes.ok()) return WrongOption("--max-disk", bytes.status());
  command->push.max_disk_bytes = *bytes;
  return absl::OkStatus();
}

}  // namespace

absl::Status TakePushOptions(PushCommand* command) {
  if (absl::Status status = TakeLabels(command); !status.ok()) return status;
  if (absl::Status status = TakeNumbers(command); !status.ok()) return status;
  command->push.protocol = command->to == "ingest" ? PushProtocol::kIngest
                           : command->to == "otlp" ? PushProtocol::kOtlp
                                                   : PushProtocol::kPush;
  absl::StatusOr<ProcessChoice> choice = ChooseProcesses(command->what, command->tables, !command->push.once);
  if (!choice.ok()) return choice.status();
  command->push.choice = *std::move(choice);
  return absl::OkStatus();
}

void AddPushOptions(CLI::App* push, PushCommand* command) {
  push->add_option("--every", command->every, "Time between pushes")
      ->type_name("TIME")
      ->capture_default_str()
      ->envname("HOLDFAST_PUSH_EVERY");
  push->add_option("--to", command->to,
                   "push: Pyroscope 1.0 and newer; ingest: /ingest of older servers; otlp: an\nOpenTelemetry Collector")
      ->check(CLI::IsMember({"push", "ingest", "otlp"}))
      ->type_name("PROTOCOL")
      ->capture_default_str()
      ->envname("HOLDFAST_PUSH_TO");
  push->add_option("--service-name", command->service_name,
                   "Label service_name [default: OTEL_SERVICE_NAME of the program, or its name]")
      ->envname("HOLDFAST_PUSH_SERVICE_NAME");
  push->add_option("--label", command->labels, "Another label, NAME=VALUE (repeatable)")->allow_extra_args(false);
  push->add_option("--tenant", command->push.server.tenant, "The X-Scope-OrgID, for servers with several tenants")
      ->envname("HOLDFAST_PUSH_TENANT");
  push->add_option("--user-file", command->push.server.user_file, "A file with NAME:PASSWORD in its first line")
      ->envname("HOLDFAST_PUSH_USER_FILE");
  push->add_option("--token-file", command->push.server.token_file, "A file with a bearer token in its first line")
      ->envname("HOLDFAST_PUSH_TOKEN_FILE");
  push->add_option("--ca", command->push.server.ca_file,
                   "Trust these certificate authorities (PEM) [default: the system's]")
      ->envname("HOLDFAST_PUSH_CA");
  CLI::Option* certificate = push->add_option("--cert", command->push.server.certificate,
                                              "The client certificate, if the server requires one (PEM)");
  push->add_option("--key", command->push.server.key,
                   "The private key of the certificate (PEM) [default: in the same file]")
      ->needs(certificate);
  push->add_option("--proxy", command->push.server.proxy,
                   "A proxy, such as http://proxy:3128 [default: from the environment]");
  push->add_option("--max-disk", command->max_disk,
                   "Maximum size of an output folder, including waiting profiles [default: that of the program]")
      ->type_name("SIZE");
  push->add_option("--linger", command->linger, "How long to keep sending waiting profiles at the end")
      ->type_name("TIME")
      ->capture_default_str();
  push->add_option("--since-start-within", command->within,
                   "Include earlier activity of programs that started at most this long ago")
      ->type_name("TIME")
      ->capture_default_str();
  push->add_option("--tables", command->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
}

}  // namespace holdfast
