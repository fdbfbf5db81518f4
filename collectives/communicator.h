// The public face: N ranks, each makes the same call, every one of them holds the result.
//
//   // collectives/connect.h
//   auto communicator = rondo::Connect({.rendezvous = "env://", .environment = rondo::ProcessEnvironment});
//   auto status = (*communicator)->AllReduce(in, out, count, DataType::kFloat32, ReduceOp::kSum);
//
// Contract
//   Order      All ranks issue the same collectives in the same order. The collectives of one communicator are serial:
//              the next starts when this rank's part of the last is complete, so back-to-back operations on one buffer
//              are well-defined. Independent streams take a communicator of their own (Split).
//   Buffers    Lent from the call until it (or the Work's Wait, or its callback) returns final, success or error; after
//              that nobody touches them. Any alignment. Input and output must not overlap, except in place, where they
//              are one memory as each collective says. What a collective ignores on a rank, and what has no elements,
//              may be null. After an error the output (and data in place) is undefined, an out-of-place input is
//              intact.
//   Counts     Elements, 0 and more than 2^32 bytes included. `count` is that of one block. A buffer that holds a block
//              for each rank has them packed in rank order; in a world of P it has P * count elements (as in NCCL and
//              MPI). The ...V forms have a count for each block instead: spans of world_size() counts, lent until the
//              call returns, of blocks packed in rank order. A zero count still meets the other ranks.
//   Threads    One thread at a time issues collectives (kInvalidArgument says so where two are caught); any thread may
//              Wait, Test, Abort. The thread that waits drives the engine; a progress thread drives operations that
//              nobody waits for.
//   Errors     A wrong argument found locally (kInvalidArgument, kUnsupported) starts nothing, and the
//              communicator goes on. A failed operation fails the communicator on all ranks that share it: each later
//              call returns the first cause. Ranks that disagree about an operation get kMismatch with both
//              descriptors. Words of a group's errors name ranks of the job, with the group's numbers beside; numbers
//              (Error::culprit) are the group's. Bytes that arrived damaged give kCorrupt where checksums are on, and
//              go unnoticed where not, but for what the transport checks (TCP: 16 bits a segment).
//   Deadlines  Every operation ends within its timeout, counted from the call. Expiry says who is missing.
//   Devices    Operations on memory of a GPU (OperationOptions::memory) come after all work that is on their stream
//              when they are called, and what is put there afterwards waits for them; nothing else does, least of all
//              the device. Their memory is lent until then. Asynchronous ones need no Wait: the stream waits. After an
//              error the stream goes on, and the output is undefined. All such operations of a communicator are on
//              one device. Deadlines count from the call, whenever the stream gets there.
//   Graphs     On a stream that is being captured such an operation becomes part of the graph. Every rank captures it,
//              in the same order as ever; the call waits for the others, within the timeout, and moves nothing. Each
//              launch then does it, by the devices alone. All ranks launch the same operations in the same order,
//              and of one communicator's never two at once: not on two streams, nor on branches of a graph. Calls and
//              launches are in one order on all ranks, too: a call may wait for the device. The memory is lent, and
//              the communicator must live, for as long as any rank's launch may be under way, also after a failure. A
//              rank that does not come to an operation for as long as its timeout was when captured, that launches
//              another one than the others, or that dies, fails the communicator: whoever calls it next is told, and
//              failure(), which is what to ask after a stream was waited for. From then on graphs do nothing, and end.
//              kUnsupported where it takes the host: ranks on several hosts or more than 16, devices that do not reach
//              each other's memory, counts of each rank's own, wide partials, comparisons, users' operations, any
//              algorithm but intranode. The capture is then as it was before the call.
//   Messages   Send and Recv are outside the order of collectives: all in flight at once, issued by any thread, ordered
//              per (sender, tag). A message that its receive cannot take (longer, another type), a receive that nobody
//              answered and a send that nobody received in time fail alone; the communicator goes on.
//   Results    The same bits on every rank. The same bits run to run for the same world, options and algorithm. With
//              `reproducible` the same bits for every algorithm, transport and timing (docs/DESIGN.md).
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
#include "collectives/model/place.h"
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

// Who a rank is, for error messages.
struct PeerIdentity {
  std::string host;
  std::string host_id;  // equal on two ranks only if they share a kernel and its network
  std::uint64_t pid = 0;
  std::string address;  // Transport::Address(), opaque
  std::string ip = {};  // the numeric address at which others reach it, for people; "": not known, or not on a network
  int cores = 0;        // that the ranks of its host share; 0: not known, taken for enough. Equal on all ranks
  // Why this rank shares no memory with it, where it may be on this host all the same; for people.
  std::string not_shared = {};
};

