// The public face of the library. A communicator connects N ranks: each rank makes the same call, and every rank gets
// the result.
//
//   // collectives/connect.h
//   auto communicator = rondo::Connect({.rendezvous = "env://", .environment = rondo::ProcessEnvironment});
//   auto status = (*communicator)->AllReduce(in, out, count, DataType::kFloat32, ReduceOp::kSum);
//
// Contract
//   Order      All ranks must issue the same collectives in the same order. The collectives of one communicator are
//              serial: a collective starts on a rank after the previous one has completed on that rank. So back-to-back
//              operations on one buffer are well-defined. Independent streams of operations need a communicator each
//              (Split).
//   Buffers    The caller lends its buffers from the call until the call, the Work's Wait or its callback returns the
//              final status, success or error. After that the library does not touch them. Any alignment is valid.
//              Input and output must not overlap, except in place: then they share memory as each collective says. A
//              buffer may be null if it has no elements, or if the collective ignores it on this rank. After an error
//              the output (and data in place) is undefined; an input that is not in place is unchanged.
//   Counts     Counts are in elements. 0 is valid, and data may exceed 2^32 bytes. `count` is the size of one
//              block. A buffer with a block for each rank has the blocks packed in rank order: in a world of P ranks it
//              has P * count elements (as in NCCL and MPI). The ...V forms take one count for each block instead: a
//              span of world_size() counts, which the caller lends until the call returns. Their blocks are packed in
//              rank order, too. A collective of zero elements must be issued by all ranks, too, and it waits for all of
//              them.
//   Threads    Only one thread at a time may issue collectives. A call that detects another thread's call returns
//              kInvalidArgument. Any thread may call Wait, Test and Abort. A waiting thread advances pending operations
//              itself. A progress thread advances operations for which no thread waits.
//   Errors     A wrong argument that is found locally (kInvalidArgument, kUnsupported) starts nothing, and the
//              communicator stays usable. A failed operation fails the communicator on all of its ranks: every later
//              call returns the first cause. If ranks disagree on an operation, they get kMismatch with both
//              descriptors. The messages of a group's errors name each rank by its rank in the job, followed by its
//              rank in the group; Error::culprit is a rank of the group. Damaged bytes give kCorrupt if checksums are
//              on. Otherwise only the transport's own check can find them (TCP: 16 bits for each segment).
//   Deadlines  Every operation ends within its timeout, which counts from the call. The error of a timeout names the
//              missing ranks. If this process is stopped for more than a second (Ctrl-Z, SIGSTOP), that time does not
//              count.
//   Devices    Operations on GPU memory (OperationOptions::memory) are ordered by their stream. An operation runs after
//              all work that was on the stream when it was called, and work put on the stream later waits for it
//              (unless OperationOptions::stream_waits is false). Nothing else waits: other streams and the device
//              continue. The caller lends the memory until the operation has run on the stream. Asynchronous operations
//              need no Wait, because the stream waits. After an error the stream continues, and the output is
//              undefined. All device operations of a communicator must use one device. Deadlines count from the call,
//              even if the stream reaches the operation later.
//   Graphs     If the stream is being captured, the operation becomes a part of the CUDA graph. All ranks must capture
//              the same operations in the same order. The capturing call waits for the other ranks, within the timeout,
//              and moves no data. Each launch of the graph then runs the operation on the devices alone.
//              All ranks must launch the same operations in the same order. Two operations of one communicator must
//              never run at the same time: neither on two streams nor on parallel branches of a graph. All ranks must
//              also make calls and launches in one common order, because a call may wait for the device. The memory
//              must stay valid, and the communicator must live, as long as a launch may be running on any rank, also
//              after a failure.
//              A launched operation fails the communicator if a rank dies, launches a different operation, or does not
//              arrive within the timeout that the operation had at capture. The next call returns that error, and so
//              does failure(), which the caller should check after it has waited for the stream. After such a failure,
//              launched graphs move no data, and end.
//              A capture returns kUnsupported for an operation that needs the host, and leaves the graph unchanged. The
//              host is needed if ranks are on several hosts, if there are more than 16 ranks, if devices cannot access
//              each other's memory, or if counts differ by rank. It is also needed for fp32_accumulate, for
//              compare_results, for operations that users define, and for every algorithm except intranode.
//   Messages   Send and Recv are outside the order of collectives. Any number may be in flight at once, any thread may
//              issue them, and they are ordered per (sender, tag). Three errors fail only their own operation, and the
//              communicator stays usable: a message that is longer than its receive or of another type, a receive that
//              timed out before a message came, and a send that timed out before its peer received it.
//   Results    Every rank gets the same bits. Runs with the same world, options and algorithm give the same bits. With
//              `reproducible` the bits are the same for every algorithm, transport and timing, too (docs/DESIGN.md).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/rank_frame.h"
#include "base/reduce_op.h"
#include "base/result.h"
#include "collectives/communicator/operation_options.h"
#include "collectives/communicator/user_operation.h"
#include "collectives/communicator/wait_policy.h"
#include "collectives/model/topology.h"
#include "collectives/point_to_point/message.h"
#include "collectives/rebuild.h"
#include "collectives/schedule/collective.h"
#include "transport/link_end.h"
#include "transport/memory.h"

