#include <string>
#include <string_view>

#include "fmt/format.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/locks/stuck_words.h"
#include "report/base/json_text.h"

namespace holdfast {
namespace {

void AddCalls(const StuckWords& words, uint32_t stack, JsonText* json) {
  json->Key("stack").Open('[');
  for (const std::string& name : words.Functions(stack)) json->String(name);
  json->Close(']').Key("calls").Open('[');
  for (const std::string& name : words.CallNames(stack)) json->String(name);
  json->Close(']');
}

void AddThread(const StuckWords& words, std::string_view key, uint32_t thread, JsonText* json) {
  if (!key.empty()) json->Key(key);
  if (thread == 0) {
    json->Null();
    return;
  }
  const record::WaitingThread& it = words.list().ThreadAt(thread);
  json->Open('{').Key("tid").Number(it.tid).Key("number").Number(it.number).Key("name").String(it.name);
  if (it.gone) json->Key("ended").Bool(true);
  if (!it.labels.empty()) json->Key("labels").String(it.labels);
  if (!it.does.empty()) json->Key("does").String(it.does);
  if (it.stack != 0) AddCalls(words, it.stack, json);
  json->Close('}');
}

}  // namespace

std::string StuckJson(const Profile& profile, int64_t pid, const CallsShown& shown) {
  const StuckWords words(profile, shown);
  JsonText json;
  json.Open('{').Key("pid").Number(pid).Key("deadlocks").Open('[');
  for (const std::vector<uint32_t>& circle : words.list().deadlocks) {
    json.Open('{').Key("since_ns").Number(words.SinceNs(circle)).Key("threads").Open('[');
    for (const uint32_t thread : circle) json.Number(words.list().ThreadAt(thread).tid);
    json.Close(']').Close('}');
  }
  json.Close(']').Key("waits").Open('[');
  for (const record::Wait& wait : words.list().waits) {
    json.Open('{');
    AddThread(words, "thread", wait.thread, &json);
    json.Key("kind")
        .String(wait.kind)
        .Key("lock")
        .String(words.LockName(wait))
        .Key("address")
        .String(fmt::format("0x{:x}", wait.address));
    json.Key("waiting_ns").Number(wait.delay_ns);
    AddCalls(words, wait.stack, &json);
    json.Key("idle").Bool(words.RankOf(wait) == WaitRank::kIdle);
    json.Key("holder_known").String(words.HowKnown(wait));
    if (wait.source == record::HolderSource::kReaders) json.Key("readers").Number(wait.readers);
    if (wait.owner_died) json.Key("owner_died").Bool(true);
    AddThread(words, "holder", wait.holder, &json);
    json.Close('}');
  }
  json.Close(']').Key("other_threads").Open('[');
  for (uint32_t thread = 1; thread <= words.list().threads.size(); ++thread) {
    if (words.IsOther(thread)) AddThread(words, "", thread, &json);
  }
  json.Close(']');
  if (!words.list().unknown.empty()) json.Key("unknown").String(words.list().unknown);
  return json.Close('}').text() + "\n";
}

}  // namespace holdfast