// How bytes get from this rank to a peer.
struct PeerPath {
  std::string transport;    // "tcp"
  std::string description;  // in words, as Communicator::DescribePaths has it
  LinkEnd link = {};        // at this end
};

struct CommunicatorOptions {
  Rank rank = 0;
  std::vector<PeerIdentity> peers;  // by rank; its size is the world size
  std::uint64_t id = 1;  // of this communicator, equal on all its ranks, unique within the job and generation
  std::shared_ptr<Transport> transport;
  std::shared_ptr<const Clock> clock;                  // null: the machine's
  std::shared_ptr<Waiter> waiter;                      // null: sleeps in the kernel
  std::function<std::unique_ptr<Mover>()> make_mover;  // null: the driving thread copies and reduces
  Logger* logger = nullptr;                            // outlives the communicator
  std::optional<WaitPolicy> wait_policy;               // nullopt: from the local ranks and this machine's cores
  Duration timeout = std::chrono::seconds(60);         // of every operation that names none, and of Close
  bool progress_thread = true;                         // false: operations advance only in Wait, Test and Progress
  std::uint32_t frame_bytes = 1 << 20;  // payload of one frame at most; a multiple of 64; equal on all ranks
  std::uint64_t windows_from_bytes =
      64 << 10;  // transfers from this size on are placed by push where possible; equal on all ranks
  // Rails (transport/rail.h): large collectives of equal counts are cut into so many shares, which go side by side over
  // lanes of their own; messages and small ones take the first. At most kMostRails; equal on all ranks. Not where all
  // ranks share memory. Each keeps its own scratch and, where bits depend on how a vector is cut (Results, above), is
  // cut for itself.
  std::uint32_t rails = 1;
  std::uint64_t least_rail_bytes = 256 << 10;  // of an operation, for each rail; equal on all ranks
  // Which is its first: a communicator on other rails than another one takes other addresses or ports, where there are
  // several. Equal on all ranks.
  std::uint32_t first_rail = 0;
  std::uint32_t max_pending_operations = 1024;               // issued and not complete; one more gives kResource
  std::uint64_t max_scratch_bytes = std::uint64_t{1} << 30;  // an algorithm that needs more gives kResource
  std::uint32_t max_cached_plans = 128;
  // Messages (Send, Recv). What peers may send before this rank wants it is at most eager_credit_bytes each and
  // max_announced_messages names of more; beyond that their sends wait with them.
  std::uint64_t eager_message_bytes = 64 << 10;  // up to this a message goes out at once, while there is credit
  std::uint64_t eager_credit_bytes = 512 << 10;  // equal on all ranks
  std::uint32_t max_announced_messages = 1024;   // equal on all ranks
  std::uint32_t max_pending_messages = 4096;     // issued here and not complete; one more gives kResource
  // CRC-32C of every frame on lanes, header and payload, of collectives and of messages; equal on all ranks. What does
  // not match is never summed, passed on or reported as a result: the rank that finds it fails with kCorrupt, which
  // names peer, lane and place, and with it the communicator. Not covered: what ranks of a host read in each other's
  // memory (algorithm intranode), which is no wire. Takes two passes over the data, at the speed of a cache, and 64 KiB
  // a lane.
  bool checksums = false;
  // The next three stand for every operation that does not say otherwise; equal on all ranks.
  bool reproducible = false;  // every reduction is the left fold in rank order, ((0 op 1) op 2) op ...
  // Reductions of 16-bit floats travel and combine in float32, and round once at the end (sum, prod, avg, premul_sum;
  // not users' operations). Takes 4 bytes of scratch an element. Averages of integers and of float16 always travel in a
  // wider type (AverageTypeOf in base/dtype.h), whatever is said here.
  bool wide_partials = false;
  // After every collective that gives all ranks the same (all_reduce, broadcast, all_gather, all_gather_v) they compare
  // its checksum, by an all_gather of 4 bytes; elsewhere this does nothing. A difference is kCorrupt on all ranks: it
  // names those whose result differs from that of more than half of the ranks, else tells all checksums. For what no
  // checksum of a wire finds: memory and processors that err, functions of users that are not the same everywhere. Such
  // an operation counts as two (max_pending_operations, Work::sequence).
  bool compare_results = false;
  // What algorithms are chosen by, where a call names none (model/selector.h); equal on all ranks. Null:
  // DefaultProfile().
  std::shared_ptr<const Profile> profile = {};
  // The flight recorder (docs/DIAGNOSING.md) keeps that many collectives, and as many messages, rounded up to a power
  // of two; 0: none. Each takes 128 bytes. Groups that are split from this one have recorders of their own.
  std::uint32_t recorded_operations = 1024;
  // Where it is written when the communicator fails, once: a file per rank, DumpRecords's text. The caller that ends
  // the failed operations writes it, after all that wait have been told. "": nowhere. It must be there.
  std::string record_dir = {};
  // GPUs (cuda/cuda.h); null: operations on their memory are kUnsupported. Groups that are split from this one have it,
  // too.
  std::shared_ptr<Device> device = {};
  // Where ranks share a host, their devices read each other's memory where it lies, if all can. Equal on all ranks.
  bool device_peers = true;
  // A limit in bytes. Vectors (all blocks of one) up to it are staged through the host where processes time-slice a
  // GPU, as they do without NVIDIA's MPS: copies through the host need no time slice, while devices would wait for
  // several, each some 0.15 ms. Equal on all ranks.
  std::uint64_t device_turns_host_bytes = 1 << 20;
  // The bytes of a window in which other vectors of devices are staged through the host. What a rank only gives away is
  // sent from where it lies, where the transport can. The first such operation pins six windows: input and output of
  // three. A window has at least 512 bytes for each rank. Equal on all ranks.
  std::uint64_t device_window_bytes = 4 << 20;
  std::string job = {};  // this and the next name records and their files; Connect fills them in
  std::uint64_t generation = 0;
  // Of a communicator of some of the job's ranks: how these are named in errors, logs and records (base/rank_frame.h).
  // Split makes one for its groups. Null: its ranks are the job's.
  std::shared_ptr<const RankFrame> frame = {};
  // What Rebuild stands on, and how this communicator came about (its generation is the one above); Connect fills in
  // both. Null: it cannot be rebuilt.
  std::shared_ptr<Rebuilder> rebuilder = {};
  // Where this rank's goodbye is kept for peers that were never connected to it
  // (collectives/communicator/kept_goodbyes.h); groups that are split from this communicator use it, too. Connect fills
  // it in where the ranks meet in a store that outlives them. Null: such peers are told by this process, as long as its
  // transport lives, and by nothing later.
  std::shared_ptr<KeptGoodbyes> kept_goodbyes = {};
  RebuildReport report = {};
};

