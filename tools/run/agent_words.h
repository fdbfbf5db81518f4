// The protocol between `rondo run` and its agent on another host (`rondo run-agent`). Its bytes travel over the agent's
// stdin and stdout, which ssh connects to the launcher.
//
// The agent first writes the line kAgentMagic. The launcher skips everything that a login shell printed before that
// line. After that, both sides send messages, which are called words:
//
//   word = bytes:u32 kind:u8 text*      `bytes` counts the bytes that follow it, at most kMaxWordBytes
//   text = bytes:u32, then its bytes    numbers are sent as decimal text
//
//   agent     hello    version caller own   the version of its rondo, and two addresses of its ssh connection: `caller`
//                                           is the launcher's host, `own` the agent's host ("": the agent was not
//                                           started by ssh)
//   launcher  job      directory grace_ms words command... (NAME VALUE)...
//                                           `words` is the number of words of the command; the variables of all ranks
//                                           follow it. They contain the job's secrets, so they are sent over stdin:
//                                           every user of the host could read a command line
//   agent     ready                         the agent accepts the job
//   agent     refused  why                  sent instead of `ready`: the agent will not start ranks
//   launcher  start    rank fed (NAME VALUE)...
//                                           starts one rank. `fed` is 1 if the rank's stdin gets the bytes of `input`,
//                                           0 if its stdin is empty; the variables of this rank alone follow it
//   launcher  input    rank bytes           bytes for the rank's stdin; an empty text ends it
//   agent     taken    rank bytes           the number of input bytes that were written to the rank's pipe or dropped
//                                           since the last `taken` for this rank
//   launcher  signal   number               sends the signal to all ranks of the agent
//   agent     output   rank stream bytes    bytes that the rank wrote to `stream`, 1 or 2; an empty text ends it
//   agent     ended    rank pid code signal why
//                                           the rank has ended
//   agent     pulse                         sent every few seconds, so that TCP detects a dead connection even if the
//                                           agent has nothing else to send
//
// The agent sends its version before the launcher sends the job, so that no secret reaches a rondo of another version.
// When the agent's stdin ends, for whatever reason, the agent ends its ranks: it sends SIGTERM, and SIGKILL after
// `grace_ms`.
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
  // Returns the texts from `index` to the end as pairs of name and value. kProtocol: their number is odd.
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

  // Queues the word (SendRaw: the bytes), and writes as much of the queue as possible without waiting.
  void Send(const AgentWord& word) { SendRaw(Encode(word)); }
  void SendRaw(std::string_view bytes);
  // Whether sending has become impossible, because the other side has closed its end or CloseOut was called.
  bool deaf() const { return !out_; }
  std::size_t queued() const { return unsent_.size(); }
  // Closes the sending direction. Queued bytes are dropped.
  void CloseOut();

  // Reads bytes that have arrived, at most 1 MiB in one call.
  void Receive();
  // Whether the other side has closed its sending direction. Words that arrived before that can still be taken.
  bool over() const { return !in_; }
  // Takes the next word; nullopt if it has not arrived yet. kProtocol: as for TakeWord; no later word can be read.
  Result<std::optional<AgentWord>> Next();
  // Whether kAgentMagic has arrived. If so, removes it and everything before it. kProtocol: more than kMaxBeforeMagic
  // bytes arrived without it.
  Result<bool> TakeMagic();

  // Adds the events for which poll must wait: input, and writability if output is queued.
  void AddDescriptors(std::vector<pollfd>& fds) const;
  // Writes queued bytes until the other side accepts no more.
  void Flush();

 private:
  Fd in_;
  Fd out_;
  std::string received_;
  std::size_t taken_ = 0;  // bytes of received_ that were taken
  std::string unsent_;
};

}  // namespace rondo
