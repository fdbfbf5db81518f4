// What runs a communicator's operations, one after the other: the engines with their schedules, or the board. To
// everybody else they are one.
//
// Thread rule: the owner of the endpoint; Withdraw any thread.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "collectives/engine/railed_engine.h"
#include "collectives/intranode/intranode_path.h"

namespace rondo {

class Runner {
 public:
  // A mover for each rail; the board uses the first.
  Runner(const EngineOptions& options, const RailOptions& rails, Endpoint& endpoint, std::span<Mover* const> movers)
      : rank_(options.rank),
        world_size_(options.world_size),
        mover_(*movers.front()),
        engine_(options, rails, endpoint, movers) {}

  // REQUIRES: the board is ready, on all ranks before the same operation.
  void UseBoard(Board& board) {
    board_.emplace(rank_, world_size_, board, mover_);
    board_->RunsOn(core_);
    board_seen_.store(&*board_);
  }
  bool has_board() const { return board_.has_value(); }

  Status Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers, double scale) {
    return engine_.Start(plan, operation, buffers, scale);
  }
  // REQUIRES: has_board(), IntranodePath::Serves(operation).
  void StartOnBoard(const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
                    bool in_place) {
    board_->Start(operation, buffers, scale, in_place);
  }

  // How many lanes to each peer such an operation takes.
  std::uint32_t RailsOf(const Plan& plan, const OperationDescriptor& operation) const {
    return engine_.RailsOf(plan, operation);
  }

  // Whether there is a board by which operations like this one may be done where they lie, on devices.
  bool ServesDevices(const OperationDescriptor& operation) const { return board_ && board_->ServesDevices(operation); }
  // REQUIRES: ServesDevices(operation).
  void StartOnDevices(const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
                      bool in_place, DevicePeers* peers, DeviceProgram* program = nullptr) {
    board_->StartOnDevices(operation, buffers, scale, in_place, peers, program);
  }
  bool declined() const { return board_->declined(); }
  bool devices_take_turns() const { return board_ && board_->is_time_sliced(); }

  // As the engine's.
  bool running() const { return on_board() || engine_.running(); }
  Result<Progress> Poll() { return on_board() ? board_->Poll() : engine_.Poll(); }
  void Drain() {
    if (board_) board_->Drain();
    engine_.Drain();
  }
  // Before memory that others may still read on the board is its user's again, where Drain has to wait.
  void Withdraw() {
    if (IntranodePath* const board = board_seen_.load(); board != nullptr) board->Withdraw();
  }
  const OperationDescriptor& operation() const { return on_board() ? board_->operation() : engine_.operation(); }
  std::vector<Standing> Waiting() const { return on_board() ? board_->Waiting() : engine_.Waiting(); }
  bool WaitsFor(Rank peer) const { return on_board() ? board_->WaitsFor(peer) : engine_.WaitsFor(peer); }
  std::optional<Engine::Trouble> FindTrouble() const { return engine_.FindTrouble(); }
  std::optional<Error> FindStranger() { return engine_.FindStranger(); }
  bool MoverBusy() const { return on_board() ? board_->MoverBusy() : engine_.MoverBusy(); }
  // The board has come, and no schedule runs.
  bool is_on_board_alone() const { return board_ && !engine_.running(); }
  // Whether the board could go on now or in the next moment; looks for less time than reading a clock takes.
  bool GlanceAtBoard() const {
    constexpr int kGlances = 16;
    if (!on_board()) return false;
    for (int i = 0; i < kGlances; ++i)
      if (board_->HasNews()) return true;
    return false;
  }
  // Of an operation on the board.
  IntranodePath::Awaited WhereAreAwaited() const {
    return on_board() ? board_->WhereAreAwaited() : IntranodePath::Awaited::kUnknown;
  }
  // Which core that is now (Waiter::Core).
  void RunsOn(int core) {
    core_ = core;
    if (board_) board_->RunsOn(core);
  }
  // For a sleeper's second look, beside Endpoint::Arm: whether the board could go on.
  bool HasNews() const { return on_board() && board_->HasNews(); }

 private:
  bool on_board() const { return board_ && board_->running(); }

  const Rank rank_;
  const int world_size_;
  Mover& mover_;
  int core_ = -1;
  RailedEngine engine_;
  std::optional<IntranodePath> board_;
  std::atomic<IntranodePath*> board_seen_{nullptr};
};

}  // namespace rondo
