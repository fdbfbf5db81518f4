// Frames with checksums (collectives/framing/frame_check.h), of collectives and of messages alike: made for seeds,
// and what must hold of any bytes that are taken for one.
#pragma once

#include <string>
#include <string_view>

namespace rondo::fuzz {

// `header` as an encoder leaves it, sealed; then the payload and what follows it.
std::string CheckedFrame(std::string_view header, std::string_view payload);

// Takes the beginning of `input` for a frame: nothing is believed that has not matched, however the stream is cut; what
// a sender seals matches; and no single bit can be turned without being found.
void CheckCheckedFrame(std::string_view input);

}  // namespace rondo::fuzz
