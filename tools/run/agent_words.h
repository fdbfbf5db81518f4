// The protocol between `rondo run` and its agent on another host (`rondo run-agent`). It runs over the stdin and stdout
// that ssh gives the agent.
//
// The agent first writes the line kAgentMagic. The launcher skips what a login shell printed before that line. Then
// both sides send messages, which are called words:
//
//   word = bytes:u32 kind:u8 text*      `bytes` counts what follows it; at most kMaxWordBytes
//   text = bytes:u32 and its bytes      numbers are decimal
//
//   agent     hello    version caller own   the version of its rondo; `caller` and `own` are the addresses of the
//                                           launcher's host and of its own host in its ssh connection ("": the agent
//                                           was not started by ssh)
//   launcher  job      directory grace_ms words command... (NAME VALUE)...
//                                           `words`: the number of words of the command; then the variables of all
//                                           ranks. They contain the job's secrets, so this word goes by stdin: every
//                                           user of the host could read a command line
//   agent     ready                         the agent accepts the job; or
//   agent     refused  why                  the agent will start no ranks
//   launcher  start    rank fed (NAME VALUE)...
//                                           any number of times; `fed`: 1 if the rank's stdin is what `input` brings,
//                                           0 if its stdin is empty; then the variables of this rank alone
//   launcher  input    rank bytes           for the rank's stdin; an empty text ends it
//   agent     taken    rank bytes           the number of input bytes that were written to the rank's pipe or dropped
//                                           since the last such word
//   launcher  signal   number               for all ranks of the agent
//   agent     output   rank stream bytes    `stream` is 1 or 2; an empty text ends the stream
//   agent     ended    rank pid code signal why
//   agent     pulse                         every few seconds, so that TCP detects a dead connection even if the agent
//                                           has nothing else to send
//
// A start takes two round trips, so that no secret is sent to a rondo of another version. When the agent's stdin ends,
// for whatever reason, the agent ends its ranks: SIGTERM, then after `grace_ms` SIGKILL.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/fd.h"
#include "base/result.h"
#include "tools/run/child_process.h"

namespace rondo {

inline constexpr std::string_view kAgentMagic = "rondo-agent-1\n";
inline constexpr std::size_t kMaxWordBytes = 64 << 20;
inline constexpr std::size_t kMaxBeforeMagic = 1 << 20;

enum class AgentWordKind : std::uint8_t {
  kHello = 'h',
  kJob = 'j',
  kReady = 'r',
  kRefused = 'x',
  kStart = 's',
  kInput = 'i',
  kTaken = 't',
  kSignal = 'k',
  kOutput = 'o',
  kEnded = 'e',
  kPulse = 'p',
};

struct AgentWord {
  AgentWordKind kind = AgentWordKind::kReady;
  std::vector<std::string> texts;

  // kProtocol: there is no such text, or it is not a whole number in that range.
  Result<std::int64_t> Number(std::size_t index, std::int64_t low, std::int64_t high) const;
  Result<std::string> Text(std::size_t index) const;
  // The texts from `index` to the last one, in pairs of name and value. kProtocol: their number is odd.
  Result<Variables> VariablesFrom(std::size_t index) const;
  friend bool operator==(const AgentWord&, const AgentWord&) = default;
};

std::string Encode(const AgentWord& word);
// Removes the next word from the front of `unread` and returns it; nullopt if not all of the word has arrived yet.
// kProtocol: no word begins with these bytes.
Result<std::optional<AgentWord>> TakeWord(std::string_view& unread);

// One end of the connection between launcher and agent. No call blocks. Thread rule: one thread.
class AgentStream {
 public:
  AgentStream(Fd in, Fd out);

  // Queues the bytes, and writes what can be written without waiting.
  void Send(const AgentWord& word) { SendRaw(Encode(word)); }
  void SendRaw(std::string_view bytes);
  // Whether nothing can be sent any more: the other side has closed its end, or CloseOut was called.
  bool deaf() const { return !out_; }
  std::size_t queued() const { return unsent_.size(); }
  // Closes the sending direction. Queued bytes are dropped.
  void CloseOut();

  // Reads bytes that have arrived, at most 1 MiB in one call.
  void Receive();
  // Whether the other side has ended its direction. Words that have arrived before can still be taken.
  bool over() const { return !in_; }
  // Takes the next word; nullopt if it has not arrived yet. kProtocol: see TakeWord; no later word can be read.
  Result<std::optional<AgentWord>> Next();
  // Whether kAgentMagic has arrived. If so, removes it and everything before it. kProtocol: more than kMaxBeforeMagic
  // bytes arrived without it.
  Result<bool> TakeMagic();

  // Adds what poll must wait for: input, and room for output if any is queued.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Writes queued bytes, as far as the other side has room.
  void Flush();

 private:
  Fd in_;
  Fd out_;
  std::string received_;
  std::size_t taken_ = 0;  // bytes of received_ that were taken
  std::string unsent_;
};

}  // namespace rondo