namespace rondo {

class CommunicatorCore;
class Device;
class KeptGoodbyes;
class Mover;
class Transport;
class Waiter;
struct MessageOperation;
struct Profile;

// Identifies the process of a rank in error messages.
struct PeerIdentity {
  std::string host;
  std::string host_id;  // equal on two ranks only if they share a kernel and a network namespace
  std::uint64_t pid = 0;
  std::string address;  // from Transport::Address(); only the transports interpret it
  // The numeric address at which other ranks reach this one, for people. "": it is unknown, or there is no network.
  std::string ip = {};
  // Number of CPU cores that the ranks of this peer's host share. Equal on all ranks. 0: unknown; each rank then counts
  // the cores of its own affinity mask.
  int cores = 0;
  // Why the calling rank does not share memory with this peer although both may be on one host. Text for people.
  std::string not_shared = {};
};

// How bytes travel from this rank to a peer.
struct PeerPath {
  std::string transport;    // "tcp"
  std::string description;  // prose, as in Communicator::DescribePaths
  LinkEnd link = {};        // this rank's end of the link
};

struct CommunicatorOptions {
  Rank rank = 0;
  std::vector<PeerIdentity> peers;  // by rank; its size is the world size
  std::uint64_t id = 1;  // number of this communicator: equal on all its ranks, unique in the job and generation
  std::shared_ptr<Transport> transport;
  std::shared_ptr<const Clock> clock;                  // null: the system's clock
  std::shared_ptr<Waiter> waiter;                      // null: threads wait in the kernel
  std::function<std::unique_ptr<Mover>()> make_mover;  // null: the thread that advances an operation copies and reduces
  Logger* logger = nullptr;                            // must outlive the communicator
  std::optional<WaitPolicy> wait_policy;               // nullopt: the numbers of local ranks and cores decide
  Duration timeout = std::chrono::seconds(60);         // default timeout of all operations, and time limit of Close
  bool progress_thread = true;                         // false: operations advance only in Wait, Test and Progress
  std::uint32_t frame_bytes = 1 << 20;  // largest payload of one frame; a multiple of 64; equal on all ranks
  // Transfers of at least this size are written directly into the receiver's memory if the transport supports that
  // (Capabilities::push). Equal on all ranks.
  std::uint64_t windows_from_bytes = 64 << 10;
  // Number of rails (transport/rail.h). A large collective with equal counts is cut into one share for each rail, and
  // the shares travel in parallel over separate lanes. Messages and small collectives use the first rail only. If all
  // ranks share memory, rails are not used. Each rail needs scratch memory of its own. If the bits of a result depend
  // on how the vector is cut (Results, above), they depend on the number of rails, too. At most kMaxRails; equal on all
  // ranks.
  std::uint32_t rails = 1;
  // An operation uses at most one rail for every least_rail_bytes of its data. Equal on all ranks.
  std::uint64_t least_rail_bytes = 256 << 10;
  // Index of the first rail. Communicators on different rails use different addresses or ports, if the host has
  // several. Equal on all ranks.
  std::uint32_t first_rail = 0;
  // The largest number of issued operations that have not completed. A call beyond that number gives kResource.
  std::uint32_t max_pending_operations = 1024;
  // limit of the scratch memory of an operation; if its algorithm needs more, the call gives kResource
  std::uint64_t max_scratch_bytes = std::uint64_t{1} << 30;
  std::uint32_t max_cached_plans = 128;
  // Messages (Send, Recv). Before this rank has a matching receive, each peer may send it messages of
  // eager_credit_bytes in all, and announce max_announced_messages further ones. Beyond that, the peer's sends wait at
  // the peer.
  std::uint64_t eager_message_bytes = 64 << 10;  // a message up to this size is sent immediately if there is credit
  std::uint64_t eager_credit_bytes = 512 << 10;  // equal on all ranks
  std::uint32_t max_announced_messages = 1024;   // equal on all ranks
  // The largest number of messages that were issued on this rank and have not completed. A call beyond that number
  // gives kResource.
  std::uint32_t max_pending_messages = 4096;
  // A CRC-32C protects the header and payload of every frame that lanes carry, for collectives and for messages. Equal
  // on all ranks. Bytes that do not match their checksum are never summed, forwarded or reported as a result. The rank
  // that finds them fails with kCorrupt, which names peer, lane and position, and its communicator fails with it. Ranks
  // of one host may read each other's memory directly (algorithm intranode). Such reads are not covered, because no
  // frames are sent. Checksums cost two passes over the data, at cache speed, and 64 KiB of memory a lane.
  bool checksums = false;
  // The next three options are defaults, which each operation may override. Equal on all ranks.
  bool reproducible = false;  // every reduction is the left fold in rank order: ((0 op 1) op 2) op ...
  // Partial results of reductions of 16-bit floats are kept, sent and combined in float32, and rounded once, at the
  // end. This applies to sum, prod, avg and premul_sum, but not to operations that users define. It needs 4 bytes of
  // scratch memory an element. Averages of integers and of float16 always use a wider type (AverageTypeOf in
  // base/dtype.h), even if this option is false.
  bool fp32_accumulate = false;
  // After every collective that gives all ranks the same result (all_reduce, broadcast, all_gather, all_gather_v), the
  // ranks compare checksums of this result, by an all_gather of 4 bytes. Other collectives are not compared. A
  // difference gives kCorrupt on all ranks. The error names the ranks whose result differs from that of the majority;
  // without a majority it lists all checksums. This finds what a checksum of the wire cannot: faulty memory or
  // processors, and operations of users that differ between ranks. A compared operation counts as two
  // (max_pending_operations, Work::sequence).
  bool compare_results = false;
  // The profile from which the algorithm is chosen if a call names none (model/selector.h). Equal on all ranks. Null:
  // DefaultProfile().
  std::shared_ptr<const Profile> profile = {};
  // The flight recorder (docs/DIAGNOSING.md) keeps this number of collectives and the same number of messages, rounded
  // up to a power of two. 0: no recorder. Each entry takes 128 bytes. Groups that are split from this communicator have
  // recorders of their own.
  std::uint32_t recorded_operations = 1024;
  // When the communicator fails, each rank writes its records (the text of DumpRecords) once, into a file of its own in
  // this folder. The thread that ends the failed operations writes the file, but first lets all waiting calls return.
  // The folder must exist. "": no file is written.
  std::string record_dir = {};
  // The GPUs (cuda/cuda.h). Null: operations on GPU memory are kUnsupported. Groups that are split from this
  // communicator use them, too.
  std::shared_ptr<Device> device = {};
  // true: the devices read each other's memory if all ranks share a host and all devices can do so. Equal on all ranks.
  bool device_peers = true;
  // If processes time-slice a GPU, as they do without NVIDIA's MPS, GPU vectors of at most this many bytes (all blocks
  // together) are staged through the host. Copies through the host need no time slice, but kernels would wait for
  // several time slices, and each wait takes about 0.15 ms. Equal on all ranks.
  std::uint64_t gpu_timeslice_staging_max_bytes = 1 << 20;
  // Size in bytes of a staging buffer. GPU vectors that are staged through the host are copied in pieces of this size.
  // Data that a rank only sends is sent directly from GPU memory if the transport supports that. The first staged
  // operation pins six buffers: input and output of three slots. A buffer has at least 512 bytes for each rank. Equal
  // on all ranks.
  std::uint64_t device_window_bytes = 4 << 20;
  // Name of the job in records and in the names of their files. Connect fills in job and generation.
  std::string job = {};
  std::uint64_t generation = 0;
  // How errors, logs and records name the ranks if this communicator has only some of the job's ranks
  // (base/rank_frame.h). Split sets it for its groups. Null: the ranks are those of the job.
  std::shared_ptr<const RankFrame> frame = {};
  // Rebuild calls this object. Connect sets it, and also `report`, which says how this communicator was formed. Null:
  // the communicator cannot be rebuilt.
  std::shared_ptr<Rebuilder> rebuilder = {};
  // Stores this rank's goodbye for peers that were never connected to it (collectives/communicator/kept_goodbyes.h).
  // Groups that are split from this communicator use it, too. Connect sets it if the store of the rendezvous outlives
  // the ranks. Null: such peers can only get the goodbye from this process, while its transport lives.
  std::shared_ptr<KeptGoodbyes> kept_goodbyes = {};
  RebuildReport report = {};
};

// Options in which a group may differ from the communicator that it is split from. Equal on all ranks of a color.
struct GroupOptions {
  std::optional<std::uint32_t> rails = {};       // nullopt: as many as the communicator that is split has
  std::optional<std::uint32_t> first_rail = {};  // nullopt: the communicator's
};

struct MessageOptions {
  std::optional<Duration> timeout = {};  // nullopt: the communicator's
};

// One issued operation. A Work is a small value, and its copies refer to the same operation. It must not outlive the
// buffers or the communicator.
class Work {
 public:
  Work() = default;

