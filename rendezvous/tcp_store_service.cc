#include "rendezvous/tcp_store_service.h"

#include <fmt/core.h>

#include <utility>
#include <variant>

#include "base/printable.h"
#include "rendezvous/store_arguments.h"

namespace rondo {

using store_protocol::Outgoing;
using store_protocol::Request;

namespace {

template <typename... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};
template <typename... Handlers>
Overloaded(Handlers...) -> Overloaded<Handlers...>;

}  // namespace

TcpStoreService::ClientId TcpStoreService::Connect() {
  clients_.try_emplace(++last_client_, options_.token);
  return last_client_;
}

TcpStoreService::Verdict TcpStoreService::Receive(ClientId id, Bytes bytes) {
  Client& client = clients_.at(id);
  if (client.closing) return {.fate = Fate::kClose, .reason = "the client was refused"};
  if (input_bytes_ + bytes.size() > options_.limits.max_input_bytes) {
    return {.fate = Fate::kDrop,
            .reason = fmt::format("the unfinished requests of all clients together would exceed {} bytes",
                                  options_.limits.max_input_bytes)};
  }
  client.input.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  input_bytes_ += bytes.size();
  return Process(id, client);
}

TcpStoreService::Verdict TcpStoreService::Resume(ClientId id) { return Process(id, clients_.at(id)); }

TcpStoreService::Verdict TcpStoreService::Process(ClientId id, Client& client) {
  if (client.closing) return {.fate = Fate::kClose, .reason = "the client was refused"};
  const std::size_t input_before = client.input.size();
  std::size_t done = 0;  // the number of bytes of client.input that are processed; they are erased together at the end
  Verdict verdict;
  if (!client.said_hello) {
    verdict = TakeHello(client);
    if (!client.output.empty()) answered_.push_back(id);
  }
  const std::string_view input = client.input;
  client.left_off = false;
  while (client.said_hello && verdict.fate == Fate::kKeep) {
    if (client.output.bytes() > options_.limits.max_client_output_bytes) {
      client.left_off = true;
      break;
    }
    const auto frame = store_protocol::FirstFrame(input.substr(done));
    if (!frame) {
      verdict = {.fate = Fate::kDrop, .reason = frame.error().message()};
    } else if (!frame->has_value()) {
      break;
    } else {
      const auto request = store_protocol::DecodeRequest(**frame);
      const Status answered = request ? Answer(id, client, *request) : tl::unexpected(request.error());
      if (!answered) verdict = {.fate = Fate::kDrop, .reason = answered.error().message()};
      done += store_protocol::kLengthBytes + (*frame)->size();
    }
  }
  client.input.erase(0, done);
  if (client.input.empty() && client.input.capacity() > (64 << 10)) client.input.shrink_to_fit();
  input_bytes_ -= input_before - client.input.size();
  return verdict;
}

TcpStoreService::Verdict TcpStoreService::TakeHello(Client& client) {
  using Next = store_protocol::ServerHandshake::Next;
  auto next = client.handshake.Take(client.input);
  if (next && *next == Next::kSend) {
    client.output.Append(client.handshake.challenge());
    next = client.handshake.Take(client.input);
  }
  if (!next && next.error().code() == ErrorCode::kProtocol) {
    return {.fate = Fate::kDrop, .reason = next.error().message()};
  }
  if (!next) return Refuse(client, next.error());
  if (*next == Next::kRead) return {};
  const std::string& job = client.handshake.hello().job;
  if (!options_.job.empty() && job != options_.job) {
    return Refuse(client, Error(ErrorCode::kVersionMismatch,
                                fmt::format("the store serves job '{}', but this process belongs to job '{}'",
                                            options_.job, Printable(job))));
  }
  if (clients_after_hello_ >= options_.limits.max_clients) {
    return Refuse(client,
                  Error(ErrorCode::kResource,
                        fmt::format("the store already has {} clients, which is its limit", clients_after_hello_)));
  }
  if (client.refusal) return Refuse(client, *client.refusal);
  client.output.Append(client.handshake.Encode({}));
  client.said_hello = true;
  ++clients_after_hello_;
  return {};
}

TcpStoreService::Verdict TcpStoreService::Refuse(Client& client, const Error& error) {
  client.output.Append(client.handshake.Encode({.refused = error}));
  client.closing = true;
  return {.fate = Fate::kClose, .reason = error.message(), .auth_failed = error.code() == ErrorCode::kAuth};
}

void TcpStoreService::Disconnect(ClientId id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  for (const auto& [request, wait] : client.waits) {
    state_.Abandon(wait);
    waiting_.erase(wait);
  }
  if (client.said_hello) --clients_after_hello_;
  input_bytes_ -= client.input.size();
  clients_.erase(found);
}

bool TcpStoreService::WantsInput(ClientId id) const {
  const Client& client = clients_.at(id);
  return !client.closing && client.output.bytes() <= options_.limits.max_client_output_bytes;
}