// What a group has otherwise than the communicator that it is split from. Equal on all ranks of a color.
struct GroupOptions {
  std::optional<std::uint32_t> rails = {};       // nullopt: as many
  std::optional<std::uint32_t> first_rail = {};  // nullopt: the same
};

struct MessageOptions {
  std::optional<Duration> timeout = {};  // nullopt: the communicator's
};

// One issued operation. A small value; copies name the same operation. Outlives neither buffers nor communicator.
class Work {
 public:
  Work() = default;

  // Final: success, or the error for which the communicator failed, or the argument error of the call. Drives the
  // engine.
  Status Wait();
  // kNotReady when `deadline` passes first; the operation goes on.
  Status Wait(TimePoint deadline);
  // The final status if there is one; also drives the engine once if nobody else does.
  std::optional<Status> Test();
  // Calls `done` once with the final status, from the thread that drives then (or at once), with nothing held: it may
  // issue and wait for operations of any communicator. It must not destroy the one that calls it.
  void Then(std::function<void(const Status&)> done);

  // The argument error of the call, if that is why there is nothing to wait for.
  const std::optional<Error>& refused() const { return refused_; }
  Sequence sequence() const { return sequence_; }  // 0: never started (argument error), or a send or receive
  // Of a receive that has ended with success: who sent how much under which tag.
  std::optional<Message> message() const;

 private:
  friend class CommunicatorCore;
  std::shared_ptr<CommunicatorCore> core_;
  Sequence sequence_ = 0;
  std::shared_ptr<MessageOperation> operation_;  // of a send or receive
  std::optional<Error> refused_;
};

class Communicator {
 public:
  // Makes no connection: lanes are made when a schedule first needs them. REQUIRES a transport on every rank whose
  // addresses are in options.peers.
  static Result<std::unique_ptr<Communicator>> Create(CommunicatorOptions options);
  // Without Close before, peers still in an operation are told that this rank left (kPeerAborted). One that this rank
  // has made fail before its first operation ended lasts until all ranks know why, for at most a second after that:
  // they may not be connected to it yet.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Rank rank() const;
  int world_size() const;

