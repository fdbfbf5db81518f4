// Schedules as text, for people, diffs and golden files. Parse(Print(s)) == s for every schedule whose unused fields
// have their defaults; the builder makes only such schedules. For example, rank 0 of an all_reduce by ring, in place,
// with a world size of 3:
//
//   schedule all_reduce ring world 3 root 0 in_place chunks 3
//   rank 0
//     0: send output[2] to 1 transfer 2
//     1: recv_reduce output[1] = output[1] op rank 2 transfer 1
//     2: send output[1] to 1 transfer 4 after 1 raw
//     3: recv_reduce output[0] = output[0] op rank 2 transfer 3 finish
//     ...
//
// The chunks that a rank keeps in scratch are listed before its steps. For example, the highest rank of a direct
// all_reduce holds its contribution back until the contributions of the lower ranks have arrived:
//
//   rank 2
//     scratch [0]
//     0: send output[0] to 0 transfer 1
//     1: send output[0] to 1 transfer 3
//     2: recv scratch[0] from 0 transfer 4
//     3: recv_reduce scratch[0] = rank 1 op scratch[0] transfer 5 after 2 raw
//     ...
//
// The grammar, line by line. Text after a '#' and empty lines are skipped; words are separated by blanks:
//
//   schedule = header { "rank" RANK [ "scratch" chunks { chunks } ] { step } }
//   header   = "schedule" COLLECTIVE ALGORITHM "world" N "root" RANK
//              ( "in_place" | "out_of_place" ) [ "scaled" ] [ "hosts" HOST { "," HOST } ] "chunks" N
//   step     = INDEX ":" what [ "scale" ] [ "finish" ] [ "after" INDEX kind { "," INDEX kind } ]
//   what     = "send" range "to" RANK "transfer" N
//            | "recv" range "from" RANK "transfer" N
//            | "recv_reduce" range "=" ( range "op" "rank" RANK | "rank" RANK "op" range ) "transfer" N
//            | "copy" range "=" range
//            | "reduce" range "=" range "op" range
//   range    = ( "input" | "output" | "scratch" ) chunks
//   chunks   = "[" ( CHUNK | FIRST ":" END ) "]"
//   kind     = "raw" (read after write) | "war" (write after read) | "waw" (write after write)
//
// In recv_reduce the incoming operand, "rank 2", is written on the side where it is combined. In reduce one operand is
// the destination. Ranges are half open; a signal has [0:0]. All ranges of a line name the same chunks. Ranks and steps
// are numbered without gaps; there is one host per rank.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "collectives/schedule/step.h"

namespace rondo {

std::string Print(const Schedule& schedule);
std::string Print(const RankSchedule& rank);  // begins with the line "rank R"
std::string Print(const Step& step);          // without its index: "send output[2] to 1 transfer 2"

// Checks the grammar, and that all ranges of a step name the same chunks. The verifier checks whether the schedule is
// right. kInvalidArgument: the message names the line, what was expected and what was found.
Result<Schedule> Parse(std::string_view text);

}  // namespace rondo
