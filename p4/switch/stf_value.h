// Values in lines of packet tests (STF). Errors are ControlErrors without a place.
#pragma once

#include <sidelatch/p4/bits.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sidelatch::p4::stf {

[[nodiscard]] std::string lowered(std::string text);
/// -1 for what is none.
[[nodiscard]] int hex_digit(char c);
/// 18, 0x12, 0b10010, 0o22.
[[nodiscard]] U128 value(const std::string& text);
/// The same, of at most 32 bits.
[[nodiscard]] std::uint32_t number(const std::string& text);

/// Of a key, an argument or an element of a register, which has `width` bits: as value(), or a MAC 02:00:00:00:00:01,
/// an IPv4 address 10.0.0.1, or of one bit also true and false. That a number fits is not looked at.
[[nodiscard]] U128 data_value(const std::string& text, unsigned width);
/// Whether it is one of those that value() does not take. All their bits count, whatever their digits are.
[[nodiscard]] bool is_named_value(const std::string& text);
/// The end of the MAC that begins at `at`; else `at`.
[[nodiscard]] std::size_t mac_at(std::string_view text, std::size_t at);
/// Of KEY:VALUE the colon between them, or npos. Both may have colons: the value if it has MACs.
[[nodiscard]] std::size_t colon_before_value(std::string_view text);

}  // namespace sidelatch::p4::stf