  // Every rank's `count` elements combined element by element; `output` of every rank gets the result. In place:
  // input == output.
  Status AllReduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                   const OperationOptions& options = {});
  Work AllReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                      const OperationOptions& options = {});

  // The same for the root alone. Other ranks' output is ignored. In place: input == output at the root.
  Status Reduce(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, Rank root,
                const OperationOptions& options = {});
  Work ReduceAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op, Rank root,
                   const OperationOptions& options = {});

  // The root's `input` to every rank's `output`. Other ranks' input is ignored. In place: input == output at the root.
  Status Broadcast(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                   const OperationOptions& options = {});
  Work BroadcastAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                      const OperationOptions& options = {});

  // Every rank's `count` elements to every rank: block r of `output` is the input of rank r. In place: input is this
  // rank's block of the output (NCCL's convention).
  Status AllGather(const void* input, void* output, std::uint64_t count, DataType type,
                   const OperationOptions& options = {});
  Work AllGatherAsync(const void* input, void* output, std::uint64_t count, DataType type,
                      const OperationOptions& options = {});
  // Rank r brings counts[r] elements. Every rank gives the same counts.
  Status AllGatherV(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                    const OperationOptions& options = {});
  Work AllGatherVAsync(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                       const OperationOptions& options = {});

  // Inputs of world_size() blocks of `count` elements, combined element by element; rank r gets block r of the result.
  // In place: output is this rank's block of the input (NCCL's convention); the other blocks are then undefined.
  Status ReduceScatter(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                       const OperationOptions& options = {});
  Work ReduceScatterAsync(const void* input, void* output, std::uint64_t count, DataType type, ReduceOp op,
                          const OperationOptions& options = {});
  // Block r has counts[r] elements. Every rank gives the same counts.
  Status ReduceScatterV(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                        ReduceOp op, const OperationOptions& options = {});
  Work ReduceScatterVAsync(const void* input, void* output, std::span<const std::uint64_t> counts, DataType type,
                           ReduceOp op, const OperationOptions& options = {});

  // Every rank's `count` elements to the root: block r of its `output` is the input of rank r. Other ranks' output is
  // ignored. In place: input is the root's own block of its output.
  Status Gather(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                const OperationOptions& options = {});
  Work GatherAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                   const OperationOptions& options = {});
  // This rank brings `count` elements. The root alone knows all counts; other ranks' `counts` are ignored and may be
  // empty. REQUIRES at the root: counts[root] == count.
  Status GatherV(const void* input, std::uint64_t count, void* output, std::span<const std::uint64_t> counts,
                 DataType type, Rank root, const OperationOptions& options = {});
  Work GatherVAsync(const void* input, std::uint64_t count, void* output, std::span<const std::uint64_t> counts,
                    DataType type, Rank root, const OperationOptions& options = {});

  // Block r of the root's `input`, `count` elements, to the output of rank r. Other ranks' input is ignored. In place:
  // output is the root's own block of its input.
  Status Scatter(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                 const OperationOptions& options = {});
  Work ScatterAsync(const void* input, void* output, std::uint64_t count, DataType type, Rank root,
                    const OperationOptions& options = {});
  // This rank gets `count` elements. The root alone knows all counts, as in GatherV.
  Status ScatterV(const void* input, std::span<const std::uint64_t> counts, void* output, std::uint64_t count,
                  DataType type, Rank root, const OperationOptions& options = {});
  Work ScatterVAsync(const void* input, std::span<const std::uint64_t> counts, void* output, std::uint64_t count,
                     DataType type, Rank root, const OperationOptions& options = {});

  // Block j of `input`, `count` elements, goes to rank j; block i of `output` comes from rank i. Not in place.
  Status AllToAll(const void* input, void* output, std::uint64_t count, DataType type,
                  const OperationOptions& options = {});
  Work AllToAllAsync(const void* input, void* output, std::uint64_t count, DataType type,
                     const OperationOptions& options = {});
  // input_counts[j] elements go to rank j, output_counts[i] come from rank i; each rank knows only its own.
  Status AllToAllV(const void* input, std::span<const std::uint64_t> input_counts, void* output,
                   std::span<const std::uint64_t> output_counts, DataType type, const OperationOptions& options = {});
  Work AllToAllVAsync(const void* input, std::span<const std::uint64_t> input_counts, void* output,
                      std::span<const std::uint64_t> output_counts, DataType type,
                      const OperationOptions& options = {});

  // Returns when every rank has called it.
  Status Barrier(const OperationOptions& options = {});
  Work BarrierAsync(const OperationOptions& options = {});

  // ---- messages between two ranks ----
  //
  // A send ends when its buffer is free again: a small message may not have been received then, a larger one (above
  // eager_message_bytes, or without credit) has been. Two ranks that both send a large message before they receive wait
  // for each other until their timeouts, as in MPI; SendRecv does both at once. A rank may send to itself.
  //
  // A receive's `count` is the room; a shorter message leaves the rest as it was. Both ends must name the same type. A
  // longer message or one of another type gives kMismatch, with both lengths; the message is lost, its sender is told
  // if it still waits, and later messages are not concerned. A timeout of a receive that has no message yet, or of a
  // send that was not asked for yet, takes it back (kTimeout), and the communicator goes on; in the midst of a transfer
  // it fails the communicator.
  //
  // Ranks listen while they are inside a call or have asynchronous operations under way. Close waits for all sends and
  // receives that were issued, and from its beginning refuses what other ranks announce and nobody here has a receive
  // for, so that a send or receive that a closed rank will not answer ends with kClosed. Small messages that nobody
  // received are dropped, with a warning to the log. A receive from kAnyRank makes no connections, so the death of a
  // rank that was never met does not end it.
  Status Send(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
              const MessageOptions& options = {});
  Result<Message> Recv(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                       const MessageOptions& options = {});
  // Work::message tells what a receive got.
  Work SendAsync(const void* buffer, std::uint64_t count, DataType type, Rank to, Tag tag,
                 const MessageOptions& options = {});
  Work RecvAsync(void* buffer, std::uint64_t count, DataType type, Rank from_or_any, Tag tag_or_any,
                 const MessageOptions& options = {});

  // Both at once, so that rings and exchanges of any size cannot wait for themselves. The buffers must not overlap.
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
  // Collective. Gives the number under which this operation is used, the same on all ranks; every rank must define the
  // same operations in the same order. kMismatch where names or commutativity differ: it names both, on every rank, and
  // the communicator goes on. kResource beyond kMaxUserOps. Lives as long as the communicator; Split hands it on.
  Result<ReduceOp> DefineOperation(UserOperation operation);

  // Collective. Ranks with the same color form a communicator of their own, ordered by (key, rank); a negative color
  // joins none and gets null. Same transport, own lanes. All ranks get their groups or none does: where one has no
  // descriptor or memory left for its own, this communicator fails on all of them and names that rank. Aborting a
  // communicator aborts those split from it; one that fails takes along those in which no collective has ended yet.
  // kInvalidArgument: the options, and the communicator goes on; kMismatch: ranks of a color have others.
  Result<std::unique_ptr<Communicator>> Split(int color, int key, const GroupOptions& options = {});

  // Memory that the transport moves without a copy where it can; freed by its destructor, which REQUIRES that no
  // operation uses it. In shared memory that is memory which peers map, from 64 KiB on and as long as the machine has
  // such memory to give (a page is taken when this is called, not when it is first touched); else plain memory, which
  // they read through the kernel. By RDMA it is sent from where it lies, and peers write there what a collective
  // expects (docs/SECURITY.md), as long as so much memory may be locked.
  Result<std::unique_ptr<Memory>> Allocate(std::size_t bytes);
  // The same for memory of the caller's, as far as that is possible: by RDMA. The registration is to end before that
  // memory is freed, and while no operation uses it. kResource: the system refuses, and why; the memory is as good for
  // operations as any other.
  Result<std::unique_ptr<Registration>> Register(MutableBytes memory);

  // Fails every pending and later operation here with kAborted and, over control connections, on all other ranks with
  // kPeerAborted. Local, bounded, idempotent, any thread.
  void Abort(std::string_view reason);

  // For bindings, which refuse some calls themselves before they are issued: `call` names the call and says why. If
  // this rank then closes, ranks that wait for it in that operation fail with kMismatch and these words instead of
  // kClosed. The next operation that is issued makes the note void. Calls that this class refuses are noted already.
  // Any thread.
  void NoteRefusal(std::string_view call);

  // Waits for issued operations, says goodbye, and waits until every connected peer has too. What has not ended within
  // the communicator's timeout fails then, on all ranks. Reports a failure that the last call could not see yet. Later
  // operations give kClosed. A second Close returns what the first did.
  Status Close();
  // Closes like Close, but within `patience`, and whether or not the other ranks close too: for the end of a process.
  // It says goodbye in any case. Receives that no message has come for are given up with kClosed; other operations that
  // have not ended by then fail on all ranks, as by Close. Later ranks get everything that this rank has sent, and
  // kClosed where they still need it: also those that connect to it only then, as long as its transport lives or
  // CommunicatorOptions::kept_goodbyes says it; otherwise they get kPeerLost, which says that this rank may have left.
  // Their last operations are compared only if they close in time.
  Status Leave(Duration patience);

  // Goes on after ranks were lost: the communicator of those who are left, and of newcomers where the options give them
  // room, one generation later. Every rank that goes on calls this, on its own time; none waits for one that is known
  // to be dead. This communicator ends with it: one in order is closed (by all ranks, as by Close), one that has failed
  // or was aborted needs nothing; communicators split from it are aborted. Nothing of it reaches the new one:
  // transport, lanes, shared memory and addresses are made anew, and the old one's are refused. It stays the caller's
  // to destroy, which is best done at once. Operations defined by users are to be defined anew; buffers from Allocate
  // stay valid, and are ordinary memory to the new one.
  //
  // Errors: kStale: the others have gone on without this rank (it came too late, or they took it for dead); it can only
  // join them as a new process. kRebuildFailed: too few came, or the store is gone, or every try lost another rank, by
  // the deadline; the first cause says which, and the call may be repeated. kUnsupported: there is no rebuilder, or
  // this is a group (Split). kInvalidArgument: the options; or it was rebuilt already.
  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildOptions& options = {});
  // How this communicator came about: its generation, and of a rebuilt one who came from where and who is gone.
  const RebuildReport& report() const;

  // Drives the engine once; true if anything moved. Only needed without a progress thread (event loops, simulation).
  bool Progress();

  // The first cause, once the communicator has failed. Any thread. Where a launched graph has ended because another
  // rank failed, that one's reason is waited for, a second at most.
  std::optional<Error> failure() const;

  // The algorithm that a call would use, and why, in words.
  struct Question {
    Collective collective = Collective::kAllReduce;
    std::uint64_t count = 0;  // as in the call; of all blocks together in AllGatherV, ReduceScatterV; else 0 in ...V
    DataType type = DataType::kUint8;
    ReduceOp op = ReduceOp::kSum;  // of reductions
    bool varying = false;          // a ...V form, counts not all equal
  };
  struct Choice {
    Algorithm algorithm;
    std::string reason;
    // What the profile's times, or the cost model, promise. 0 where no rank knows how much it is that moves: of
    // gather_v, scatter_v and all_to_all_v.
    double expected_us = 0;
    bool measured = false;  // the former
  };
  Result<Choice> Choose(const Question& question, const OperationOptions& options = {}) const;

  // Which rank is on which host, and how many cores each host's ranks share: what choices depend on beside the profile.
  // Valid while the communicator lives.
  const Place& place() const;

  // What carries bytes between this rank and the others, by name: "tcp", "shm", "shm+tcp" where some are on other
  // hosts; "none" alone in the world. With a peer that no operation has met yet, what would be tried.
  std::string Transports() const;

  // The path to each peer as chosen, one line each, for `explain` and logs; and which way memory of devices has gone
  // last, if any has.
  std::string DescribePaths() const;

  // Who a rank is, as it said when the ranks met. Valid while the communicator lives. REQUIRES: 0 <= rank <
  // world_size().
  const PeerIdentity& peer(Rank rank) const;

  // The path to one peer; of one that no operation has met yet, what would be tried. REQUIRES: as above.
  PeerPath PathTo(Rank peer) const;

  // What the flight recorder holds, of this communicator and of those split from it that still live: JSON text with the
  // field names of c10d's recorder (docs/DIAGNOSING.md), for `rondo trace`. Any thread, at any time; nothing waits for
  // it. `reason` stands in it: why it was asked for.
  std::string DumpRecords(std::string_view reason = "call") const;
  // The same into a file in options.record_dir; gives its path. A later one replaces it. kInvalidArgument: there is no
  // record_dir. kResource: the system refused, and how. Any thread.
  Result<std::string> WriteRecords(std::string_view reason = "call") const;

 private:
  friend class CommunicatorCore;  // Split
  explicit Communicator(std::shared_ptr<CommunicatorCore> core);
  static Result<std::unique_ptr<Communicator>> Own(const std::shared_ptr<CommunicatorCore>& core);
  std::shared_ptr<CommunicatorCore> core_;
};

}  // namespace rondo
