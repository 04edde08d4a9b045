// The Emitter: what the target offers, and what is hashed.
#include "emitter.h"

#include <algorithm>

namespace sidelatch::p4 {

using ir::Do;

void Emitter::emit_extern(const ir::Statement& s) {
  switch (s.kind) {
    case Do::register_read:
      line(fmt::format("if (const std::uint64_t index = index_of({}); index < e.state.registers[{}].size()) {{",
                       value(s.expr), s.which));
      line(fmt::format("{} = e.state.registers[{}].read(index); }}", at(s.to), s.which));
      break;
    case Do::register_write:
      line(
          fmt::format("e.state.registers[{}].write(index_of({}), {});", s.which, value(s.exprs[0]), value(s.exprs[1])));
      break;
    case Do::count:
      line(fmt::format("count(e.state.counters[{}], index_of({}), e.packet);", s.which, value(s.expr)));
      break;
    case Do::hash:
      line(fmt::format("{{ const U128 base = {}; const U128 most = {};", value(s.exprs[0]), value(s.exprs[1])));
      data(s, 2);
      line(fmt::format("const U128 hashed = hash(HashAlgorithm({}), std::span(e.hashed).first(bytes));", s.which));
      line(fmt::format("{} = (most == 0 ? base : base + hashed % most) & ones({}); }}", at(s.to), s.count));
      break;
    case Do::verify_checksum: {
      line(fmt::format("if ({} != 0) {{ const U128 expected = {};", value(s.exprs[0]), value(s.exprs[1])));
      data(s, 2);
      line(fmt::format("e.checksum_error |= checksum(e, HashAlgorithm({}), bytes, {}) != expected; }}", s.which,
                       s.count != 0));
      break;
    }
    case Do::update_checksum: {
      line(fmt::format("if ({} != 0) {{", value(s.exprs[0])));
      data(s, 1);
      line(fmt::format("{} = checksum(e, HashAlgorithm({}), bytes, {}); }}", at(s.to), s.which, s.count != 0));
      break;
    }
    case Do::random:
      line(fmt::format("{} = draw(e.packet, {}, {});", at(s.to), value(s.exprs[0]), value(s.exprs[1])));
      break;
    case Do::clone:
      line(fmt::format("e.packet.clone = true; e.packet.clone_session = {}; e.packet.clone_list = {};", value(s.expr),
                       s.count));
      break;
    case Do::resubmit:
      line(fmt::format("e.packet.resubmit = true; e.packet.resubmit_list = {};", s.count));
      break;
    case Do::recirculate:
      line(fmt::format("e.packet.recirculate = true; e.packet.recirculate_list = {};", s.count));
      break;
    case Do::truncate:
      line(fmt::format("e.packet.truncate_to({});", value(s.expr)));
      break;
    case Do::digest:
      line("++e.packet.digests;");
      break;
    default:  // Do::assertion
      line(fmt::format("if ({} == 0) {{ e.packet.assertion_failed = true; }}", value(s.expr)));
      break;
  }
}

void Emitter::data(const ir::Statement& s, std::size_t first) {
  std::string all_valid;
  std::vector<int> seen;
  for (const int valid : s.valid) {
    if (valid >= 0 && std::find(seen.begin(), seen.end(), valid) == seen.end()) {
      seen.push_back(valid);
      all_valid += fmt::format("{}{} != 0", all_valid.empty() ? "" : " && ", value(valid));
    }
  }
  if (std::any_of(s.sizes.begin(), s.sizes.end(), [](int size) { return size >= 0; })) {
    line("std::size_t bytes = 0;\n{\nstd::size_t bits = 0;");
    append(s, first);
    line("}");
    return;
  }
  unsigned most = 0;
  bool has_parts = false;
  for (std::size_t i = first; i < s.exprs.size(); ++i) {
    has_parts = has_parts || most % 8 != 0 || expr(s.exprs[i]).width % 8 != 0;
    most += expr(s.exprs[i]).width;
  }
  line("std::size_t bytes = 0;");
  if (has_parts) {  // a part of a byte is written into what is there
    line(fmt::format("std::memset(e.hashed.data(), 0, {});", (most + 7) / 8));
  }
  line(all_valid.empty() ? "{" : fmt::format("if ({}) {{", all_valid));
  unsigned bits = 0;
  const auto width = [&](std::size_t i) { return expr(s.exprs[i]).width; };
  for (const Group& group : groups_of(first, s.exprs.size(), width)) {
    const auto field = [&](std::size_t i) { return value(s.exprs[i]); };
    line(fmt::format("write_field<{}, {}>(e.hashed.data(), {});", bits, group.bits, together(group, width, field)));
    bits += group.bits;
  }
  if (bits % 8 != 0) {
    line(fmt::format("write_field<{}, {}>(e.hashed.data(), 0U);", bits, 8 - bits % 8));
  }
  line(fmt::format("bytes = {};", (bits + 7) / 8));
  if (!all_valid.empty()) {
    line("} else {\nstd::size_t bits = 0;");
    append(s, first);
  }
  line("}");
}

void Emitter::append(const ir::Statement& s, std::size_t first) {
  for (std::size_t i = first; i < s.exprs.size(); ++i) {
    const int valid = s.valid[i - first];
    const int size = s.sizes.empty() ? -1 : s.sizes[i - first];
    const std::string width =
        size < 0 ? fmt::format("{}", expr(s.exprs[i]).width) : fmt::format("unsigned({})", value(size));
    const std::string add = fmt::format("append(e, bits, {}, {});", width, value(s.exprs[i]));
    line(valid < 0 ? add : fmt::format("if ({} != 0) {{ {} }}", value(valid), add));
  }
  line("bytes = fill_byte(e, bits);");
}

}  // namespace sidelatch::p4
