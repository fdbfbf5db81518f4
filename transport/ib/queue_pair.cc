#include "transport/ib/queue_pair.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace rondo::ib {
namespace {

// The InfiniBand specification's code for an MTU: 1 for 256 bytes, up to 5 for 4096.
int MtuCode(int bytes) {
  int code = 1;
  while (code < 5 && (128 << (code + 1)) <= bytes) ++code;
  return code;
}

std::string Words(const PathEnd& end) {
  const Gid gid{.type = end.ethernet ? Gid::Type::kRoceV2 : Gid::Type::kInfiniBand, .bytes = end.gid, .interface = {}};
  return end.ethernet ? gid.ip().ToString() : fmt::format("LID {}, {}", end.lid, gid.ToString());
}

bool SameSubnet(const PathEnd& a, const PathEnd& b) {
  return std::equal(a.gid.begin(), a.gid.begin() + 8, b.gid.begin());
}

}  // namespace

Result<QueuePair> QueuePair::Make(std::shared_ptr<const Device> device, ibv_comp_channel* channel, void* own,
                                  const QueuePairOptions& options) {
  QueuePair made(std::move(device), options);
  const VerbsLibrary& verbs = made.device_->verbs();
  const Port& port = made.device_->port();
  const auto entries = static_cast<int>(options.sends + options.receives);
  made.queue_ = {verbs.create_cq(made.device_->context(), entries, own, channel, 0), {verbs.destroy_cq}};
  if (made.queue_ == nullptr)
    return Fail(NotMade(port.Name(), fmt::format("a completion queue of {} entries", entries)));

  ibv_qp_init_attr attributes{};
  // Inline bytes save time, and devices allow different numbers of them. So the wanted number is halved until the
  // device accepts it.
  for (std::uint32_t wish = options.inline_bytes;; wish /= 2) {
    attributes = {};
    attributes.qp_type = IBV_QPT_RC;
    attributes.send_cq = attributes.recv_cq = made.queue_.get();
    attributes.cap.max_send_wr = options.sends;
    attributes.cap.max_recv_wr = options.receives;
    attributes.cap.max_send_sge = options.pieces;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = wish < 64 ? 0 : wish;
    made.pair_ = {verbs.create_qp(made.device_->domain(), &attributes), {verbs.destroy_qp}};
    if (made.pair_ != nullptr) break;
    if (wish < 64) return Fail(NotMade(port.Name(), "a queue pair"));
  }
  made.inline_bytes_ = attributes.cap.max_inline_data;

  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = static_cast<std::uint8_t>(port.number);
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (const int failed = verbs.modify_qp(made.pair_.get(), &init,
                                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      failed != 0)
    return Fail(ErrorCode::kResource, "a queue pair of {} cannot be set up: {}", port.Name(), std::strerror(failed));

  std::uint32_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return Fail(ErrorCode::kResource, "cannot create a queue pair: the system gave no random bytes");
  made.end_ = {.queue_pair = made.pair_->qp_num,
               .first_packet = random & 0xFFFFFF,
               .lid = port.lid,
               .mtu_bytes = static_cast<std::uint16_t>(port.mtu_bytes),
               .ethernet = port.ethernet,
               .gid = made.device_->gid().bytes};
  return made;
}

Status QueuePair::Connect(const PathEnd& peer) {
  const Port& port = device_->port();
  if (peer.ethernet != end_.ethernet)
    return Fail(ErrorCode::kUnreachable, "{} is {}, but the other end ({}) is not", port.Name(),
                end_.ethernet ? "Ethernet" : "InfiniBand", Words(peer));
  if (peer.mtu_bytes < 256 || peer.queue_pair >= 1u << 24 || peer.first_packet >= 1u << 24)
    return Fail(ErrorCode::kProtocol, "the other end sent an invalid description of its queue pair");
  mtu_bytes_ = 128 << MtuCode(std::min(peer.mtu_bytes, end_.mtu_bytes));

  ibv_qp_attr receive{};
  receive.qp_state = IBV_QPS_RTR;
  receive.path_mtu = static_cast<ibv_mtu>(MtuCode(mtu_bytes_));
  receive.dest_qp_num = peer.queue_pair;
  receive.rq_psn = peer.first_packet;
  receive.min_rnr_timer = 12;  // 0.64 ms; never used, because receives are always posted
  receive.ah_attr.port_num = static_cast<std::uint8_t>(port.number);
  receive.ah_attr.dlid = peer.lid;
  receive.ah_attr.sl = options_.service_level;
  if (end_.ethernet || !SameSubnet(end_, peer)) {
    receive.ah_attr.is_global = 1;
    std::memcpy(receive.ah_attr.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    receive.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device_->gid().index);
    receive.ah_attr.grh.hop_limit = 64;
    receive.ah_attr.grh.traffic_class = options_.traffic_class;
  }
  if (const int failed =
          device_->verbs().modify_qp(get(), &receive,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      failed != 0)
    return Fail(ErrorCode::kUnreachable, "{} [{}] {} cannot reach {}: {}; {}", port.Name(), device_->gid().index,
                device_->gid().ToString(), Words(peer), std::strerror(failed),
                end_.ethernet ? "does its GID still belong to an address, and is there a route (ping)?"
                              : "are both ports in one subnet?");
  ibv_qp_attr send{};
  send.qp_state = IBV_QPS_RTS;
  send.sq_psn = end_.first_packet;
  send.timeout = options_.timeout_exponent;
  send.retry_cnt = options_.retries;
  send.rnr_retry = 7;
  if (const int failed = device_->verbs().modify_qp(get(), &send,
                                                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
      failed != 0)
    return Fail(ErrorCode::kResource, "a queue pair of {} cannot begin to send: {}", port.Name(),
                std::strerror(failed));
  return {};
}

bool QueuePair::Break() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return device_->verbs().modify_qp(get(), &attributes, IBV_QP_STATE) == 0;
}

}  // namespace rondo::ib