  // Returns the final status: success, the error for which the communicator failed, or the argument error of the call.
  // Advances pending operations while it waits.
  Status Wait();
  // Like Wait(), but returns kNotReady if `deadline` passes first. The operation continues. If this process is stopped
  // for more than a second during the wait, that postpones the deadline.
  Status Wait(TimePoint deadline);
  // Returns the final status if there is one. Also advances pending operations once, unless another thread does so.
  std::optional<Status> Test();
  // Calls `done` once with the final status: at once if the operation has ended, otherwise when it ends, from the
  // thread that advances operations. No lock is held, so `done` may issue and wait for operations of any communicator.
  // It must not destroy the communicator that calls it.
  void Then(std::function<void(const Status&)> done);

  // The argument error of the call, if the call was refused and nothing was started.
  const std::optional<Error>& refused() const { return refused_; }
  // 0: the operation never started (argument error), or it is a send or receive
  Sequence sequence() const { return sequence_; }
  // For a receive that succeeded: the sender, the tag and the number of elements.
  std::optional<Message> message() const;

 private:
  friend class CommunicatorCore;
  std::shared_ptr<CommunicatorCore> core_;
  Sequence sequence_ = 0;
  std::shared_ptr<MessageOperation> operation_;  // null unless this is a send or receive
  std::optional<Error> refused_;
};

class Communicator {
 public:
  // Creates this rank's communicator. Makes no connection: a lane is made when a schedule first needs it. REQUIRES:
  // every rank has a transport, and options.peers has the addresses of all ranks.
  static Result<std::unique_ptr<Communicator>> Create(CommunicatorOptions options);
  // If Close was not called before, peers that are still in an operation get kPeerAborted with the reason that this
  // rank left. If this rank made the communicator fail before its first operation ended, other ranks may not be
  // connected to it yet. The destructor then waits until all ranks know the cause, at most a second after the failure.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const;
  int world_size() const;