Status TcpStoreService::Answer(ClientId id, Client& client, const Request& request) {
  Outgoing& out = client.output;
  const auto refuse = [&](const Error& error) { store_protocol::AppendError(request.id, error, out); };
  Status legal =
      std::visit(Overloaded{
                     [&](const store_protocol::SetRequest& set) -> Status {
                       const Status done = CheckEntries(set.entries).and_then([&] { return state_.Set(set.entries); });
                       done ? AppendDone(request.id, out) : refuse(done.error());
                       return {};
                     },
                     [&](const store_protocol::GetRequest& get) -> Status {
                       if (const Status checked = CheckKeys(get.keys); !checked) {
                         refuse(checked.error());
                       } else {
                         AnswerValues(request.id, state_.Get(get.keys), out);
                       }
                       return {};
                     },
                     [&](const store_protocol::WaitRequest& wait) { return StartWait(id, client, request.id, wait); },
                     [&](const store_protocol::AddRequest& add) -> Status {
                       const auto sum = CheckKey(add.key).and_then([&] { return state_.Add(add.key, add.delta); });
                       sum ? AppendNumber(request.id, *sum, out) : refuse(sum.error());
                       return {};
                     },
                     [&](const store_protocol::CompareSetRequest& compare) -> Status {
                       const auto result = CheckEntry(compare.key, compare.desired).and_then([&] {
                         return state_.CompareSet(compare.key, compare.expected, compare.desired);
                       });
                       result ? AppendCompareSet(request.id, *result, out) : refuse(result.error());
                       return {};
                     },
                     [&](const store_protocol::DeleteRequest& remove) -> Status {
                       if (const Status checked = CheckKeys(remove.keys); !checked) {
                         refuse(checked.error());
                       } else {
                         AppendNumber(request.id, static_cast<std::int64_t>(state_.Delete(remove.keys)), out);
                       }
                       return {};
                     },
                     [&](const store_protocol::AbandonRequest&) -> Status {
                       Abandon(client, request.id);
                       return {};
                     },
                 },
                 request.body);
  answered_.push_back(id);
  AnswerFinishedWaits();
  return legal;
}

Status TcpStoreService::StartWait(ClientId id, Client& client, std::uint64_t request,
                                  const store_protocol::WaitRequest& wait) {
  if (client.waits.count(request) != 0) {
    return Fail(ErrorCode::kProtocol, "two pending waits have the id {}", request);
  }
  if (const Status checked = CheckWait(wait.keys, wait.cancel_key); !checked) {
    store_protocol::AppendError(request, checked.error(), client.output);
    return {};
  }
  if (client.waits.size() >= options_.limits.max_client_waits) {
    store_protocol::AppendError(
        request,
        Error(ErrorCode::kResource,
              fmt::format("this process already has {} waits pending in the store; more are refused",
                          client.waits.size())),
        client.output);
    return {};
  }
  StoreState::StartedWait started = state_.Wait(wait.keys, wait.cancel_key);
  if (started.finished) {
    AnswerWait(id, request, *started.finished);
  } else {
    client.waits.emplace(request, started.id);
    waiting_.emplace(started.id, Waiting{.client = id, .request = request});
  }
  return {};
}

void TcpStoreService::Abandon(Client& client, std::uint64_t request) {
  const auto found = client.waits.find(request);
  if (found == client.waits.end()) return;  // the Wait's answer is already sent or is in the output
  const StoreState::WaitId wait = found->second;
  const std::size_t awaited = state_.KeysOf(wait);
  store_protocol::AppendError(request, MissingKeys(state_.Abandon(wait), awaited), client.output);
  client.waits.erase(found);
  waiting_.erase(wait);
}

void TcpStoreService::AnswerWait(ClientId id, std::uint64_t request,
                                 const Result<std::vector<StoreState::Value>>& values) {
  Outgoing& out = clients_.at(id).output;
  if (values) {
    AnswerValues(request, *values, out);
  } else {
    store_protocol::AppendError(request, values.error(), out);
  }
}

void TcpStoreService::AnswerValues(std::uint64_t request, const std::vector<StoreState::Value>& values, Outgoing& out) {
  std::size_t bytes = 0;
  for (const StoreState::Value& value : values) bytes += value == nullptr ? 0 : value->size();
  if (bytes > kMaxBatchBytes) {
    store_protocol::AppendError(
        request,
        Error(ErrorCode::kResource,
              fmt::format("the {} values have {} bytes together, but one answer may have at most {}", values.size(),
                          bytes, kMaxBatchBytes)),
        out);
  } else {
    store_protocol::AppendValues(request, values, out);
  }
}

void TcpStoreService::AnswerFinishedWaits() {
  for (const StoreState::FinishedWait& finished : state_.TakeFinished()) {
    const auto found = waiting_.find(finished.id);
    const Waiting waiting = found->second;
    waiting_.erase(found);
    clients_.at(waiting.client).waits.erase(waiting.request);
    AnswerWait(waiting.client, waiting.request, finished.values);
    answered_.push_back(waiting.client);
  }
}

}  // namespace rondo
