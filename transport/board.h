// A board: memory that all ranks of an endpoint have mapped, a part for each to write and for all to read
// (collectives/engine/board_path.h). Only endpoints whose ranks all share one host have one.
//
// Making it is collective: every rank asks for it (Endpoint::OpenBoard) and then polls until its state is final, which
// is the same on all ranks. Nobody uses it before.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/ids.h"

namespace rondo {

// Most ranks of a board. A larger world on one host uses lanes.
inline constexpr int kMaxBoardRanks = 64;

// Where memory lies in a shared region (Transport::Allocate) of its rank.
struct SharedPlace {
  std::uint32_t region = 0;  // 0: in none
  std::uint64_t offset = 0;
};

enum class BoardState : std::uint8_t {
  kMaking,
  kReady,  // on all ranks
  kNone,   // on no rank; Board::why() says why
};

class Board {
 public:
  virtual ~Board() = default;
  virtual BoardState state() const = 0;
  virtual const std::string& why() const = 0;
  // Not null: it can neither be made nor be done without; on this rank alone.
  virtual const Error* failure() const = 0;
  // While it is being made: who has not answered yet, as far as this rank knows.
  virtual std::vector<Rank> Missing() const = 0;
  // Of a rank, zeroed when the board was made, aligned to pages; that rank writes there, all read. REQUIRES: kReady.
  virtual MutableBytes part(Rank rank) = 0;
  // Wakes the ranks that sleep and may wait for what was just published (memory_order_seq_cst). Cheap where nobody
  // does.
  virtual void RingSleepers() = 0;

  // ---- regions, which ranks read where they lie; REQUIRE: kReady ----
  // Lets go of what other ranks have freed. What Find gave is good until the next call of this.
  virtual void LetGoOfFreed() = 0;
  // Where all of this rank's `memory` lies.
  virtual SharedPlace Locate(Bytes memory) = 0;
  // Shows a region of this rank to all others, before they are told its number. False: it cannot be done, at present.
  virtual bool Show(std::uint32_t region) = 0;
  // Where another rank's memory lies here, for reading; null: it cannot be mapped here.
  virtual const std::byte* Find(Rank rank, const SharedPlace& place, std::uint64_t bytes) = 0;
};

}  // namespace rondo
