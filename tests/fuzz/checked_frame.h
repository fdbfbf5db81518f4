// Frames with checksums (collectives/framing/frame_check.h) of collectives and messages: makes them for seeds, and
// checks the properties that must hold for any bytes that are read as a frame.
#pragma once

#include <string>
#include <string_view>

namespace rondo::fuzz {

// Returns the encoded `header` with its checksum, followed by the payload and its trailer.
std::string CheckedFrame(std::string_view header, std::string_view payload);

// Reads the beginning of `input` as a frame, and checks three properties. Only data with a matching checksum is
// accepted, however the stream is cut. The checksums of a sender's frame match. A change of any single bit is detected.
void CheckCheckedFrame(std::string_view input);

}  // namespace rondo::fuzz
