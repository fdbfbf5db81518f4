// Schedules as text, for people, diffs and golden files: Parse(Print(s)) == s for every schedule whose unused fields
// have their defaults, as the builder's do. The ring's first rank in a world of three, in place:
//
//   schedule all_reduce ring world 3 root 0 in_place chunks 3
//   rank 0
//     0: send output[2] to 1 transfer 2
//     1: recv_reduce output[1] = output[1] op rank 2 transfer 1
//     2: send output[1] to 1 transfer 4 after 1 raw
//     3: recv_reduce output[0] = output[0] op rank 2 transfer 3 finish
//     ...
//
// Grammar, one line per line; what follows a '#' and empty lines are skipped; words are separated by blanks:
//
//   schedule = header { "rank" RANK { step } }
//   header   = "schedule" COLLECTIVE ALGORITHM "world" N "root" RANK ("in_place" | "out_of_place") ["scaled"] "chunks"
//   N step     = INDEX ":" what ["scale"] ["finish"] ["after" INDEX kind { "," INDEX kind }] what     = "send" range
//   "to" RANK "transfer" N
//            | "recv" range "from" RANK "transfer" N
//            | "recv_reduce" range "=" ( range "op" "rank" RANK | "rank" RANK "op" range ) "transfer" N
//            | "copy" range "=" range
//   range    = ("input" | "output" | "scratch") "[" ( CHUNK | FIRST ":" END ) "]"
//   kind     = "raw" (read after write) | "war" (write after read) | "waw" (write after write)
//
// In recv_reduce the incoming operand, "rank 2", stands on the side where it is combined. Ranges are half open; a
// signal has [0:0]. Both ranges of a line name the same chunks. Ranks and steps are numbered without gaps.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/schedule/step.h"

namespace rondo {

std::string Print(const Schedule& schedule);
std::string Print(const RankSchedule& rank);  // from "rank R" on
std::string Print(const Step& step);          // without its number: "send output[2] to 1 transfer 2"

// Checks the grammar and that what is named twice agrees; whether the schedule makes sense is the verifier's business.
// kInvalidArgument names the line, what was expected and what stands there.
Result<Schedule> Parse(std::string_view text);

}  // namespace rondo