  // Combines the `count` elements of every rank element by element; every rank gets the result in `output`. In place:
  // input == output.
  Status AllReduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                   const OperationOptions& options = {});
  Work AllReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                      const OperationOptions& options = {});

  // Like AllReduce, but only the root gets the result. Other ranks' output is ignored. In place: input == output at the
  // root.
  Status Reduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, Rank root,
                const OperationOptions& options = {});
  Work ReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, Rank root,
                   const OperationOptions& options = {});

  // Copies the root's `input` to every rank's `output`. Other ranks' input is ignored. In place: input == output at the
  // root.
  Status Broadcast(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                   const OperationOptions& options = {});
  Work BroadcastAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                      const OperationOptions& options = {});

  // Sends every rank's `count` elements to every rank: block r of `output` is the input of rank r. In place: input is
  // this rank's block of the output (NCCL's convention).
  Status AllGather(const void* input, void* output, std::uint64_t count, DataType type,
                   const OperationOptions& options = {});
  Work AllGatherAsync(const void* input, void* output, std::uint64_t count, DataType type,
                      const OperationOptions& options = {});
  // Like AllGather, but rank r contributes counts[r] elements. Every rank must give the same counts.
  Status AllGatherV(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                    const OperationOptions& options = {});
  Work AllGatherVAsync(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                       const OperationOptions& options = {});

  // Every rank's input has world_size() blocks of `count` elements each. Combines the inputs element by element; rank r
  // gets block r of the result. In place: output is this rank's block of the input (NCCL's convention); the other
  // blocks are then undefined.
  Status ReduceScatter(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                       const OperationOptions& options = {});
  Work ReduceScatterAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                          const OperationOptions& options = {});
  // Like ReduceScatter, but block r has counts[r] elements. Every rank must give the same counts.
  Status ReduceScatterV(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                        ReduceOp op, const OperationOptions& options = {});
  Work ReduceScatterVAsync(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                           ReduceOp op, const OperationOptions& options = {});

  // Sends every rank's `count` elements to the root: block r of the root's `output` is the input of rank r. Other
  // ranks' output is ignored. In place: input is the root's own block of its output.
  Status Gather(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                const OperationOptions& options = {});
  Work GatherAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                   const OperationOptions& options = {});
  // Like Gather, but this rank contributes its own number of elements, `count`. Only the root needs all counts; other
  // ranks' `counts` are ignored and may be empty. REQUIRES at the root: counts[root] == count.
  Status GatherV(const void* input, std::uint64_t count, void* output, std::span<const std::uint64_t> counts,
                 DataType type, Rank root, const OperationOptions& options = {});
  Work GatherVAsync(const void* input, std::uint64_t count, void* output, std::span<const std::uint64_t> counts,
                    DataType type, Rank root, const OperationOptions& options = {});

  // Sends block r of the root's `input`, `count` elements, to the output of rank r. Other ranks' input is ignored. In
  // place: output is the root's own block of its input.
  Status Scatter(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                 const OperationOptions& options = {});
  Work ScatterAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                    const OperationOptions& options = {});
  // Like Scatter, but this rank gets its own number of elements, `count`. Only the root needs all counts, as in
  // GatherV.
  Status ScatterV(const void* input, std::span<const std::uint64_t> counts, void* output, std::uint64_t count,
                  DataType type, Rank root, const OperationOptions& options = {});
  Work ScatterVAsync(const void* input, std::span<const std::uint64_t> counts, void* output, std::uint64_t count,
                     DataType type, Rank root, const OperationOptions& options = {});

  // Sends block j of `input`, `count` elements, to rank j; block i of `output` is from rank i. `input` and
  // `output` must not overlap.
  Status AllToAll(const void* input, void* output, std::uint64_t count, DataType type,
                  const OperationOptions& options = {});
  Work AllToAllAsync(const void* input, void* output, std::uint64_t count, DataType type,
                     const OperationOptions& options = {});
  // Sends input_counts[j] elements to rank j and receives output_counts[i] elements from rank i. A rank needs only its
  // own counts. `input` and `output` must not overlap.
  Status AllToAllV(const void* input, std::span<const std::uint64_t> input_counts, void* output,
                   std::span<const std::uint64_t> output_counts, DataType type, const OperationOptions& options = {});
  Work AllToAllVAsync(const void* input, std::span<const std::uint64_t> input_counts, void* output,
                      std::span<const std::uint64_t> output_counts, DataType type,
                      const OperationOptions& options = {});

  // Returns when every rank has called Barrier.
  Status Barrier(const OperationOptions& options = {});
  Work BarrierAsync(const OperationOptions& options = {});

  // ---- messages between two ranks ----
  //
  // A send completes when its buffer is free again. A small message may not have been received by then. A larger one
  // (above eager_message_bytes, or sent without credit) has been received when its send completes. If two ranks both
  // send a large message before they receive, they wait for each other until their timeouts, as in MPI. SendRecv sends
  // and receives at the same time. A rank may send to itself.
  //
  // A receive's `count` is the capacity of its buffer; a shorter message leaves the rest unchanged. Both ends must name
  // the same type. A message that is longer or of another type gives kMismatch, with both lengths. The message is lost,
  // its sender gets the error if it still waits, and later messages are not affected. If a receive times out before a
  // message has come, or a send times out before the receiver has asked for its message, the operation is withdrawn
  // (kTimeout), and the communicator stays usable. A timeout during a transfer fails the communicator.
  //
  // A rank accepts messages while it is inside a call or has pending asynchronous operations. Close waits for all sends
  // and receives that were issued. While it closes, a rank refuses announced messages for which it has no receive. So a
  // send or receive that a closed rank will never answer ends with kClosed. Small messages that were never received are
  // dropped, with a warning in the log. A receive from kAnyRank makes no connections, so the death of a rank that was
  // never connected does not end it.
  Status Send(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
              const MessageOptions& options = {});
  Result<Message> Recv(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                       const MessageOptions& options = {});
  // Work::message describes what a receive got.
  Work SendAsync(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
                 const MessageOptions& options = {});
  Work RecvAsync(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                 const MessageOptions& options = {});

  // Sends and receives at the same time, so that rings and exchanges of any size cannot deadlock. The buffers must not
  // overlap.
  struct Outgoing {
    const void* buffer = nullptr;
    std::uint64_t count = 0;
    Rank to = kNoRank;
    Tag tag = 0;
  };
  struct Incoming {
    void* buffer = nullptr;
    std::uint64_t count = 0;
    Rank from_or_any = kAnyRank;
    Tag tag_or_any = kAnyTag;
  };
  Result<Message> SendRecv(const Outgoing& out, const Incoming& in, DataType type, const MessageOptions& options = {});

  // Collective. Registers an operation and returns its handle, which is the same on all ranks. Every rank must define
  // the same operations in the same order. kMismatch: names or commutativity differ; the error names both, on every
  // rank, and the communicator stays usable. kResource: more than kMaxUserOps. The operation lives as long as the
  // communicator; groups made by Split inherit it.
  Result<ReduceOp> DefineOperation(UserOperation operation);

  // Collective. Ranks with the same color form a communicator of their own, ordered by (key, rank). A rank with a
  // negative color joins no group and gets null. The group uses the same transport, but has its own lanes. Either all
  // ranks get their groups or none does: if one rank cannot make its group for lack of descriptors or memory, this
  // communicator fails on all ranks, and the error names that rank. If a communicator is aborted, its groups are
  // aborted, too. If it fails, each of its groups in which no collective has completed yet fails, too.
  // kInvalidArgument: wrong options; the communicator stays usable. kMismatch: the options of ranks of one color
  // differ.
  Result<std::unique_ptr<Communicator>> Split(int color, int key, const GroupOptions& options = {});

  // Allocates memory that the transport moves without a copy if it can. The returned object frees it. REQUIRES: no
  // operation uses the memory when it is freed.
  // Over shared memory: sizes of 64 KiB and more are in pages that peers map, as long as the system has enough shared
  // memory. The pages are reserved in this call, not when they are first touched. Otherwise it is plain memory, which
  // peers read through the kernel. Over RDMA: the memory is sent without a copy, and peers write the data of
  // collectives directly into it (docs/SECURITY.md), as long as the system allows this process to lock so much memory.
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes);
  // Registers memory of the caller, so that the transport moves it without a copy. Only RDMA supports this. The
  // registration must end before the memory is freed, and only when no operation uses the memory. kResource: the system
  // refuses, and the error says why; operations can still use the memory like any other.
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory);

  // Fails every pending and later operation: on this rank with kAborted and, through the control connections, on all
  // other ranks with kPeerAborted. The call does not wait for other ranks, ends in bounded time, and may be repeated.
  // Any thread.
  void Abort(std::string_view reason);

  // Notes that a language binding refused a call before it issued anything. `call` names the call and the reason. If
  // this rank then closes, ranks that wait for it in the refused operation fail with kMismatch and this text instead of
  // kClosed. The next operation that is issued cancels the note. This class itself notes the calls that it refuses. Any
  // thread.
  void NoteRefusal(std::string_view call);

  // Waits for issued operations, sends a goodbye to every connected peer, and waits for the goodbyes of those peers.
  // Operations that have not ended within the communicator's timeout fail then, on all ranks. Returns a failure that
  // earlier calls could not return because it was found later. Later operations give kClosed. A second Close returns
  // the same status as the first.
  Status Close();
  // Like Close, but takes at most `patience`, and does not need the other ranks to close. It is meant for the end of a
  // process. The goodbye is sent in any case. Receives for which no message has come end with kClosed. Other operations
  // that have not ended within `patience` fail on all ranks, as in Close. Ranks that are behind still get everything
  // that this rank has sent. If they need more, they get kClosed, even if they connect only later, as long as this
  // rank's transport lives or CommunicatorOptions::kept_goodbyes has the goodbye. Otherwise they get kPeerLost, with a
  // message that this rank may have left. The ranks' last operations are compared only if the other ranks close in
  // time.
  Status Leave(Duration patience);

  // Continues after ranks were lost. Returns the communicator of the next generation, with the surviving ranks, and
  // with joiners if the options leave room for them. Every rank that continues must call this, independently; no rank
  // waits for a rank that is known to be dead. This communicator ends. All ranks close it, as by Close, unless it has
  // failed or was aborted. Its groups (Split) are aborted. The new communicator shares nothing with the old one:
  // transport, lanes, shared memory and addresses are new, and connections from the old generation are refused. The
  // caller still has to destroy the old communicator, preferably at once. Operations of users must be defined again.
  // Buffers from Allocate stay valid, as ordinary memory for the new communicator.
  //
  // Errors:
  //   - kStale: the other ranks have continued without this one, because it came too late or they took it for dead. It
  //     cannot continue as a rank; a new process may join the others.
  //   - kRebuildFailed: by the deadline too few ranks came, or the store was lost, or every attempt lost another rank.
  //     The first cause says which. The call may be repeated.
  //   - kUnsupported: there is no rebuilder, or this is a group (Split).
  //   - kInvalidArgument: wrong options, or the communicator was rebuilt already.
  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildOptions& options = {});
  // How this communicator was formed: its generation and, if it was rebuilt, the old rank of each rank, and the ranks
  // that were lost.
  const RebuildReport& report() const;

  // Advances pending operations once; true if anything moved. Only needed without a progress thread (event loops,
  // simulation).
  bool Progress();

  // The first cause if the communicator has failed; otherwise nullopt. If a launched graph ended because another rank
  // failed, this call waits for that rank's error, at most a second. Any thread.
  std::optional<Error> failure() const;

  // Describes a call for Choose. Choose returns the algorithm that such a call would use, and the reason in words.
  struct Question {
    Collective collective = Collective::kAllReduce;
    // The count that the call would have. For AllGatherV and ReduceScatterV: the sum of all counts; for other ...V
    // forms: 0.
    std::uint64_t count = 0;
    DataType type = DataType::kUint8;
    ReduceOp op = ReduceOp::kSum;  // for reductions
    bool varying = false;          // true: the call is a ...V form, and its counts are not all equal
  };
  struct Choice {
    Algorithm algorithm;
    std::string reason;
    // Expected duration in microseconds, from the profile's measurements or the cost model. 0 for gather_v, scatter_v
    // and all_to_all_v, because no rank knows how many bytes move in all.
    double expected_us = 0;
    bool measured = false;  // true: from measurements
  };
  Result<Choice> Choose(const Question& question, const OperationOptions& options = {}) const;

  // Which rank is on which host, and how many cores the ranks of each host share. The choice of algorithms depends on
  // it and on the profile. Valid while the communicator lives.
  const Topology& topology() const;

  // Names of the transports that carry bytes between this rank and the others: "tcp", "shm", "shm+tcp" if some are on
  // other hosts; "none" if there are no others. For a peer without a lane yet: the transport that would be tried.
  std::string Transports() const;

  // Describes the path to each peer in one line, for people and logs. If GPU memory was moved, a further line says by
  // which method it was moved most recently.
  std::string DescribePaths() const;

  // The identity that a rank published at the rendezvous. Valid while the communicator lives. REQUIRES: 0 <= rank <
  // world_size().
  const PeerIdentity& peer(Rank rank) const;

  // The path to one peer. For a peer without a lane yet: the path that would be tried. REQUIRES: as for peer().
  PeerPath PathTo(Rank peer) const;

  // The contents of the flight recorders of this communicator and of its groups (Split) that still live, for `rondo
  // trace`. The text is JSON with the field names of c10d's recorder (docs/DIAGNOSING.md). `reason` becomes part of the
  // text: why the dump was made. Any thread, at any time; does not block operations.
  std::string DumpRecords(std::string_view reason = "call") const;
  // Writes the text of DumpRecords to a file in options.record_dir and returns its path. A later call replaces the
  // file. kInvalidArgument: there is no record_dir. kResource: the system refused, and the error says why. Any thread.
  Result<std::string> WriteRecords(std::string_view reason = "call") const;

 private:
  friend class CommunicatorCore;  // Split
  explicit Communicator(std::shared_ptr<CommunicatorCore> core);
  static Result<std::unique_ptr<Communicator>> Own(const std::shared_ptr<CommunicatorCore>& core);
  std::shared_ptr<CommunicatorCore> core_;
};

}  // namespace rondo
